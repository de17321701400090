// DeepPause: hands paused processes to the driver's process checkpoint, and takes them back.
//
// What was asked of the driver it may have done whatever it answers: its own word on each process's
// state decides what is done next and what is told.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/driver_process.h"
#include "daemon/events.h"
#include "daemon/gpu_account.h"
#include "daemon/gpus.h"
#include "daemon/journal.h"
#include "daemon/member.h"

namespace parkade::daemon {

class DeepPause {
 public:
  struct Limits {
    uint64_t lock_ms = 5000;     // nothing runs any more: a lock is a matter of milliseconds
    uint64_t move_ms = 120'000;  // of a checkpoint or restore; 2 GB/s have been seen
    uint64_t other_ms = 10'000;
  };
  struct Settings {
    DriverProcess::Helper helper = {};
    Limits limits = {};
  };

  // Starts a helper for each member, which opens the driver meanwhile. The members are claimed, and
  // they and the others outlive it. Nobody sends a message that touches the GPU to a process that
  // is marked.
  DeepPause(const std::vector<Member*>& members, Events& events, const Gpus& gpus,
            const Settings& settings);

  // All of them are paused. Locks all, then checkpoints all; when one cannot be locked none is.
  // Fills `deep` of each, with a refusal where it is not. A mark stands, in the journal too, from
  // before the first call on for as long as the driver may have the process.
  void Down(const Journal& journal);
  // Brings those that are marked, and not `already` where they are to be, back to where the driver
  // had them before Down. The first failure; those that it is about keep their mark: GPU_MEMORY,
  // CHECKPOINT_FAILED, otherwise as DriverProcess. Fills `deep` of the others. May be tried again.
  absl::Status Up();
  // Of marks that an earlier daemon has left: what the driver has checkpointed stays so, what was
  // in the middle is brought back.
  void Settle();

 private:
  struct Party {
    Member* member;
    std::unique_ptr<DriverProcess> driver;
    GpuAccount::ByGpu used;  // by the driver's count, before the checkpoint; 0: it does not say
  };

  // All at once, each on a thread of its own.
  void ForEach(const std::function<void(Party&)>& work);
  void Mark(const Party& party, DeepMark mark);
  absl::Status CheckState(Party& party);
  absl::Status BringUp(Party& party);
  // After a refusal, which stays with who refuses: the others name it. False: nobody does.
  bool AnyRefuses();
  void LetGo(Party& party);
  GpuAccount::ByGpu FreeNow() const;
  GpuAccount::ByGpu FreedBy(const Party& party, const GpuAccount::ByGpu& before,
                            const GpuAccount::ByGpu& after) const;

  Events& events_;
  const Gpus& gpus_;
  const Limits limits_;
  std::vector<Party> parties_;
};

// Why the driver cannot have this process, as far as its ledger says: FAILED_PRECONDITION
// (NOT_ALL_OUT, FOREIGN_MEMORY, NOT_VISIBLE).
absl::Status CheckDeep(const Process& process);

}  // namespace parkade::daemon
