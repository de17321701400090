// `parkade gpus`, `reserve`, `release`, `budget` and `verify` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::Gpu Shared() {
  v1::Gpu gpu;
  gpu.set_uuid("GPU-aaaa");
  gpu.set_total_bytes(80_GiB);
  gpu.set_free_bytes(20_GiB);
  gpu.set_booked_bytes(4_GiB);
  gpu.set_reserved_bytes(8_GiB);
  gpu.set_managed_bytes(50_GiB);
  gpu.set_unexplained_bytes(10_GiB);
  auto* own = gpu.add_users();
  own->set_pid(4711);
  own->set_used_bytes(51_GiB);
  own->set_managed(true);
  own->set_managed_bytes(50_GiB);
  auto* other = gpu.add_users();
  other->set_pid(99);
  other->set_used_bytes(9_GiB);
  auto* waiter = gpu.add_waiting();
  waiter->set_operation_id("m3-7");
  waiter->set_position(1);
  waiter->set_priority(5);
  waiter->set_needed_bytes(30_GiB);
  waiter->set_waited_seconds(2);
  auto* kept = gpu.add_reservations();
  kept->set_id("m3-8");
  kept->set_owner("uid 1000");
  kept->set_label("tr\033ainer");
  kept->set_bytes(8_GiB);
  kept->mutable_time_left()->set_seconds(90);
  return gpu;
}

v1::TransitionResult Wrong() {
  v1::TransitionResult result;
  result.set_pid(4711);
  result.set_state(v1::PROCESS_STATE_PAUSED);
  result.set_host_bytes(3_GiB);
  result.set_disk_bytes(1_GiB);
  result.set_wrong_block_count(2);
  result.set_move_seconds(2);
  result.set_total_seconds(2);
  auto* changed = result.add_wrong_blocks();
  changed->set_address(0x7f0000000000);
  changed->set_bytes(2_MiB);
  changed->set_place("host");
  auto* missing = result.add_wrong_blocks();
  missing->set_address(0x7f0000200000);
  missing->set_bytes(4096);
  missing->set_device(1);
  missing->set_place("disk");
  missing->set_file(3);
  missing->set_offset(8192);
  missing->set_missing(true);
  return result;
}

}  // namespace

TEST_CASE("gpus shows each GPU, its users, its queue and what is reserved") {
  FakeControl daemon;
  *daemon.node_answer.add_gpus() = Shared();
  const Outcome o = RunCli({"gpus", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out ==
        "GPU     TOTAL      FREE    BOOKED  RESERVED   MANAGED  UNEXPLAINED  WAITING  UUID\n"
        "  0  80.0 GiB  20.0 GiB  4.00 GiB  8.00 GiB  50.0 GiB     10.0 GiB        1  GPU-aaaa\n"
        "\n"
        "GPU   PID      USED   MANAGED      REST\n"
        "  0  4711  51.0 GiB  50.0 GiB  1.00 GiB\n"
        "  0    99  9.00 GiB         -  9.00 GiB\n"
        "\n"
        "GPU  POSITION  PRIORITY    NEEDED  WAITED  OPERATION\n"
        "  0         1         5  30.0 GiB  2.00 s  m3-7\n"
        "\n"
        "GPU  RESERVATION      SIZE    LEFT  PID  OWNER     LABEL\n"
        "  0  m3-8         8.00 GiB  90.0 s    -  uid 1000  tr?ainer\n");
  const auto json = nlohmann::json::parse(RunCli({"gpus", "-o", "json", daemon.flag()}).out);
  CHECK(json["schema_version"] == 1);
  const auto& gpu = json["gpus"][0];
  CHECK(gpu["unexplained_bytes"] == 10_GiB);
  CHECK(gpu["users"][1]["managed_bytes"].is_null());
  CHECK(gpu["waiting"][0]["operation"] == "m3-7");
  CHECK(gpu["reservations"][0]["seconds_left"] == 90);
  CHECK(gpu["reservations"][0]["pid"].is_null());
  daemon.node_answer.Clear();
  daemon.node_answer.set_gpu_source("no NVML");
  CHECK(RunCli({"gpus", daemon.flag()}).exit_code == 4);
}

TEST_CASE("reserve asks for what it is told, and prints the reservation's name") {
  FakeControl daemon;
  daemon.node_answer.add_gpus()->set_uuid("GPU-aaaa");
  auto* kept = daemon.reserve_answer.mutable_reservation();
  kept->set_id("m3-8");
  kept->set_gpu_uuid("GPU-aaaa");
  kept->set_bytes(8_GiB);
  const Outcome o =
      RunCli({"reserve", "0", "8GiB", "--label", "trainer", "--ttl", "90s", "--pid", "12", "--wait",
              "5s", "--priority=-2", "--request-id", "one", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out == "m3-8  8.00 GiB of GPU-aaaa are kept\n");
  const v1::ReserveRequest& asked = daemon.reserve_request;
  CHECK(asked.gpu_uuid() == "GPU-aaaa");
  CHECK(asked.bytes() == 8_GiB);
  CHECK(asked.label() == "trainer");
  CHECK(asked.ttl().seconds() == 90);
  CHECK(asked.pid() == 12);
  CHECK(asked.wait_timeout().seconds() == 5);
  CHECK(asked.priority() == -2);
  CHECK(asked.request_id() == "one");
  REQUIRE(RunCli({"reserve", "GPU-b", "1", daemon.flag()}).exit_code == 0);
  CHECK(daemon.reserve_request.gpu_uuid() == "GPU-b");
  CHECK_FALSE(daemon.reserve_request.has_ttl());
  CHECK(RunCli({"reserve", "0", "0", daemon.flag()}).exit_code == 2);
  CHECK(RunCli({"release", "m3-8", daemon.flag()}).exit_code == 0);
  CHECK(daemon.release_request.id() == "m3-8");
  daemon.error = ErrorWithReason(grpc::StatusCode::NOT_FOUND, "it has ended", "NO_RESERVATION");
  CHECK(RunCli({"release", "m3-8", daemon.flag()}).exit_code == 3);
}

TEST_CASE("budget shows all, sets what is named, and says what is over") {
  FakeControl daemon;
  auto* node = daemon.node_answer.add_budgets();
  node->set_host_bytes(512_GiB);
  node->set_host_used_bytes(10_GiB);
  auto* job = daemon.node_answer.add_budgets();
  job->set_job("rl");
  job->set_disk_bytes(1_GiB);
  job->set_disk_used_bytes(2_GiB);
  job->set_over(true);
  const Outcome all = RunCli({"budget", daemon.flag()});
  CHECK(all.exit_code == 0);
  CHECK(all.out ==
        "BUDGET     HOST      USED      DISK      USED  STATE\n"
        "node    512 GiB  10.0 GiB         -         0  ok\n"
        "job rl        -         0  1.00 GiB  2.00 GiB  over\n");
  const auto json = nlohmann::json::parse(RunCli({"budget", "-o", "json", daemon.flag()}).out);
  CHECK(json["budgets"][0]["job"].is_null());
  CHECK(json["budgets"][1]["host_bytes"].is_null());
  CHECK(json["budgets"][1]["over"] == true);

  CHECK(RunCli({"budget", "--job", "rl", "--host", "none", daemon.flag()}).exit_code == 0);
  CHECK(daemon.budget_request.job() == "rl");
  CHECK(daemon.budget_request.has_host_bytes());
  CHECK(daemon.budget_request.host_bytes() == 0);
  CHECK_FALSE(daemon.budget_request.has_disk_bytes());
  CHECK(RunCli({"budget", "--disk", "2TiB", daemon.flag()}).exit_code == 0);
  CHECK(daemon.budget_request.disk_bytes() == 2048_GiB);
  const Outcome one = RunCli({"budget", "--job", "rl", daemon.flag()});
  CHECK(one.exit_code == 0);
  CHECK(one.out ==
        "BUDGET  HOST  USED      DISK      USED  STATE\n"
        "job rl     -     0  1.00 GiB  2.00 GiB  over\n");
  CHECK(RunCli({"budget", "--job", "other", daemon.flag()}).exit_code == 3);
  CHECK(RunCli({"budget", "--host", "much", daemon.flag()}).exit_code == 2);
}

TEST_CASE("verify shows what was read, and where it fails each block that is wrong") {
  FakeControl daemon;
  *daemon.verify_answer.add_results() = Wrong();
  daemon.verify_answer.mutable_results(0)->clear_wrong_blocks();
  daemon.verify_answer.mutable_results(0)->clear_wrong_block_count();
  const Outcome whole = RunCli({"verify", "4711", "--allow-empty", daemon.flag()});
  CHECK(whole.exit_code == 0);
  CHECK(whole.out ==
        " PID  STATE       HOST      DISK  PATTERNS  WRONG    TIME       RATE\n"
        "4711  paused  3.00 GiB  1.00 GiB         0      0  2.00 s  2.15 GB/s\n");
  CHECK(daemon.verify_request.selector().pids(0) == 4711);
  CHECK(daemon.verify_request.allow_empty());
  CHECK_FALSE(daemon.verify_request.request_id().empty());

  daemon.error = ErrorWithReason(grpc::StatusCode::DATA_LOSS, "a block is wrong", "BACKUP_CORRUPT");
  *daemon.operation_answer.add_results() = Wrong();
  const Outcome o = RunCli({"verify", "4711", "--request-id", "nightly", daemon.flag()});
  CHECK(o.exit_code == 7);
  CHECK(daemon.verify_request.request_id() == "nightly");
  CHECK(daemon.operation_request.request_id() == "nightly");
  CHECK(o.out.find(" PID  DEVICE   SIZE  ADDRESS         WRONG    PLACE\n"
                   "4711       0  2 MiB  0x7f0000000000  changed  host\n"
                   "4711       1  4 KiB  0x7f0000200000  missing  data.3 at 8192\n") !=
        std::string::npos);
  const auto json =
      nlohmann::json::parse(RunCli({"verify", "4711", "-o", "json", daemon.flag()}).out);
  const auto& blocks = json["results"][0]["wrong_blocks"];
  CHECK(blocks[0]["file"].is_null());
  CHECK(blocks[1]["offset"] == 8192);
  CHECK(blocks[1]["missing"] == true);
  CHECK(RunCli({"verify", daemon.flag()}).exit_code == 2);
}

TEST_CASE("prefetch shows what has come and what has not") {
  FakeControl daemon;
  auto* result = daemon.prefetch_answer.add_results();
  result->set_pid(4711);
  result->set_state(v1::PROCESS_STATE_PAUSED);
  result->set_host_bytes(3_GiB);
  result->set_left_bytes(1_GiB);
  result->set_total_seconds(2);
  result->set_move_seconds(2);
  const Outcome o =
      RunCli({"prefetch", "4711", "--allow-empty", "--request-id", "before-step-7", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out ==
        " PID  STATE       HOST      LEFT    TIME       RATE\n"
        "4711  paused  3.00 GiB  1.00 GiB  2.00 s  1.61 GB/s\n");
  CHECK(daemon.prefetch_request.selector().pids(0) == 4711);
  CHECK(daemon.prefetch_request.allow_empty());
  CHECK(daemon.prefetch_request.request_id() == "before-step-7");
  const auto json =
      nlohmann::json::parse(RunCli({"prefetch", "4711", "-o", "json", daemon.flag()}).out);
  CHECK(json["results"][0]["left_bytes"] == 1_GiB);
  CHECK(json["results"][0]["write_behind_id"].is_null());
  CHECK(RunCli({"prefetch", daemon.flag()}).exit_code == 2);
  daemon.error = ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", "HOST_MEMORY");
  CHECK(RunCli({"prefetch", "4711", daemon.flag()}).exit_code == 5);
}

TEST_CASE("an operation that waits says for what") {
  FakeControl daemon;
  auto* operation = daemon.operations_answer.add_operations();
  operation->set_id("m3-7");
  operation->set_kind(v1::Operation::KIND_RESUME);
  operation->set_state(v1::Operation::STATE_RUNNING);
  auto* wait = operation->add_waiting();
  wait->set_gpu_uuid("GPU-aaaa");
  wait->set_needed_bytes(4_GiB);
  wait->set_free_bytes(6_GiB);
  wait->set_ahead_bytes(30_GiB);
  wait->set_position(2);
  const Outcome o = RunCli({"ops", daemon.flag()});
  CHECK(o.out.find("waits for 4.00 GiB, 6.00 GiB free, 30.0 GiB ahead, position 2") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(RunCli({"ops", "-o", "json", daemon.flag()}).out);
  CHECK(json["operations"][0]["waiting"][0]["ahead_bytes"] == 30_GiB);
  CHECK(RunCli({"resume", "4711", "--priority", "3", daemon.flag()}).exit_code == 0);
  CHECK(daemon.resume_request.priority() == 3);
}

}  // namespace parkade::cli
