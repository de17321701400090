// What a Commit does: grants are checked, files written to.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/text.h"
#include "tests/unit/daemon/fake_shim.h"

namespace parkade::testing {
namespace {

Bytes Stored(Bytes bytes) { return RoundUp(bytes, 4096); }

}  // namespace

wire::Policy FakeShim::PolicyOf(const wire::Commit& commit, const std::string& tag) const {
  for (uint32_t i = 0; i < commit.tag_count; ++i) {
    if (ReadText(commit.tags[i].tag) == tag) return wire::Policy(commit.tags[i].policy);
  }
  return wire::Policy(commit.policy);
}

// Checks the grants as the real one does: what they do not cover is an error.
Result<void> FakeShim::Evict(wire::Packet& packet, const wire::Commit& commit) {
  Bytes host = 0, disk = 0, automatic = 0;
  for (const FakeAllocation& a : settings_.allocations) {
    const wire::Policy policy = PolicyOf(commit, a.tag);
    if (policy == wire::Policy::kHost) host += Stored(a.bytes);
    if (policy == wire::Policy::kDisk) disk += Stored(a.bytes);
    if (policy == wire::Policy::kAuto) automatic += Stored(a.bytes);
  }
  const auto short_of = [](const char* reason) {
    return MakeError(Code::kResourceExhausted, reason, "the grant does not suffice");
  };
  if (host > commit.host_bytes) return short_of("HOST_MEMORY");
  const Bytes moved = std::min(automatic, commit.host_bytes - host);
  host += moved;
  disk += automatic - moved;
  if (disk > commit.disk_bytes) return short_of("DISK_SPACE");
  if (disk > 0) {
    const size_t first = commit.has_lock;
    struct stat s;
    if (packet.fd_count != first + commit.file_count || commit.file_count == 0 ||
        fstat(packet.fds[first].get(), &s) != 0 || Bytes(s.st_size) < disk) {
      return short_of("DISK_SPACE");
    }
    if (commit.has_lock != 0) lock_ = std::move(packet.fds[0]);
    scratch_ = ReadText(commit.scratch);
    const uint64_t mark = 0x5041524b;
    if (pwrite(packet.fds[first].get(), &mark, sizeof mark, 0) != ssize_t(sizeof mark)) {
      return OsError(errno, "write backup");
    }
  }
  host_bytes_ = stats_.host_bytes = host;
  disk_bytes_ = stats_.disk_bytes = disk;
  SetPlaces(disk > 0 ? wire::Place::kDisk : wire::Place::kHost);
  return {};
}

}  // namespace parkade::testing
