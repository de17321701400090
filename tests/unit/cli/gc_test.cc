// `parkade gc` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

void AddEntries(v1::CollectGarbageResponse& answer) {
  auto* dead = answer.add_entries();
  dead->set_path("/nvme/parkade-v1/p12-0");
  dead->set_pid(12);
  dead->set_uid(1000);
  dead->set_bytes(3 << 20);
  dead->set_dead(true);
  dead->set_reason("process 12 has ended");
  auto* unknown = answer.add_entries();
  unknown->set_path("/nvme/parkade-v1/\033[2J");
  unknown->set_reason("notes in it is no scratch");
}

}  // namespace

TEST_CASE("gc says of each directory what became of it and why") {
  FakeControl daemon;
  AddEntries(daemon.garbage_answer);
  const Outcome o = RunCli({"gc", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  CHECK(o.out ==
        "PID   UID   SIZE  FATE     WHY                        PATH\n"
        " 12  1000  3 MiB  removed  process 12 has ended       /nvme/parkade-v1/p12-0\n"
        "  -     0      0  stays    notes in it is no scratch  /nvme/parkade-v1/?[2J\n");
  CHECK_FALSE(daemon.garbage_request.dry_run());
}

TEST_CASE("gc --dry-run asks for no removal and claims none") {
  FakeControl daemon;
  AddEntries(daemon.garbage_answer);
  const Outcome o = RunCli({"gc", "--dry-run", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.garbage_request.dry_run());
  CHECK(o.out.find("would go") != std::string::npos);
  CHECK(o.out.find("removed") == std::string::npos);
}

TEST_CASE("gc --json has stable keys, an unknown owner is null") {
  FakeControl daemon;
  AddEntries(daemon.garbage_answer);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"gc", "--dry-run", "--json", daemon.flag()},
        std::vector<std::string>{"gc", "-n", "-o", "json", daemon.flag()}}) {
    const auto json = nlohmann::json::parse(RunCli(words).out);
    CHECK(json["schema_version"] == 1);
    CHECK(json["dry_run"] == true);
    REQUIRE(json["entries"].size() == 2);
    CHECK(json["entries"][0] == nlohmann::json::parse(R"({"path": "/nvme/parkade-v1/p12-0",
      "pid": 12, "uid": 1000, "bytes": 3145728, "dead": true, "reason": "process 12 has ended"})"));
    CHECK(json["entries"][1]["pid"].is_null());
  }
}

TEST_CASE("gc without a daemon is one sentence and exit code 6") {
  const TestDirectory empty;
  const Outcome o = RunCli({"gc", "--runtime-dir=" + empty.path()});
  CHECK(o.exit_code == kExitUnreachable);
  CHECK(o.err.find("UNREACHABLE") != std::string::npos);
}

}  // namespace parkade::cli
