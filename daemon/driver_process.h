// DriverProcess: the driver's checkpoint calls about one process, made in a helper of their own.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/fd.h"
#include "daemon/driver_helper.h"
#include "daemon/earlier_helpers.h"
#include "daemon/process.h"

namespace parkade::daemon {

// One thread at a time. A call that is late ends the helper, and the next call starts another one.
class DriverProcess {
 public:
  // CUprocessState.
  enum class State : uint32_t { kRunning, kLocked, kCheckpointed, kFailed };

  struct Helper {
    std::string path = "/proc/self/exe";                      // parkaded
    uint64_t start_ms = 60'000;                               // until it has opened the driver
    std::shared_ptr<const EarlierHelpers> earlier = nullptr;  // waited for, as long as that
  };

  // Starts the helper and does not wait for it.
  DriverProcess(std::shared_ptr<Process> process, Helper helper);
  ~DriverProcess() { End(); }
  DriverProcess(const DriverProcess&) = delete;
  DriverProcess& operator=(const DriverProcess&) = delete;

  // FAILED_PRECONDITION (DEEP_UNSUPPORTED), RESOURCE_EXHAUSTED (GPU_MEMORY), INTERNAL
  // (CUDA_<name>), UNAVAILABLE (DRIVER_STALLED: no answer within `limit_ms` and 2 s, what came of
  // the call is not known; PROCESS_ENDED).
  absl::StatusOr<State> AskState(uint64_t limit_ms);
  absl::Status Do(DriverCall call, uint64_t limit_ms);

 private:
  absl::Status Start();
  // Waits for its first word.
  absl::Status AwaitReady();
  absl::StatusOr<DriverReply> Call(DriverCall call, uint64_t limit_ms);
  // Waits for the helper's next word; without one it ends the helper. `what` it is about.
  absl::StatusOr<DriverReply> Receive(Deadline by, const char* what);
  void End();

  const std::shared_ptr<Process> process_;
  const Helper helper_;
  pid_t child_ = -1;
  Fd socket_;
  bool ready_ = false;
};

}  // namespace parkade::daemon
