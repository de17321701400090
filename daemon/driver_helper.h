// The driver helper: parkaded run again, to make the driver's checkpoint calls about one process.
// It may hang or crash with the driver, and the daemon does not.
#pragma once

#include <cstdint>

namespace parkade::daemon {

// First argument of the helper; pid, uid and gid of the process follow, and standard input is a
// SOCK_SEQPACKET socket: a DriverReply when the driver is open, then one for each DriverAsk.
constexpr char kDriverHelperFlag[] = "--driver-helper";

enum class DriverCall : uint32_t { kState = 1, kLock, kCheckpoint, kRestore, kUnlock };
// As cuda.h names it.
const char* NameOf(DriverCall call);

struct DriverAsk {
  uint32_t call;      // DriverCall
  uint32_t limit_ms;  // of Lock: until then; the helper ends when any call takes 2 s longer
};

struct DriverReply {
  static constexpr int32_t kNoDriver = -1;
  int32_t result;  // CUresult or kNoDriver
  uint32_t state;  // CUprocessState, of kState
  char text[120];  // the result's name, or why there is no driver
};

// Serves until the other end closes its socket. The daemon's user if that is not root, else the
// process's. Returns the exit code.
int RunDriverHelper(int argc, char** argv);

}  // namespace parkade::daemon
