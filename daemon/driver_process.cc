// Starts a helper, asks it, and ends it when it is late.
#include "daemon/driver_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/log.h"
#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kGraceMs = 2000;
constexpr int kEndMs = 1000;         // for a killed helper to be gone
constexpr int32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

bool IsReadable(int fd, int ms) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, ms) == 1;
}

// Starts `path` with the socket as its standard input. 0, or an errno.
int Spawn(const std::string& path, const Process& process, int socket, pid_t* child) {
  const Identity& identity = process.identity();
  const std::array<std::string, 5> words{path, kDriverHelperFlag, std::to_string(identity.pid),
                                         std::to_string(identity.uid),
                                         std::to_string(identity.gid)};
  std::array<char*, 6> argv{};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = const_cast<char*>(words[i].c_str());
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, handled;
  sigemptyset(&none);
  sigemptyset(&handled);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGALRM}) sigaddset(&handled, signal);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &handled);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(child, path.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

DriverProcess::DriverProcess(std::shared_ptr<Process> process, Helper helper)
    : process_(std::move(process)), helper_(std::move(helper)) {
  // What is wrong with it the first call tells.
  [[maybe_unused]] const absl::Status started = Start();
}

absl::Status DriverProcess::Start() {
  if (child_ > 0) return absl::OkStatus();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ToStatus(OsError(errno, "socketpair"));
  }
  socket_.Reset(ends[0]);
  const Fd theirs(ends[1]);
  if (const int error = Spawn(helper_.path, *process_, theirs.get(), &child_); error != 0) {
    child_ = -1;
    socket_.Reset();
    return ToStatus(OsError(error, "start the driver helper %s", helper_.path.c_str()));
  }
  ready_ = false;
  return absl::OkStatus();
}

void DriverProcess::End() {
  if (child_ <= 0) return;
  socket_.Reset();
  const Fd pidfd(int(syscall(SYS_pidfd_open, child_, 0)));
  kill(child_, SIGKILL);
  if (!IsReadable(pidfd.get(), kEndMs) || waitpid(child_, nullptr, WNOHANG) != child_) {
    Log(LogLevel::kError, "the driver helper %d does not end: it hangs in the driver", child_);
  }
  child_ = -1;
}

absl::StatusOr<DriverReply> DriverProcess::Receive(Deadline by, const char* what) {
  DriverReply reply;
  const bool in_time = IsReadable(socket_.get(), by.LeftMs());
  if (in_time && recv(socket_.get(), &reply, sizeof reply, 0) == ssize_t(sizeof reply)) {
    return reply;
  }
  End();
  return Fail(absl::StatusCode::kUnavailable, "DRIVER_STALLED",
              Cat("process ", process_->pid(), ": ", what,
                  in_time ? ": the helper that called the driver has ended"
                          : ": the driver did not answer"),
              {{"pid", std::to_string(process_->pid())}, {"call", what}});
}

absl::Status DriverProcess::AwaitReady() {
  if (auto s = Start(); !s.ok() || ready_) return s;
  const Identity& identity = process_->identity();
  if (helper_.earlier != nullptr &&
      !helper_.earlier->AwaitEnd(identity.pid, identity.uid, Deadline::InMs(helper_.start_ms))) {
    return Fail(absl::StatusCode::kUnavailable, "DRIVER_STALLED",
                Cat("process ", identity.pid, ": an earlier daemon's call of the driver goes on"),
                {{"pid", std::to_string(identity.pid)}});
  }
  const auto word = Receive(Deadline::InMs(helper_.start_ms), "cuInit");
  if (!word.ok()) return word.status();
  if (word->result == DriverReply::kNoDriver) {
    End();
    return Fail(absl::StatusCode::kFailedPrecondition, "DEEP_UNSUPPORTED",
                Printable(ReadText(word->text)), {{"pid", std::to_string(process_->pid())}});
  }
  ready_ = true;
  return absl::OkStatus();
}

absl::StatusOr<DriverReply> DriverProcess::Call(DriverCall call, uint64_t limit_ms) {
  if (auto s = AwaitReady(); !s.ok()) return s;
  Metadata metadata{{"pid", std::to_string(process_->pid())}, {"call", NameOf(call)}};
  // From its end on the number may be another process's.
  if (IsReadable(process_->pidfd(), 0)) {
    return Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                Cat("process ", process_->pid(), " has ended"), metadata);
  }
  const DriverAsk ask{uint32_t(call), uint32_t(limit_ms)};
  // An end of the helper shows in the answer.
  [[maybe_unused]] const ssize_t sent = send(socket_.get(), &ask, sizeof ask, MSG_NOSIGNAL);
  auto reply = Receive(Deadline::InMs(limit_ms + kGraceMs), NameOf(call));
  if (!reply.ok() || reply->result == 0) return reply;
  metadata["cuda"] = std::to_string(reply->result);
  const std::string name = Printable(ReadText(reply->text));
  const bool no_room = reply->result == kOutOfMemory;
  return Fail(
      no_room ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      no_room ? "GPU_MEMORY" : name,
      Cat("process ", process_->pid(), ": ", NameOf(call), ": ", name, " (", reply->result, ")"),
      metadata);
}

absl::StatusOr<DriverProcess::State> DriverProcess::AskState(uint64_t limit_ms) {
  const auto reply = Call(DriverCall::kState, limit_ms);
  if (!reply.ok()) return reply.status();
  if (reply->state <= uint32_t(State::kFailed)) return State(reply->state);
  return Fail(absl::StatusCode::kInternal, "CUDA_ERROR_UNKNOWN",
              Cat("process ", process_->pid(), ": the driver names a state ", reply->state),
              {{"pid", std::to_string(process_->pid())}});
}

absl::Status DriverProcess::Do(DriverCall call, uint64_t limit_ms) {
  return Call(call, limit_ms).status();
}

}  // namespace parkade::daemon
