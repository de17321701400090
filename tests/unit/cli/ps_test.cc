// `parkade ps` against a daemon in software.
#include <signal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {

TEST_CASE("ps lists processes in a table") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_PAUSED);
  v1::Process bare;
  bare.set_pid(7);
  bare.set_state(v1::PROCESS_STATE_RUNNING);
  *daemon.list_answer.add_processes() = bare;
  const Outcome o = RunCli({"ps", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  CHECK(o.out ==
        " PID  JOB  ROLE   RANK  STATE                        HBM      HOST   DISK  COMMAND\n"
        "4711  rl   actor     3  paused                  8.00 GiB  2.00 GiB  3 MiB  python "
        "train.py\n"
        "   7  -    -         -  running (disconnected)         0         0      0  \n");
  CHECK(daemon.list_request.selector().SerializeAsString().empty());
}

TEST_CASE("ps -o wide adds columns and never cuts") {
  FakeControl daemon;
  v1::Process process = MakeProcess(4711, v1::PROCESS_STATE_PAUSED);
  process.set_command(std::string(200, 'c'));
  *daemon.list_answer.add_processes() = process;
  const Outcome o = RunCli({"ps", daemon.flag(), "-o", "wide"}, 80);
  CHECK(o.out.find("GPU-aaaa") != std::string::npos);
  CHECK(o.out.find("REQUESTED") != std::string::npos);
  CHECK(o.out.find(process.command()) != std::string::npos);
  CHECK(RunCli({"ps", daemon.flag()}, 80).out.find(process.command()) == std::string::npos);
}

TEST_CASE("ps -o json has stable keys and sizes as numbers") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  const auto json = nlohmann::json::parse(RunCli({"ps", daemon.flag(), "-o", "json"}).out);
  const auto expected = nlohmann::json::parse(R"({
    "schema_version": 1,
    "processes": [{
      "pid": 4711, "start_ticks": 77, "uid": 1000, "command": "python train.py",
      "job": "rl", "role": "actor", "cell": "", "rank": 3, "state": "running", "connected": true,
      "deep": false, "takes_turns": false, "asks_turn": false, "out_for_turn": false,
      "devices": [{"gpu_uuid": "GPU-aaaa", "ordinal": 0, "resident_bytes": 8589934592,
                   "requested_bytes": 7516192768, "foreign_bytes": 650117120, "foreign": []}],
      "host_backup_bytes": 2147483648, "disk_backup_bytes": 3145728, "host_pool_bytes": 4294967296,
      "host_retained_bytes": 1073741824, "disk_retained_bytes": 0, "pinned_bytes": 0,
      "progress": null, "allocation_count": 12, "gated_threads": 0, "unhooked_names": 0,
      "scratch_dir": "", "shim_version": "0.1.0",
      "gate_mode": null, "epoch": 0}]})");
  CHECK(json == expected);
}

TEST_CASE("ps says of a paused process that it is deep") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_PAUSED);
  daemon.list_answer.mutable_processes(0)->set_deep(true);
  CHECK(RunCli({"ps", daemon.flag()}).out.find("paused deep") != std::string::npos);
}

TEST_CASE("ps -o wide says of those that take turns who is out and who asks") {
  FakeControl daemon;
  for (const int32_t pid : {1, 2, 3, 4}) {
    *daemon.list_answer.add_processes() = MakeProcess(pid, v1::PROCESS_STATE_PAUSED);
    daemon.list_answer.mutable_processes(pid - 1)->set_takes_turns(pid != 1);
    daemon.list_answer.mutable_processes(pid - 1)->set_out_for_turn(pid >= 3);
  }
  daemon.list_answer.mutable_processes(3)->set_asks_turn(true);
  const std::string out = RunCli({"ps", daemon.flag(), "-o", "wide"}).out;
  CHECK(out.find("TURN") != std::string::npos);
  const size_t takes = out.find(" takes "), leaves = out.find(" out "),
               asks = out.find(" out, asks ");
  CHECK(takes < leaves);
  CHECK(leaves < asks);
  CHECK(asks != std::string::npos);
}

TEST_CASE("a process without a rank has none in JSON, not zero") {
  FakeControl daemon;
  daemon.list_answer.add_processes()->set_pid(7);
  const auto json = nlohmann::json::parse(RunCli({"ps", daemon.flag(), "-o", "json"}).out);
  CHECK(json["processes"][0]["rank"].is_null());
}

TEST_CASE("selectors reach the daemon as they were given") {
  FakeControl daemon;
  daemon.node_answer.add_gpus()->set_uuid("GPU-zero");
  daemon.node_answer.add_gpus()->set_uuid("GPU-one");
  const Outcome o = RunCli({"ps", daemon.flag(), "--job", "rl", "--role", "actor", "--cell", "c",
                            "--rank", "0", "--rank", "2,3", "--gpu", "1", "--gpu", "GPU-x"});
  CHECK(o.exit_code == 0);
  const v1::Selector& selector = daemon.list_request.selector();
  CHECK(selector.job() == "rl");
  CHECK(selector.role() == "actor");
  CHECK(selector.cell() == "c");
  CHECK(std::vector<int32_t>(selector.ranks().begin(), selector.ranks().end()) ==
        std::vector<int32_t>{0, 2, 3});
  CHECK(std::vector<std::string>(selector.gpu_uuids().begin(), selector.gpu_uuids().end()) ==
        std::vector<std::string>{"GPU-one", "GPU-x"});
  CHECK(selector.pids().empty());
  CHECK_FALSE(selector.all());
}

TEST_CASE("a watched answer comes again until it is interrupted or fails") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  Program program({PARKADE_COMMAND, "ps", "--watch=50ms", daemon.flag()});
  CHECK(program.WaitForOutput("COMMAND"));
  CHECK(program.WaitForOutput("\n\n PID"));
  REQUIRE(kill(program.pid(), SIGINT) == 0);
  CHECK(program.Wait().exit_code == 130);
  const Outcome gone = RunCli({"ps", "--watch", "--runtime-dir", "/nonexistent"});
  CHECK(gone.exit_code == kExitUnreachable);
  CHECK(RunCli({"pause", "4711", "--watch", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"ps", "--watch=never", daemon.flag()}).exit_code == kExitUsage);
}

TEST_CASE("a PID after --rank is a PID") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  CHECK(RunCli({"ps", daemon.flag(), "--rank", "0", "4711", "4711"}).exit_code == 0);
  CHECK(daemon.list_request.selector().pids_size() == 1);
  CHECK(daemon.list_request.selector().pids(0) == 4711);
  CHECK(daemon.list_request.selector().ranks_size() == 1);
}

TEST_CASE("a PID that is not managed is not found, the others are listed") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  const Outcome o = RunCli({"ps", daemon.flag(), "4711", "12"});
  CHECK(o.exit_code == kExitNotFound);
  CHECK(o.out.find("4711") != std::string::npos);
  CHECK(o.err ==
        "parkade: ps: no such process: 12 (NO_PROCESS); `parkade ps` lists what can be paused\n");
}

TEST_CASE("a GPU that the node does not have is not found") {
  FakeControl daemon;
  const Outcome o = RunCli({"ps", daemon.flag(), "--gpu", "4"});
  CHECK(o.exit_code == kExitNotFound);
  CHECK(o.err.find("no GPU 4") != std::string::npos);
}

TEST_CASE("no processes is an empty table and an empty list") {
  FakeControl daemon;
  const Outcome o = RunCli({"ps", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out == "PID  JOB  ROLE  RANK  STATE  HBM  HOST  DISK  COMMAND\n");
  CHECK(
      nlohmann::json::parse(RunCli({"ps", daemon.flag(), "-o", "json"}).out)["processes"].empty());
}

}  // namespace parkade::cli
