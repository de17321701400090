// Authority: who is at the other end of a control connection, kept from its accept until its RPCs.
// Knows no gRPC: a connection is named as gRPC names its peer, by descriptor number.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "daemon/identity.h"
#include "daemon/selector.h"

namespace parkade::daemon {

class Authority {
 public:
  // `group`: its members see all processes; an unknown group has no members. `clients`: names in
  // certificates whose bearers act as members.
  explicit Authority(const std::string& group, std::vector<std::string> clients = {});

  // Moves an accepted socket to a descriptor number that has not been used for long, so that an
  // RPC still on its way out of an ended connection is never taken for the next one's, and notes
  // whose it is.
  absl::StatusOr<Fd> Note(Fd accepted) EXCLUDES(mu_);

  // Of an RPC, by ServerContext::peer(), and the names in the certificate that the connection's
  // handshake has verified, if it had one. UNAUTHENTICATED (NO_CREDENTIALS) for a connection that
  // was not noted and has no certificate, PERMISSION_DENIED (NOT_A_CLIENT) for names that are not
  // among the clients.
  absl::StatusOr<Caller> CallerOf(std::string_view peer,
                                  const std::vector<std::string>& names = {}) const EXCLUDES(mu_);

 private:
  static constexpr int kLowest = 4096;  // below are the descriptors of everything else

  Caller Judge(const Peer& peer) const;

  const std::optional<gid_t> group_;
  const std::set<std::string> clients_;
  const int ceiling_;
  mutable Mutex mu_;  // innermost
  int next_ GUARDED_BY(mu_) = kLowest;
  std::map<int, Caller> callers_ GUARDED_BY(mu_);
};

}  // namespace parkade::daemon
