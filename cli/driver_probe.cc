// Loads the driver in a child, which writes one struct into a pipe and ends.
#include "cli/driver_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/clock.h"
#include "common/fd.h"

namespace parkade::cli {
namespace {

// CUdevice_attribute, as cuda.h numbers them.
constexpr int kVirtualMemory = 102;
constexpr int kPosixFileDescriptor = 103;
constexpr int kRdmaWithVirtualMemory = 110;

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

DriverFacts AskHere() {
  DriverFacts facts;
  facts.answered = 1;
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !Find(library, "cuInit", init) ||
      !Find(library, "cuDriverGetVersion", version) || !Find(library, "cuDeviceGetCount", count) ||
      !Find(library, "cuDeviceGetAttribute", attribute)) {
    return facts;
  }
  facts.loaded = 1;
  version(&facts.version);
  facts.init = init(0);
  if (facts.init != 0 || count(&facts.gpus) != 0) return facts;
  for (int gpu = 0; gpu < facts.gpus; ++gpu) {
    const auto has = [&](int which) {
      int value = 0;
      return attribute(&value, which, gpu) == 0 && value != 0;
    };
    facts.virtual_memory += has(kVirtualMemory);
    facts.exportable += has(kPosixFileDescriptor);
    facts.rdma += has(kRdmaWithVirtualMemory);
  }
  return facts;
}

// What the driver prints is not ours to show.
void Silence() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
}

bool ReadBy(const Fd& pipe, absl::Time by, DriverFacts& facts) {
  size_t got = 0;
  while (got < sizeof facts) {
    const int64_t left_ms = absl::ToInt64Milliseconds(by - absl::Now());
    pollfd wanted{pipe.get(), POLLIN, 0};
    const int ready = poll(&wanted, 1, int(std::max<int64_t>(left_ms, 0)));
    if (ready == 0) return false;
    if (ready < 0) continue;
    const ssize_t n = read(pipe.get(), reinterpret_cast<char*>(&facts) + got, sizeof facts - got);
    if (n <= 0) return false;  // it ended before it had written all
    got += size_t(n);
  }
  return true;
}

}  // namespace

DriverFacts AskDriver(absl::Duration longest) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    Silence();
    const DriverFacts facts = AskHere();
    const ssize_t written = write(to.get(), &facts, sizeof facts);
    _exit(written == ssize_t(sizeof facts) ? 0 : 1);
  }
  to.Reset();
  DriverFacts facts;
  if (!ReadBy(from, absl::Now() + longest, facts)) facts = {};
  kill(child, SIGKILL);
  // One that hangs inside the kernel does not even end by that: it is then left to init.
  if (facts.answered != 0) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  } else {
    waitpid(child, nullptr, WNOHANG);
  }
  return facts;
}

}  // namespace parkade::cli
