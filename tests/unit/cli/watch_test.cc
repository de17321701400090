// `parkade watch` against a daemon in software, and Ctrl-C in the real program.
#include <signal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::Event MakeEvent(v1::Event::Kind kind, v1::ProcessState state) {
  v1::Event event;
  event.mutable_time()->set_seconds(1'800'000'000);
  event.set_kind(kind);
  *event.mutable_process() = MakeProcess(4711, state);
  return event;
}

}  // namespace

TEST_CASE("watch prints a line for every event") {
  FakeControl daemon;
  daemon.events = {MakeEvent(v1::Event::KIND_PRESENT, v1::PROCESS_STATE_RUNNING),
                   MakeEvent(v1::Event::KIND_PROGRESS, v1::PROCESS_STATE_EVICTING)};
  daemon.events[1].mutable_process()->mutable_progress()->set_done_bytes(1_GiB);
  daemon.events[1].mutable_process()->mutable_progress()->set_total_bytes(2_GiB);
  const Outcome o = RunCli({"watch", "--role", "actor", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.watch_request.selector().role() == "actor");
  std::istringstream lines(o.out);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK_FALSE(std::getline(lines, third));
  CHECK(first.find("  present      4711  rl/actor/3            running") != std::string::npos);
  CHECK(second.find("evicting      1.00 GiB of 2.00 GiB") != std::string::npos);
}

TEST_CASE("watch -o json is one document a line") {
  FakeControl daemon;
  daemon.events = {MakeEvent(v1::Event::KIND_APPEARED, v1::PROCESS_STATE_RUNNING),
                   MakeEvent(v1::Event::KIND_GONE, v1::PROCESS_STATE_FAILED)};
  const Outcome o = RunCli({"watch", "-o", "json", daemon.flag()});
  std::istringstream lines(o.out);
  std::string line;
  std::vector<nlohmann::json> events;
  while (std::getline(lines, line)) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 2);
  CHECK(events[0]["schema_version"] == 1);
  CHECK(events[0]["time"] == "2027-01-15T08:00:00.000+00:00");
  CHECK(events[0]["kind"] == "appeared");
  CHECK(events[1]["kind"] == "gone");
  CHECK(events[1]["process"]["state"] == "failed");
}

TEST_CASE("watch ends after --timeout without an error") {
  FakeControl daemon;
  daemon.watch_ends = false;
  daemon.events = {MakeEvent(v1::Event::KIND_PRESENT, v1::PROCESS_STATE_RUNNING)};
  const Outcome o = RunCli({"watch", "--timeout", "300ms", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  CHECK(o.out.find("present") != std::string::npos);
}

TEST_CASE("watch says when the daemon's end ends it") {
  FakeControl daemon;
  daemon.watch_error = grpc::Status(grpc::StatusCode::INTERNAL, "it broke");
  CHECK(RunCli({"watch", daemon.flag()}).exit_code == kExitFailed);
}

TEST_CASE("Ctrl-C ends a watch with 130") {
  FakeControl daemon;
  daemon.watch_ends = false;
  daemon.events = {MakeEvent(v1::Event::KIND_PRESENT, v1::PROCESS_STATE_RUNNING)};
  Program watch({PARKADE_COMMAND, "watch", daemon.flag()});
  REQUIRE(watch.WaitForOutput("present"));
  kill(watch.pid(), SIGINT);
  const Outcome o = watch.Wait();
  CHECK(o.exit_code == kExitInterrupted);
  CHECK(o.err == "");
}

TEST_CASE("Ctrl-C during a pause says that the daemon goes on") {
  FakeControl daemon;
  pid_t pid = 0;
  Mutex mutex;
  MutexLock lock(mutex);  // held until pid is known: the daemon's thread waits for it below
  daemon.before_answer = [&] {
    MutexLock wait(mutex);
    kill(pid, SIGINT);
  };
  Program pause({PARKADE_COMMAND, "pause", "4711", daemon.flag()});
  pid = pause.pid();
  mutex.Unlock();
  const Outcome o = pause.Wait();
  mutex.Lock();
  CHECK(o.exit_code == kExitInterrupted);
  CHECK(o.err.find("the daemon goes on") != std::string::npos);
  CHECK(daemon.moves == 1);
}

}  // namespace parkade::cli
