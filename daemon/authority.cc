// Maps descriptor numbers to users.
#include "daemon/authority.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr uid_t kNoUser = uid_t(-1);

std::optional<gid_t> GroupId(const std::string& name) {
  const group* found = getgrnam(name.c_str());
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

int Ceiling() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return int(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

}  // namespace

Authority::Authority(const std::string& group, std::vector<std::string> clients)
    : group_(GroupId(group)), clients_(clients.begin(), clients.end()), ceiling_(Ceiling()) {}

absl::StatusOr<Fd> Authority::Note(Fd accepted) {
  auto peer = PeerOf(accepted.get());
  if (!peer.ok()) return peer.status();
  const Caller caller = Judge(*peer);
  const MutexLock lock(mu_);
  // Where the limit leaves no room above, numbers are taken from half of what there is.
  const int lowest = std::min(kLowest, ceiling_ / 2);
  if (next_ >= ceiling_ || next_ < lowest) next_ = lowest;
  int moved = fcntl(accepted.get(), F_DUPFD_CLOEXEC, next_);
  if (moved < 0 && next_ > lowest) moved = fcntl(accepted.get(), F_DUPFD_CLOEXEC, lowest);
  if (moved < 0) return ToStatus(OsError(errno, "take a descriptor for a connection"));
  next_ = moved + 1;
  callers_[moved] = caller;
  return Fd(moved);
}

Caller Authority::Judge(const Peer& peer) const {
  const auto& groups = peer.groups;
  const bool member = group_ && (peer.gid == *group_ ||
                                 std::find(groups.begin(), groups.end(), *group_) != groups.end());
  return {peer.uid, peer.uid == 0 || member};
}

absl::StatusOr<Caller> Authority::CallerOf(std::string_view peer,
                                           const std::vector<std::string>& names) const {
  if (!names.empty()) {
    // A user of another machine is none of ours, so he owns no process here.
    const auto known = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return clients_.contains(name);
    });
    if (known != names.end()) return Caller{kNoUser, true, *known};
    return Fail(absl::StatusCode::kPermissionDenied, "NOT_A_CLIENT",
                Cat("the certificate of ", Printable(Join(names, ", ")), " is not in tcp.clients"));
  }
  constexpr std::string_view kPrefix = "fd:";
  if (peer.starts_with(kPrefix)) {
    const auto number = ReadNumber<int>(peer.substr(kPrefix.size()));
    const MutexLock lock(mu_);
    const auto at = number ? callers_.find(*number) : callers_.end();
    if (at != callers_.end()) return at->second;
  }
  return Fail(absl::StatusCode::kUnauthenticated, "NO_CREDENTIALS",
              Cat("nothing is known of the peer ", peer));
}

}  // namespace parkade::daemon
