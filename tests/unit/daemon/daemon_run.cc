// Starts and asks real processes.
#include "tests/unit/daemon/daemon_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/deadline.h"
#include "proto/error.pb.h"

extern char** environ;

namespace parkade::testing {
namespace {

constexpr uint64_t kPatienceMs = 10'000;

// A condition that no descriptor announces is asked for every 2 ms.
template <typename Condition>
bool Eventually(Condition condition) {
  for (const Deadline by = Deadline::InMs(kPatienceMs); !by.Passed(); poll(nullptr, 0, 2)) {
    if (condition()) return true;
  }
  return false;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int to[2], from[2];
  REQUIRE(pipe2(to, O_CLOEXEC) == 0);
  REQUIRE(pipe2(from, O_CLOEXEC) == 0);
  std::vector<char*> words, settings;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  for (char** e = environ; *e != nullptr; ++e) settings.push_back(*e);
  for (const auto& e : environment) settings.push_back(const_cast<char*>(e.c_str()));
  settings.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  const int failed = posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), settings.data());
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  in_ = to[1];
  out_ = from[0];
  INFO(command[0]);
  REQUIRE(failed == 0);
}

Child::~Child() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(in_);
  close(out_);
}

std::string Child::Line() {
  std::string line;
  for (;;) {
    pollfd p{out_, POLLIN, 0};
    char c;
    if (poll(&p, 1, int(kPatienceMs)) <= 0 || read(out_, &c, 1) != 1) return "";
    if (c == '\n') return line;
    line += c;
  }
}

void Child::Write(const std::string& text) {
  REQUIRE(write(in_, text.data(), text.size()) == ssize_t(text.size()));
}

void Child::Signal(int number) { kill(pid_, number); }

int Child::Wait() {
  int status = 0;
  if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string DaemonRun::Program(const std::string& name) {
  const char* dir = getenv("PARKADE_BIN");
  return std::string(dir ? dir : "bin") + "/" + name;
}

DaemonRun::DaemonRun(std::vector<std::string> flags)
    : scratch_(dir_.Make("scratch", 01777)), flags_(std::move(flags)) {
  // Another user's process must reach its scratch.
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  Start();
}

void DaemonRun::Start() {
  std::vector<std::string> command{
      Program("parkaded"), "--runtime-dir", dir_ / "run",  "--state-dir", dir_ / "state",
      "--scratch-dir",     scratch_,        "--log-level", "warning"};
  command.insert(command.end(), flags_.begin(), flags_.end());
  daemon_ = std::make_unique<Child>(command);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel("unix:" + dir_ / "run/control.sock",
                                       grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::Control::NewStub(channel_);
  REQUIRE(channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
}

void DaemonRun::Kill() {
  daemon_->Signal(SIGKILL);
  daemon_->Wait();
}

int DaemonRun::Stop() {
  daemon_->Signal(SIGTERM);
  return daemon_->Wait();
}

std::unique_ptr<Child> DaemonRun::StartShim(const std::vector<std::string>& allocations,
                                            const std::vector<std::string>& environment) {
  return Listed({}, allocations, environment);
}

std::unique_ptr<Child> DaemonRun::StartNobodysShim(const std::vector<std::string>& allocations) {
  return Listed({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"},
                allocations, {});
}

std::unique_ptr<Child> DaemonRun::Listed(std::vector<std::string> command,
                                         const std::vector<std::string>& allocations,
                                         const std::vector<std::string>& environment) {
  command.insert(command.end(), {Program("fake_shim"), socket()});
  command.insert(command.end(), allocations.begin(), allocations.end());
  auto child = std::make_unique<Child>(command, environment);
  REQUIRE(child->Line() == "ready");
  REQUIRE(WaitFor(child->pid(), v1::PROCESS_STATE_RUNNING));
  return child;
}

grpc::Status DaemonRun::Pause(const v1::PauseRequest& request, v1::PauseResponse* response) {
  grpc::ClientContext context;
  return stub_->Pause(&context, request, response);
}

grpc::Status DaemonRun::Resume(int pid, v1::ResumeResponse* response) {
  grpc::ClientContext context;
  v1::ResumeRequest request;
  request.mutable_selector()->add_pids(pid);
  return stub_->Resume(&context, request, response);
}

v1::Process DaemonRun::Find(int pid) {
  grpc::ClientContext context;
  v1::ListProcessesRequest request;
  request.mutable_selector()->add_pids(pid);
  v1::ListProcessesResponse response;
  const auto status = stub_->ListProcesses(&context, request, &response);
  INFO(status.error_message());
  REQUIRE(status.ok());
  return response.processes_size() == 1 ? response.processes(0) : v1::Process();
}

bool DaemonRun::WaitFor(int pid, v1::ProcessState state) {
  return Eventually([&] {
    const v1::Process process = Find(pid);
    return process.pid() == pid && process.state() == state && process.connected();
  });
}

bool DaemonRun::WaitUntilGone(int pid) {
  return Eventually([&] { return Find(pid).pid() == 0; });
}

v1::PauseRequest PauseOf(const std::vector<int>& pids, v1::Policy policy) {
  v1::PauseRequest request;
  for (const int pid : pids) request.mutable_selector()->add_pids(pid);
  request.set_policy(policy);
  return request;
}

std::string ReasonIn(const grpc::Status& status) {
  v1::ErrorStatus details;
  v1::ErrorInfo info;
  details.ParseFromString(status.error_details());
  if (details.details_size() > 0) info.ParseFromString(details.details(0).value());
  return info.reason();
}

}  // namespace parkade::testing
