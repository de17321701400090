// `parkade plan`: figures that others have published, and what is needed at which sizes.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/plan_figures.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

using Way = PlanFigures::Way;

PlanInput Small() {
  PlanInput input;
  input.parameters = 8e9;
  input.tp = 2;
  input.dp = 4;
  input.hbm = 80e9;
  return input;
}

}  // namespace

TEST_CASE("744 B parameters on 32 ranks have 279 GB of optimizer state each") {
  const Outcome o = RunCli(
      {"plan",  "--params",        "744B", "--tp",   "4",     "--pp",   "8",    "--hbm",
       "276GB", "--gpus-per-node", "4",    "--host", "960GB", "--disk", "12TB", "--disk-read",
       "24",    "--disk-write",    "12",   "-o",     "json"});
  INFO(o.err << o.out);
  REQUIRE(o.exit_code == 0);
  const auto json = nlohmann::json::parse(o.out);
  CHECK(json["optimizer_bytes_per_rank"] == 279'000'000'000);
  CHECK(json["ranks"] == 32);
  CHECK(json["nodes"] == 8);
  CHECK(json["needed"] == "streaming");
  // Four ranks of a node: 1116 GB written at 12 GB/s, read at 24 GB/s.
  CHECK(json["least_seconds_per_step"] == Approx(93));
  CHECK(json["most_seconds_per_step"] == Approx(139.5));
  CHECK(json["written_bytes_per_step_and_node"] == 1'116'000'000'000);
}

TEST_CASE("the optimizer is shared out over all ranks, weights over those of a model alone") {
  const PlanFigures f = Plan(Small());
  CHECK(f.ranks == 8);
  CHECK(f.weights == Approx(8e9));
  CHECK(f.gradients == Approx(8e9));
  CHECK(f.optimizer == Approx(12e9));
  CHECK(f.node_state == Approx(8 * 28e9));
}

TEST_CASE("expert parallel ranks divide the experts") {
  PlanInput input = Small();
  input.expert_share = 0.75;
  input.ep = 8;
  CHECK(Plan(input).weights == Approx((2e9 / 2 + 6e9 / 8) * 2));
  input.ep = 9;
  CHECK(CheckPlan(input).find("--ep 9") == 0);
}

TEST_CASE("what is needed follows from what fits where") {
  PlanInput input = Small();
  CHECK(Plan(input).way == Way::kNone);
  input.other = 60e9;  // and 28 GB of training do not go into 80 GB
  input.host = 500e9;
  CHECK(Plan(input).way == Way::kHost);
  CHECK(Plan(input).least_seconds == Approx(28e9 / 50e9));
  CHECK(Plan(input).written_per_step == 0);
  input.host = 200e9;
  input.disk = 1e12;
  CHECK(Plan(input).way == Way::kDisk);
  CHECK(Plan(input).least_seconds < 0);  // nobody said how fast it is
  input.disk_read_rate = input.disk_write_rate = 7e9;
  input.endurance = 1e15;
  input.steps_per_day = 100;
  CHECK(Plan(input).most_seconds == Approx(64));
  CHECK(Plan(input).drive_days == Approx(1e15 / (224e9 * 100)));
  input.disk = 0;
  CHECK(Plan(input).way == Way::kNever);
  input.hbm = 20e9;
  input.other = 0;
  input.host = 500e9;
  CHECK(Plan(input).way == Way::kStream);
  input.hbm = 10e9;  // less than weights and gradients
  CHECK(Plan(input).way == Way::kNever);
}

TEST_CASE("a plan that does not fit is exit code 5, one that cannot be is usage") {
  CHECK(RunCli({"plan", "--params", "744B", "--hbm", "80G"}).exit_code == kExitResources);
  CHECK(RunCli({"plan", "--params", "many", "--hbm", "80G"}).exit_code == kExitUsage);
  CHECK(RunCli({"plan", "--params", "7B"}).exit_code == kExitUsage);
  CHECK(RunCli({"plan", "--params", "7B", "--hbm", "80G", "--weights", "int4"}).exit_code ==
        kExitUsage);
}

TEST_CASE("what is not given is this node's with --measured") {
  FakeControl daemon;
  daemon.node_answer.add_gpus()->set_total_bytes(uint64_t(80) << 30);
  daemon.node_answer.set_host_total_bytes(uint64_t(1) << 40);
  const Outcome o = RunCli({"plan", "--params", "7B", "--measured", daemon.flag()});
  INFO(o.err);
  CHECK(o.exit_code == 0);
  CHECK(o.out.find("streaming") != std::string::npos);  // 112 GB do not go into 80 GiB
  daemon.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  CHECK(RunCli({"plan", "--params", "7B", "--measured", daemon.flag()}).exit_code ==
        kExitUnreachable);
}

}  // namespace parkade::cli
