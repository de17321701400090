// Writes what it is about.
#include "daemon/begun.h"

#include <utility>

namespace parkade::daemon {

Begun::Begun(Journal& journal, OperationKind kind, std::span<const Member> members,
             const Origin& origin, PartsBack parts)
    : journal_(journal) {
  BegunOperation operation;
  operation.kind = kind;
  operation.origin = origin;
  for (const Member& m : members) {
    operation.parties.push_back({m.process->identity(), IsOut(m.process->State())});
  }
  operation.parts = std::move(parts);
  number_ = journal_.Begin(std::move(operation));
}

}  // namespace parkade::daemon
