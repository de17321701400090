// Begun: a transition in the journal, for the next daemon, while it is under way.
#pragma once

#include <span>

#include "daemon/journal.h"
#include "daemon/member.h"

namespace parkade::daemon {

// From before the first message until the processes are where they stay. Made after the claim and
// so gone before it.
class Begun {
 public:
  Begun(Journal& journal, OperationKind kind, std::span<const Member> members, const Origin& origin,
        PartsBack parts = {});
  ~Begun() { journal_.End(number_); }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

 private:
  Journal& journal_;
  uint64_t number_;
};

}  // namespace parkade::daemon
