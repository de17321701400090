// Reads and writes tie maps.
#include "shim/stream/tie_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

namespace parkade::shim {
namespace {

constexpr uint64_t kMemoryMs = 60'000;

}  // namespace

Result<std::unique_ptr<TieFile>> TieFile::Make(StreamTools& tools) {
  std::unique_ptr<TieFile> made(new TieFile(tools));
  Bytes most = store::kFileAlign;
  for (const store::Bucket& bucket : tools.layout.buckets()) {
    most = std::max(most, RoundUp(store::TieBitsBytes(bucket.numel), store::kFileAlign));
  }
  auto taken = tools.pool.Take(most, most, HostPool::For::kStage, Deadline::InMs(kMemoryMs));
  if (!taken.ok()) return taken.error();
  made->bits_ = std::move(*taken);
  auto mapped = MapPages(RoundUp(most, 2_MiB));
  if (!mapped.ok()) return mapped.error();
  made->packed_ = *mapped;
  made->bytes_ = RoundUp(most, 2_MiB);
  return made;
}

TieFile::~TieFile() {
  if (packed_ != nullptr) UnmapPages(packed_, bytes_);
}

Result<void> TieFile::Read(uint32_t number, uint32_t file, uint32_t count) {
  const store::Bucket& bucket = tools_.bucket(number);
  const Bytes packed = store::TieMapBytes(count, bucket.numel);
  char* const to = packed_;
  for (Bytes done = 0, all = RoundUp(packed, store::kFileAlign); done < all;) {
    const ssize_t n =
        pread(tools_.files.fds()[file], to + done, all - done, off_t(bucket.ties.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "reading the tie map of bucket %u", number);
    done += Bytes(n);
  }
  return store::UnpackTies({reinterpret_cast<const uint8_t*>(to), packed}, count,
                           {reinterpret_cast<uint32_t*>(bits()), bucket.numel / 32});
}

Result<uint32_t> TieFile::Write(uint32_t number, uint32_t file) {
  const store::Bucket& bucket = tools_.bucket(number);
  const std::span<const uint32_t> bits(reinterpret_cast<const uint32_t*>(this->bits()),
                                       bucket.numel / 32);
  const uint32_t count = store::CountTies(bits);
  const Bytes packed = store::TieMapBytes(count, bucket.numel);
  const Bytes all = RoundUp(packed, store::kFileAlign);
  char* const from = packed_;
  store::PackTies(bits, count, {reinterpret_cast<uint8_t*>(from), packed});
  memset(from + packed, 0, all - packed);
  for (Bytes done = 0; done < all;) {
    const ssize_t n =
        pwrite(tools_.files.fds()[file], from + done, all - done, off_t(bucket.ties.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "writing the tie map of bucket %u", number);
    done += Bytes(n);
  }
  return count;
}

}  // namespace parkade::shim
