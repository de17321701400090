// The whole daemon: engines paused and brought back by tags, in several steps.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "common/bytes.h"
#include "common/deadline.h"
#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::Child;
using testing::DaemonRun;
using testing::PauseOf;
using testing::ReasonIn;

namespace {

constexpr auto kRunning = v1::PROCESS_STATE_RUNNING;
constexpr auto kPaused = v1::PROCESS_STATE_PAUSED;

// One engine with weights, a cache and some more.
struct Engine {
  explicit Engine(std::vector<std::string> flags = {})
      : run(std::move(flags)),
        shim(run.StartShim({"1048576:weights", "2097152:kv_cache", "4096"})) {}

  int pid() const { return shim->pid(); }
  v1::PauseRequest Pause(const std::string& tags, v1::Policy policy = v1::POLICY_HOST) const {
    auto request = PauseOf({pid()}, policy);
    if (!tags.empty()) request.add_tags(tags);
    return request;
  }
  v1::ResumeRequest Back(const std::string& tags) const {
    v1::ResumeRequest request;
    request.mutable_selector()->add_pids(pid());
    if (!tags.empty()) request.add_tags(tags);
    return request;
  }
  v1::TransitionResult Do(const v1::PauseRequest& request) {
    v1::PauseResponse response;
    const auto status = run.Pause(request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return response.results(0);
  }
  grpc::Status Call(const v1::ResumeRequest& request, v1::ResumeResponse* response) {
    grpc::ClientContext context;
    return run.stub().Resume(&context, request, response);
  }
  v1::TransitionResult Do(const v1::ResumeRequest& request) {
    v1::ResumeResponse response;
    const auto status = Call(request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    return response.results(0);
  }
  v1::Process Now() { return run.Find(pid()); }
  // "PLACE" of each tag; nothing while the process is not connected.
  std::map<std::string, std::string> Places() {
    grpc::ClientContext context;
    v1::GetProcessRequest request;
    request.set_pid(pid());
    v1::GetProcessResponse response;
    const auto status = run.stub().GetProcess(&context, request, &response);
    // Of a daemon that has just been started anew the process may not be known yet.
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return {};
    INFO(status.error_message());
    REQUIRE(status.ok());
    std::map<std::string, std::string> places;
    for (const auto& a : response.allocations()) places[a.tag()] = a.place();
    return places;
  }

  DaemonRun run;
  std::unique_ptr<Child> shim;
};

using Places = std::map<std::string, std::string>;

void Tell(Child& shim, const std::string& line, const std::string& answer = "ok") {
  shim.Write(line + "\n");
  REQUIRE(shim.Line() == answer);
}

}  // namespace

TEST_CASE("an engine is paused, gets its weights back, then its cache") {
  Engine engine;
  const auto out = engine.Do(engine.Pause("kv_cache,weight"));
  CHECK(out.host_bytes() == 3_MiB);
  CHECK(engine.Places() == Places{{"weights", "host"}, {"kv_cache", "host"}, {"default", "gpu"}});
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_CLOSED);

  const auto part = engine.Do(engine.Back("weights"));
  CHECK_FALSE(part.already());
  CHECK(part.state() == kPaused);
  CHECK(engine.Places() == Places{{"weights", "gpu"}, {"kv_cache", "host"}, {"default", "gpu"}});
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_OPEN);
  CHECK(engine.Now().host_backup_bytes() == 2_MiB);
  CHECK(engine.Do(engine.Back("weights")).already());
  CHECK(engine.Do(engine.Back("weights")).state() == kPaused);

  const auto rest = engine.Do(engine.Back("kv_cache"));
  CHECK(rest.state() == kRunning);
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_UNSPECIFIED);
  CHECK(engine.Do(engine.Back("kv_cache")).already());
}

TEST_CASE("further pauses move what is in HBM, close the gate, and say what is already done") {
  Engine engine;
  auto cache = engine.Pause("kv_cache");
  cache.set_gate_mode(v1::GATE_MODE_OPEN);
  CHECK(engine.Do(cache).host_bytes() == 2_MiB);
  CHECK(engine.Do(cache).already());
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_OPEN);
  // The same with the gate closed is something to do, and moves nothing.
  const auto closes = engine.Do(engine.Pause("kv_cache"));
  CHECK_FALSE(closes.already());
  CHECK(closes.host_bytes() == 0);
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_CLOSED);
  CHECK(engine.Do(engine.Pause("kv_cache")).already());
  const auto rest = engine.Do(engine.Pause(""));
  CHECK_FALSE(rest.already());
  CHECK(rest.host_bytes() == 1_MiB + 4096);
  CHECK(engine.Now().host_backup_bytes() == 3_MiB + 4096);
  CHECK(engine.Do(engine.Pause("")).already());
  CHECK(engine.Do(engine.Back("")).state() == kRunning);
}

TEST_CASE("what goes to disk in two steps has room for both, in one directory") {
  Engine engine;
  const std::string root = engine.run.scratch() + "/parkade-v1";
  const auto size = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().filename() == "data.0") return Bytes(entry.file_size());
    }
    return Bytes(0);
  };
  CHECK(engine.Do(engine.Pause("kv_cache", v1::POLICY_DISK)).disk_bytes() == 2_MiB);
  const Bytes first = size();
  CHECK(first >= 2_MiB);
  CHECK(engine.Do(engine.Pause("weights", v1::POLICY_DISK)).disk_bytes() == 1_MiB);
  CHECK(size() >= 3_MiB);
  CHECK(testing::Entries(root) == 1);
  CHECK(engine.Now().disk_backup_bytes() == 3_MiB);
  // Another directory would part it from what is there.
  auto elsewhere = engine.Pause("", v1::POLICY_DISK);
  const std::string other = engine.run.scratch() + "/other";
  REQUIRE(mkdir(other.c_str(), 0777) == 0);
  elsewhere.set_scratch_base(other);
  v1::PauseResponse response;
  const auto refused = engine.run.Pause(elsewhere, &response);
  CHECK(refused.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(ReasonIn(refused) == "SCRATCH_IN_USE");
  CHECK(engine.Now().state() == kPaused);
  CHECK(engine.Do(engine.Back("")).state() == kRunning);
  CHECK(engine.Do(elsewhere).disk_bytes() == 3_MiB + 4096);
  // The next step without a name goes where the first went.
  CHECK(engine.Do(engine.Back("weights")).state() == kPaused);
  CHECK(engine.Do(engine.Pause("", v1::POLICY_DISK)).disk_bytes() == 1_MiB);
  CHECK(engine.Now().scratch_dir().find(other) == 0);
}

TEST_CASE("a resume of tags is refused by kind, and its forecast says the same") {
  Engine engine;
  engine.Do(engine.Pause(""));
  v1::ResumeResponse response;
  const auto refusal = [&](const v1::ResumeRequest& request) {
    return ReasonIn(engine.Call(request, &response));
  };
  CHECK(refusal(engine.Back("nothing")) == "UNKNOWN_TAG");
  CHECK(refusal(engine.Back(" ")) == "UNKNOWN_TAG");
  auto gate = engine.Back("");
  gate.set_gate_mode(v1::GATE_MODE_CLOSED);
  CHECK(refusal(gate) == "BAD_POLICY");
  auto dry = engine.Back("nothing");
  dry.set_dry_run(true);
  REQUIRE(engine.Call(dry, &response).ok());
  CHECK(response.forecast().refusals(0).reason() == "UNKNOWN_TAG");
  dry.set_allow_empty(true);
  REQUIRE(engine.Call(dry, &response).ok());
  CHECK(response.forecast().refusals().empty());

  dry.set_tags(0, "weights");
  REQUIRE(engine.Call(dry, &response).ok());
  REQUIRE(response.forecast().processes_size() == 1);
  CHECK(response.forecast().processes(0).host_bytes() == 1_MiB);
  CHECK(response.forecast().processes(0).gpus(0).needed_bytes() == 1_MiB);
  CHECK(engine.Places()["weights"] == "host");  // it moved nothing
  engine.Do(engine.Back("weights"));
  REQUIRE(engine.Call(dry, &response).ok());
  CHECK(response.forecast().processes(0).already());

  auto pause = engine.Pause("");
  pause.set_dry_run(true);
  v1::PauseResponse forecast;
  REQUIRE(engine.run.Pause(pause, &forecast).ok());
  CHECK_FALSE(forecast.forecast().processes(0).already());
  CHECK(forecast.forecast().processes(0).host_bytes() == 1_MiB);

  auto closed = engine.Back("kv_cache");
  closed.set_gate_mode(v1::GATE_MODE_CLOSED);
  CHECK(refusal(closed) == "GATE_OPEN");
  CHECK(engine.Now().state() == kPaused);
}

TEST_CASE("the next daemon goes on with an engine that is paused in part") {
  Engine engine;
  auto first = engine.Pause("kv_cache,weights", v1::POLICY_DISK);
  engine.Do(first);
  auto part = engine.Back("weights");
  part.set_request_id("part");
  const auto before = engine.Do(part);
  engine.run.Kill();
  engine.run.Start();
  Tell(*engine.shim, "reconnect", "ready");
  REQUIRE(engine.run.WaitFor(engine.pid(), kPaused));
  CHECK(engine.Now().gate_mode() == v1::GATE_MODE_OPEN);
  CHECK(engine.Places()["kv_cache"] == "disk");
  CHECK(engine.Do(part).SerializeAsString() == before.SerializeAsString());
  CHECK(engine.Do(engine.Pause("", v1::POLICY_DISK)).disk_bytes() == 1_MiB + 4096);
  CHECK(testing::Entries(engine.run.scratch() + "/parkade-v1") == 1);
  CHECK(engine.Do(engine.Back("kv_cache,weights")).state() == kPaused);
  CHECK(engine.Do(engine.Back("default")).state() == kRunning);
}

TEST_CASE("a resume of tags that the daemon's end interrupts is finished, and no more than that") {
  Engine engine;
  engine.Do(engine.Pause(""));
  Tell(*engine.shim, "hang resume");
  std::thread caller([&] {
    v1::ResumeResponse response;
    CHECK_FALSE(engine.Call(engine.Back("weights"), &response).ok());
  });
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    grpc::ClientContext context;
    v1::ListOperationsResponse operations;
    if (engine.run.stub().ListOperations(&context, {}, &operations).ok() &&
        operations.operations_size() == 1 && operations.operations(0).has_progress()) {
      break;
    }
  }
  engine.run.Kill();
  caller.join();
  engine.run.Start();
  Tell(*engine.shim, "work resume");
  Tell(*engine.shim, "reconnect", "ready");
  for (const Deadline by = Deadline::InMs(10'000); engine.Places()["weights"] != "gpu";) {
    REQUIRE_FALSE(by.Passed());
    sched_yield();
  }
  CHECK(engine.Places() == Places{{"weights", "gpu"}, {"kv_cache", "host"}, {"default", "host"}});
  CHECK(engine.Now().state() == kPaused);
}
