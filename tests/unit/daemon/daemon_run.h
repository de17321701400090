// DaemonRun: a real parkaded, real processes with a FakeShim, and a gRPC client, for one test.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "tests/unit/daemon/test_dir.h"

namespace parkade::testing {

// A child process with pipes to its input and output; killed at the end.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command,
                 const std::vector<std::string>& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of output, 10 s at most; empty at its end.
  std::string Line();
  void Write(const std::string& text);
  void Signal(int number);
  // Waits for the end, 10 s at most: exit code, or 128 + signal; -1 when it does not end.
  int Wait();

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  bool ended_ = false;
};

class DaemonRun {
 public:
  explicit DaemonRun(std::vector<std::string> flags = {});
  // Where the build has put a program.
  static std::string Program(const std::string& name);

  void Start();
  void Kill();
  int Stop();  // exit code of its orderly end

  // A process with these allocations ("bytes" or "bytes:tag"), connected and listed.
  std::unique_ptr<Child> StartShim(const std::vector<std::string>& allocations,
                                   const std::vector<std::string>& environment = {});
  // The same of the user nobody; root alone can.
  std::unique_ptr<Child> StartNobodysShim(const std::vector<std::string>& allocations);

  v1::Control::Stub& stub() { return *stub_; }
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }
  grpc::Status Pause(const v1::PauseRequest& request, v1::PauseResponse* response);
  grpc::Status Resume(int pid, v1::ResumeResponse* response);
  // Empty when it is not listed.
  v1::Process Find(int pid);
  bool WaitFor(int pid, v1::ProcessState state);
  bool WaitUntilGone(int pid);

  const TestDir& dir() const { return dir_; }
  const std::string& scratch() const { return scratch_; }
  std::string socket() const { return dir_ / "run/shim.sock"; }

 private:
  std::unique_ptr<Child> Listed(std::vector<std::string> command,
                                const std::vector<std::string>& allocations,
                                const std::vector<std::string>& environment);

  TestDir dir_;
  std::string scratch_;
  std::vector<std::string> flags_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
  std::unique_ptr<Child> daemon_;
};

v1::PauseRequest PauseOf(const std::vector<int>& pids, v1::Policy policy);
// The ErrorInfo's reason.
std::string ReasonIn(const grpc::Status& status);

}  // namespace parkade::testing
