// The whole daemon: what ends, dies or comes back.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "common/deadline.h"
#include "common/fd.h"
#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::Child;
using testing::DaemonRun;
using testing::Entries;
using testing::PauseOf;

namespace {

std::string Root(const DaemonRun& run) { return run.scratch() + "/parkade-v1"; }

bool EmptiesWithinASecond(const DaemonRun& run) {
  for (const Deadline by = Deadline::InMs(1000); !by.Passed(); sched_yield()) {
    if (Entries(Root(run)) == 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the end of a paused process takes its registration and its scratch with it") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  CHECK(Entries(Root(run)) == 1);
  shim->Signal(SIGKILL);
  REQUIRE(shim->Wait() == 128 + SIGKILL);
  CHECK(EmptiesWithinASecond(run));
  CHECK(run.WaitUntilGone(shim->pid()));
}

TEST_CASE("a process is gone when it has ended, though a child of it keeps its socket open") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  shim->Write("fork\n");
  const pid_t child = atoi(shim->Line().c_str());
  REQUIRE(child > 0);
  shim->Signal(SIGKILL);
  REQUIRE(shim->Wait() == 128 + SIGKILL);
  CHECK(run.WaitUntilGone(shim->pid()));
  CHECK(EmptiesWithinASecond(run));
  CHECK(kill(child, SIGKILL) == 0);
}

TEST_CASE("a process that dies in the middle of a pause does not leave the caller stuck") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  shim->Signal(SIGSTOP);
  grpc::ClientContext context;
  v1::PauseResponse response;
  grpc::CompletionQueue queue;
  grpc::Status status;
  const auto call =
      run.stub().AsyncPause(&context, PauseOf({shim->pid()}, v1::POLICY_DISK), &queue);
  call->Finish(&response, &status, nullptr);
  for (const Deadline by = Deadline::InMs(5000); !by.Passed() && Entries(Root(run)) == 0;) {
    sched_yield();
  }
  const uint64_t killed = MonotonicNs();
  shim->Signal(SIGKILL);
  void* tag;
  bool ok;
  REQUIRE(queue.Next(&tag, &ok));
  CHECK(MonotonicNs() - killed < 1'000'000'000);
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(EmptiesWithinASecond(run));
}

TEST_CASE("a second daemon on the same directory refuses in one sentence") {
  DaemonRun run;
  Child second({DaemonRun::Program("parkaded"), "--runtime-dir", run.dir() / "run", "--state-dir",
                run.dir() / "state"});
  CHECK(second.Wait() == 1);
  // The first still serves.
  const auto shim = run.StartShim({"4096"});
  CHECK(run.Find(shim->pid()).pid() == shim->pid());
}

TEST_CASE("too few file descriptors are a sentence, not an abort") {
  const testing::TestDir dir;
  for (const char* limit : {"12", "63"}) {
    Child daemon({"/bin/sh", "-c",
                  std::string("ulimit -n ") + limit + "; exec " + DaemonRun::Program("parkaded") +
                      " --runtime-dir " + dir / "run" + " --state-dir " + dir / "state" + " 2>&1"});
    const std::string line = daemon.Line();
    INFO(line);
    CHECK(line.starts_with("parkaded: only "));
    CHECK(line.find("ulimit -n") != line.npos);
    CHECK(daemon.Wait() == 1);
  }
}

TEST_CASE("a process is listed and shown at once among 200 idle strangers and one that drains") {
  DaemonRun run;
  const auto stuck = run.StartShim({"1048576"});
  stuck->Write("hang prepare\n");
  REQUIRE(stuck->Line() == "ok");
  grpc::ClientContext context;
  v1::PauseResponse response;
  grpc::CompletionQueue queue;
  const auto call =
      run.stub().AsyncPause(&context, PauseOf({stuck->pid()}, v1::POLICY_HOST), &queue);
  grpc::Status status;
  call->Finish(&response, &status, nullptr);

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  run.socket().copy(address.sun_path, sizeof address.sun_path - 1);
  std::vector<Fd> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address),
                    sizeof address) == 0);
  }
  const uint64_t begin = MonotonicNs();
  const auto shim = run.StartShim({"1048576"});  // connected and listed
  CHECK(MonotonicNs() - begin < 2'000'000'000);
  std::vector<uint64_t> took_ns;
  for (int i = 0; i < 9; ++i) {
    const uint64_t asked = MonotonicNs();
    CHECK(run.Find(shim->pid()).pid() == shim->pid());
    took_ns.push_back(MonotonicNs() - asked);
  }
  // The median: a loaded machine may hold up any single one.
  std::sort(took_ns.begin(), took_ns.end());
  CHECK(took_ns[4] < 50'000'000);
  run.Kill();  // ends the call
  void* tag;
  bool ok;
  REQUIRE(queue.Next(&tag, &ok));
}

TEST_CASE("an orderly end removes the daemon's sockets, and only its own") {
  DaemonRun run;
  const std::string control = run.dir() / "run/control.sock";
  struct stat s;
  REQUIRE(stat(control.c_str(), &s) == 0);
  REQUIRE(unlink(control.c_str()) == 0);
  std::ofstream(control) << "somebody else's";
  CHECK(run.Stop() == 0);
  CHECK(stat(control.c_str(), &s) == 0);
  CHECK(stat((run.dir() / "run/shim.sock").c_str(), &s) != 0);
}

TEST_CASE("a killed daemon's sockets are replaced and its dead processes' scratch is swept") {
  DaemonRun run;
  const auto dies = run.StartShim({"1048576"});
  const auto lives = run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({dies->pid(), lives->pid()}, v1::POLICY_DISK), &response).ok());
  CHECK(Entries(Root(run)) == 2);
  run.Kill();
  dies->Signal(SIGKILL);
  REQUIRE(dies->Wait() == 128 + SIGKILL);
  run.Start();
  for (const Deadline by = Deadline::InMs(5000); !by.Passed() && Entries(Root(run)) != 1;) {
    sched_yield();
  }
  CHECK(Entries(Root(run)) == 1);
}

TEST_CASE("the next daemon adopts a paused process with its scratch, and resumes it") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  run.Kill();
  run.Start();
  // Known from the journal until it comes back.
  CHECK(run.Find(shim->pid()).state() == v1::PROCESS_STATE_PAUSED);
  CHECK_FALSE(run.Find(shim->pid()).connected());
  shim->Write("reconnect\n");
  REQUIRE(shim->Line() == "ready");
  REQUIRE(run.WaitFor(shim->pid(), v1::PROCESS_STATE_PAUSED));
  CHECK(run.Find(shim->pid()).scratch_dir().starts_with(Root(run)));
  v1::ResumeResponse resumed;
  REQUIRE(run.Resume(shim->pid(), &resumed).ok());
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  CHECK(Entries(Root(run)) == 1);  // the same directory serves again
  shim->Signal(SIGKILL);
  REQUIRE(shim->Wait() == 128 + SIGKILL);
  CHECK(EmptiesWithinASecond(run));
}

TEST_CASE("an orderly end leaves the scratch of a process that lives") {
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  CHECK(run.Stop() == 0);
  CHECK(Entries(Root(run)) == 1);
}
