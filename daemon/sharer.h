// Sharer: lets processes that take turns share GPUs with no orchestrator. When one of them lacks
// memory it has others paused for it, in the order of `turns`, as ordinary operations of their
// user.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "daemon/gpu_account.h"
#include "daemon/node_state.h"
#include "daemon/operations.h"
#include "daemon/party.h"
#include "daemon/registry.h"
#include "daemon/reservations.h"
#include "daemon/turns.h"

namespace parkade::daemon {

class Sharer {
 public:
  // All outlive it.
  struct Neighbours {
    Registry& registry;
    NodeState& node;
    Operations& operations;
    GpuAccount& account;
    Reservations& reservations;
  };
  // Whoever holds the memory may have started a moment ago, and be known here only then: an ask
  // that nobody could make room for is refused after `hope_ns`.
  Sharer(Neighbours neighbours, uint64_t quantum_ns, uint64_t hope_ns = 2'000'000'000);
  ~Sharer() { Stop(); }

  // What the process waits for now; takes the place of what it asked for before. Any thread; does
  // not wait.
  void Asks(std::shared_ptr<Process> process, const wire::AskTurn& ask) EXCLUDES(mu_);

  // Begins no turn any more, and waits for those under way.
  void Stop() EXCLUDES(mu_);

 private:
  struct Ask {
    std::shared_ptr<Process> process;
    uint64_t number = 0;  // the shim's, of its message
    bool work = false;
    ByGpu bytes;
  };
  // What a party asks for in all.
  struct Want {
    const Party* party = nullptr;
    ByGpu bytes;
  };
  using Wants = std::map<std::string, Want>;
  // One that is being carried out.
  struct Turn {
    Party comes;
    std::vector<Party> leave;
    ByGpu bytes;                 // that it asked for, beside what it lacks
    std::set<std::string> gpus;  // on which nobody else's turn begins meanwhile
    uint64_t begun_ns = 0;
    bool ended = false;  // under mu_, as is what follows
    absl::Status status;
    std::thread thread;  // last
  };
  // Room that was made for allocations, and is theirs until then.
  struct Grant {
    ByGpu bytes;
    uint64_t until_ns = 0;
  };
  // One look at everything.
  struct Sight {
    std::vector<Party> parties;
    Wants wants;
    std::set<std::string> blocked;  // GPUs on which somebody goes first
    ByGpu promised;
    uint64_t now_ns = 0;
    uint64_t again_ns = 0;  // when to look again
  };

  void Loop();
  // Decides for all who ask; returns when to look again.
  uint64_t Look() EXCLUDES(mu_);
  Wants WantsOf(const std::vector<Party>& parties, const std::vector<Ask>& asks);
  void Decide(const std::string& key, const Want& want, Sight& sight);
  // Of the GPUs that `needs` names, less what is promised. Empty: of one there are no figures.
  std::optional<ByGpu> FreeFor(const ByGpu& needs, const ByGpu& promised) const;
  void Begin(const Want& want, const std::vector<std::string>& leave, const ByGpu& needs,
             const Sight& sight);
  // On a thread of its own.
  absl::Status Carry(const Turn& turn);
  absl::Status Pause(const Turn& turn, const std::string& request_id);
  absl::Status Resume(uid_t uid, const std::vector<Party>& parties, const std::string& request_id);
  void TakeEnded() EXCLUDES(mu_);
  void Refuse(const Party& party, const absl::Status& why) EXCLUDES(mu_);

  const Neighbours to_;
  const uint64_t quantum_ns_, hope_ns_;

  Mutex mu_;  // not held while anything is asked, told or waited for
  CondVar changed_;
  std::map<const Process*, Ask> asks_ GUARDED_BY(mu_);
  bool fresh_ GUARDED_BY(mu_) = false;  // something to look at
  bool ending_ GUARDED_BY(mu_) = false;

  // The loop's alone.
  Turns turns_;
  std::list<Turn> under_way_;
  std::map<std::string, Grant> granted_;
  std::map<std::string, uint64_t> hopeless_since_;  // nobody could make room for it

  std::thread thread_;  // last
};

}  // namespace parkade::daemon
