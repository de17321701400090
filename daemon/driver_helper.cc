// Declares the few driver calls that are needed: headers before CUDA 12.8 lack them.
#include "daemon/driver_helper.h"

#include <dlfcn.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/text.h"
#include "daemon/identity.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr unsigned kOpenSeconds = 60;  // cuInit takes seconds where there are many GPUs
constexpr unsigned kGraceSeconds = 2;
constexpr int32_t kUnknown = 999;  // CUDA_ERROR_UNKNOWN

// CUcheckpointLockArgs; the others are all zero, 64 bytes at most.
struct LockArgs {
  unsigned timeout_ms;
  unsigned zero;
  uint64_t zeroes[7];
};
struct NoArgs {
  uint64_t zeroes[8];
};

struct Driver {
  int (*init)(unsigned);
  int (*error_name)(int, const char**);
  int (*state)(int pid, int* state);
  int (*lock)(int pid, LockArgs*);
  int (*checkpoint)(int pid, NoArgs*);
  int (*restore)(int pid, NoArgs*);
  int (*unlock)(int pid, NoArgs*);
};

std::string NameOfError(const Driver& driver, int result) {
  const char* name = nullptr;
  if (driver.error_name(result, &name) != 0 || name == nullptr) name = "CUDA_ERROR_UNKNOWN";
  return name;
}

// Empty, or why there is no driver with these calls.
std::string Open(Driver& driver) {
  // Which GPUs the daemon's environment shows is of no matter to the process.
  unsetenv("CUDA_VISIBLE_DEVICES");
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Cat("no driver: ", dlerror());
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(driver.init, "cuInit");
  find(driver.error_name, "cuGetErrorName");
  find(driver.state, "cuCheckpointProcessGetState");
  find(driver.lock, "cuCheckpointProcessLock");
  find(driver.checkpoint, "cuCheckpointProcessCheckpoint");
  find(driver.restore, "cuCheckpointProcessRestore");
  find(driver.unlock, "cuCheckpointProcessUnlock");
  if (missing != nullptr) return Cat("the driver has no ", missing, ": it is older than 570");
  // Without it a restore wants persistence mode.
  if (const int r = driver.init(0); r != 0) return Cat("cuInit: ", NameOfError(driver, r));
  return {};
}

DriverReply Carry(const Driver& driver, int pid, const DriverAsk& ask) {
  DriverReply reply{};
  NoArgs none{};
  switch (DriverCall(ask.call)) {
    case DriverCall::kState: {
      int state = 0;
      reply.result = driver.state(pid, &state);
      reply.state = uint32_t(state);
      break;
    }
    case DriverCall::kLock: {
      LockArgs args{ask.limit_ms, 0, {}};
      reply.result = driver.lock(pid, &args);
      break;
    }
    case DriverCall::kCheckpoint:
      reply.result = driver.checkpoint(pid, &none);
      break;
    case DriverCall::kRestore:
      reply.result = driver.restore(pid, &none);
      break;
    case DriverCall::kUnlock:
      reply.result = driver.unlock(pid, &none);
      break;
    default:
      reply.result = kUnknown;
  }
  if (reply.result != 0) CopyText(reply.text, NameOfError(driver, reply.result));
  return reply;
}

// The driver is called with no more rights than the process itself has. False: it cannot be.
bool BecomeUser(pid_t pid, uid_t uid, gid_t gid) {
  if (geteuid() != 0 || uid == 0) return true;
  const auto groups = GroupsOf(pid);
  return setgroups(groups.size(), groups.data()) == 0 && setgid(gid) == 0 && setuid(uid) == 0;
}

bool Say(const DriverReply& reply) {
  return send(STDIN_FILENO, &reply, sizeof reply, MSG_NOSIGNAL) == ssize_t(sizeof reply);
}

}  // namespace

const char* NameOf(DriverCall call) {
  switch (call) {
    case DriverCall::kState:
      return "cuCheckpointProcessGetState";
    case DriverCall::kLock:
      return "cuCheckpointProcessLock";
    case DriverCall::kCheckpoint:
      return "cuCheckpointProcessCheckpoint";
    case DriverCall::kRestore:
      return "cuCheckpointProcessRestore";
    case DriverCall::kUnlock:
      return "cuCheckpointProcessUnlock";
  }
  return "";
}

int RunDriverHelper(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto pid = ReadNumber<pid_t>(argv[2]);
  const auto uid = ReadNumber<uid_t>(argv[3]);
  const auto gid = ReadNumber<gid_t>(argv[4]);
  if (!pid || !uid || !gid) return 2;
  prctl(PR_SET_NAME, "parkaded-driver");
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);

  // A call that hangs ends the helper, also when the daemon is gone by then.
  alarm(kOpenSeconds);
  Driver driver{};
  std::string missing = "its user cannot be taken on";
  if (BecomeUser(*pid, *uid, *gid)) missing = Open(driver);
  DriverReply ready{};
  if (!missing.empty()) ready.result = DriverReply::kNoDriver;
  CopyText(ready.text, missing);
  alarm(0);
  if (!Say(ready) || !missing.empty()) return 0;
  DriverAsk ask;
  while (recv(STDIN_FILENO, &ask, sizeof ask, 0) == ssize_t(sizeof ask)) {
    alarm(ask.limit_ms / 1000 + 1 + kGraceSeconds);
    const DriverReply reply = Carry(driver, *pid, ask);
    alarm(0);
    if (!Say(reply)) break;
  }
  return 0;
}

}  // namespace parkade::daemon
