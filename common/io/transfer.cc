// Judges what one system call did for a request.
#include "common/io/transfer.h"

#include <cerrno>

namespace parkade {
namespace {

// Enough for a storm of signals; a file system that moves nothing so often will not move at all.
constexpr uint32_t kMaxStalls = 64;

constexpr Bytes kDirectBlock = 4096;

}  // namespace

Transfer::Next Transfer::Fail(Error error) {
  result_ = error;
  return Next::kEnded;
}

Transfer::Next Transfer::Advance(int64_t outcome) {
  const bool reads = request_.kind == IoRequest::Kind::kRead;
  const char* verb = reads ? "reading" : "writing";
  const auto at = static_cast<unsigned long long>(offset());
  const auto wanted = static_cast<unsigned long long>(bytes());
  if (outcome < 0 && outcome != -EINTR && outcome != -EAGAIN) {
    return Fail(OsError(int(-outcome), "%s %llu bytes at %llu of file %u", verb, wanted, at,
                        request_.file));
  }
  if (outcome == 0 && reads && wanted != 0) {
    return Fail(MakeError(Code::kDataLoss, "BACKUP_MISSING",
                          "file %u ends at %llu, %llu bytes short", request_.file, at, wanted));
  }
  Bytes moved = outcome > 0 ? std::min(Bytes(outcome), bytes()) : 0;
  // A direct transfer that stopped inside a block can only go on at the block's start.
  const bool aligned = request_.offset % kDirectBlock == 0 && request_.bytes % kDirectBlock == 0;
  if (aligned && moved < bytes()) moved -= moved % kDirectBlock;
  done_ += moved;
  if (done_ == request_.bytes) return Next::kEnded;
  stalls_ = moved == 0 ? stalls_ + 1 : 0;
  if (stalls_ < kMaxStalls) return Next::kCallAgain;
  if (reads && outcome > 0) {
    return Fail(MakeError(Code::kDataLoss, "BACKUP_MISSING",
                          "file %u ends inside the block at %llu", request_.file, at));
  }
  return Fail(OsError(outcome < 0 ? int(-outcome) : EIO, "%s at %llu of file %u: no progress", verb,
                      at, request_.file));
}

}  // namespace parkade
