// The whole daemon, killed in the middle of things: what the next one makes of them.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "common/deadline.h"
#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::Child;
using testing::DaemonRun;
using testing::PauseOf;

namespace {

constexpr auto kRunning = v1::PROCESS_STATE_RUNNING;
constexpr auto kPaused = v1::PROCESS_STATE_PAUSED;

void Tell(Child& shim, const std::string& line, const std::string& answer = "ok") {
  shim.Write(line + "\n");
  REQUIRE(shim.Line() == answer);
}

// Two processes, the second of which can be told to hang, and a request about both.
struct Pair {
  Pair() : first(run.StartShim({"1048576"})), second(run.StartShim({"1048576"})) {}

  v1::PauseRequest Request(const std::string& id) const {
    auto request = PauseOf({first->pid(), second->pid()}, v1::POLICY_HOST);
    request.set_request_id(id);
    return request;
  }
  v1::ResumeRequest ResumeRequest(const std::string& id) const {
    v1::ResumeRequest request;
    request.mutable_selector()->add_pids(first->pid());
    request.mutable_selector()->add_pids(second->pid());
    request.set_request_id(id);
    return request;
  }
  // Begins a call, waits until the processes are in these states by their ledgers, ends the daemon
  // in the middle of it, and starts the next one.
  template <typename Call>
  void EndDaemonDuring(Call call, v1::ProcessState a, v1::ProcessState b, int signal) {
    std::thread caller([&] { CHECK_FALSE(call().ok()); });
    CHECK(run.WaitFor(first->pid(), a));
    CHECK(run.WaitFor(second->pid(), b));
    if (signal == SIGKILL) {
      run.Kill();
    } else {
      CHECK(run.Stop() == 0);
    }
    caller.join();
    run.Start();
  }
  void ComeBack() {
    for (Child* shim : {first.get(), second.get()}) Tell(*shim, "reconnect", "ready");
  }
  bool BothBecome(v1::ProcessState state) {
    return run.WaitFor(first->pid(), state) && run.WaitFor(second->pid(), state);
  }

  DaemonRun run;
  std::unique_ptr<Child> first, second;
};

}  // namespace

TEST_CASE("a request id that was answered gives the first answer again from the next daemon") {
  Pair pair;
  v1::PauseResponse answer, again;
  REQUIRE(pair.run.Pause(pair.Request("once"), &answer).ok());
  v1::ResumeResponse resumed;
  const auto refused_request = [&] {
    auto request = PauseOf({1}, v1::POLICY_HOST);
    request.set_request_id("refused");
    return request;
  }();
  const auto refused = pair.run.Pause(refused_request, &again);
  CHECK(refused.error_code() == grpc::StatusCode::NOT_FOUND);
  pair.run.Kill();
  pair.run.Start();
  // Also while no process has come back.
  REQUIRE(pair.run.Pause(pair.Request("once"), &again).ok());
  CHECK(again.SerializeAsString() == answer.SerializeAsString());
  const auto refused_again = pair.run.Pause(refused_request, &again);
  CHECK(refused_again.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(refused_again.error_details() == refused.error_details());
  auto other = pair.Request("once");
  other.set_policy(v1::POLICY_DISK);
  CHECK(pair.run.Pause(other, &again).error_code() == grpc::StatusCode::ALREADY_EXISTS);
}

TEST_CASE("processes of the daemon before are listed at once, the dead are not") {
  Pair pair;
  v1::PauseResponse paused;
  REQUIRE(pair.run.Pause(pair.Request(""), &paused).ok());
  pair.run.Kill();
  pair.first->Signal(SIGKILL);
  REQUIRE(pair.first->Wait() == 128 + SIGKILL);
  pair.run.Start();
  CHECK(pair.run.Find(pair.first->pid()).pid() == 0);
  CHECK(pair.run.Find(pair.second->pid()).state() == kPaused);
  CHECK_FALSE(pair.run.Find(pair.second->pid()).connected());
  // One that ends before it has come back goes too.
  const int pid = pair.second->pid();
  pair.second->Signal(SIGKILL);
  REQUIRE(pair.second->Wait() == 128 + SIGKILL);
  CHECK(pair.run.WaitUntilGone(pid));
}

TEST_CASE("a group pause that the daemon's end has cut in half is rolled back") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    Pair pair;
    Tell(*pair.second, "hang commit");
    v1::PauseResponse response;
    const auto request = pair.Request("half");
    pair.EndDaemonDuring([&] { return pair.run.Pause(request, &response); }, kPaused,
                         v1::PROCESS_STATE_PREPARED, signal);
    Tell(*pair.second, "work commit");
    pair.ComeBack();
    CHECK(pair.BothBecome(kRunning));
    // The same request is carried out now.
    REQUIRE(pair.run.Pause(request, &response).ok());
    CHECK_FALSE(response.results(0).already());
    CHECK(pair.BothBecome(kPaused));
  }
}

TEST_CASE("a group pause that was cut before anything moved leaves all running") {
  Pair pair;
  Tell(*pair.second, "hang prepare");
  v1::PauseResponse response;
  const auto request = pair.Request("early");
  pair.EndDaemonDuring([&] { return pair.run.Pause(request, &response); },
                       v1::PROCESS_STATE_PREPARED, kRunning, SIGKILL);
  Tell(*pair.second, "work prepare");
  pair.ComeBack();
  CHECK(pair.BothBecome(kRunning));
  // A repeated request waits for the recovery; both have come back, so it is at its end.
  REQUIRE(pair.run.Pause(request, &response).ok());
  CHECK(pair.BothBecome(kPaused));
}

TEST_CASE("a pause that has paused all but has not answered counts as done") {
  Pair pair;
  // The third, which was paused before, is none of its business.
  const auto third = pair.run.StartShim({"1048576"});
  v1::PauseResponse response;
  REQUIRE(pair.run.Pause(PauseOf({third->pid()}, v1::POLICY_HOST), &response).ok());
  Tell(*pair.second, "hang commit");
  auto request = pair.Request("whole");
  request.mutable_selector()->add_pids(third->pid());
  pair.EndDaemonDuring([&] { return pair.run.Pause(request, &response); }, kPaused,
                       v1::PROCESS_STATE_PREPARED, SIGKILL);
  // The second dies: of those that live, all are paused.
  pair.second->Signal(SIGKILL);
  REQUIRE(pair.second->Wait() == 128 + SIGKILL);
  Tell(*third, "reconnect", "ready");
  Tell(*pair.first, "reconnect", "ready");
  REQUIRE(pair.run.WaitFor(pair.first->pid(), kPaused));
  CHECK(pair.run.WaitUntilGone(pair.second->pid()));
  v1::ResumeResponse resumed;
  // Not claimed any more, and still paused.
  for (const Deadline by = Deadline::InMs(5000); !by.Passed();) {
    if (pair.run.Resume(pair.first->pid(), &resumed).ok()) break;
  }
  REQUIRE(resumed.results_size() == 1);
  CHECK_FALSE(resumed.results(0).already());
  CHECK(pair.run.Find(third->pid()).state() == kPaused);
}

TEST_CASE("a resume that was cut in half is finished") {
  Pair pair;
  v1::PauseResponse paused;
  REQUIRE(pair.run.Pause(pair.Request(""), &paused).ok());
  Tell(*pair.second, "hang resume");
  v1::ResumeResponse resumed;
  const auto call = [&] {
    grpc::ClientContext context;
    return pair.run.stub().Resume(&context, pair.ResumeRequest("back"), &resumed);
  };
  pair.EndDaemonDuring(call, kRunning, kPaused, SIGKILL);
  Tell(*pair.second, "work resume");
  pair.ComeBack();
  CHECK(pair.BothBecome(kRunning));
  REQUIRE(call().ok());
  CHECK(resumed.results_size() == 2);
}

TEST_CASE("one that comes back late is still brought to where its group is") {
  Pair pair;
  Tell(*pair.second, "hang commit");
  v1::PauseResponse response;
  pair.EndDaemonDuring([&] { return pair.run.Pause(pair.Request("late"), &response); }, kPaused,
                       v1::PROCESS_STATE_PREPARED, SIGKILL);
  Tell(*pair.second, "work commit");
  Tell(*pair.second, "reconnect", "ready");
  // The second alone is there until the recovery gives up waiting: then it is nobody's any more.
  CHECK(pair.run.WaitFor(pair.second->pid(), kRunning));
  v1::ResumeResponse resumed;
  for (const Deadline by = Deadline::InMs(10'000); !by.Passed();) {
    if (pair.run.Resume(pair.second->pid(), &resumed).ok()) break;
  }
  CHECK(resumed.results_size() == 1);
  Tell(*pair.first, "reconnect", "ready");
  CHECK(pair.run.WaitFor(pair.first->pid(), kRunning));
}

TEST_CASE("a journal that cannot be used keeps nobody from working") {
  DaemonRun run;
  run.Stop();
  const std::string path = run.dir() / "state/journal";
  std::filesystem::remove(path);
  REQUIRE(mkdir(path.c_str(), 0755) == 0);
  run.Start();
  const auto shim = run.StartShim({"1048576"});
  auto request = PauseOf({shim->pid()}, v1::POLICY_HOST);
  request.set_request_id("id");
  v1::PauseResponse response;
  REQUIRE(run.Pause(request, &response).ok());
  REQUIRE(run.Pause(request, &response).ok());
  CHECK_FALSE(response.results(0).already());
}
