// `parkade store` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::Store MakeStore() {
  v1::Store store;
  store.set_pid(4711);
  store.set_job("rl");
  store.set_role("actor");
  store.set_rank(3);
  store.set_name("adam");
  store.add_directories("/nvme0/me");
  store.set_elements(5000);
  store.set_bucket_elements(1024);
  store.set_buckets(5);
  store.set_slots(3);
  store.set_placement(v1::Store::PLACEMENT_FILES);
  store.set_redundancy(v1::Store::REDUNDANCY_ROTATE);
  store.set_file_bytes(1 << 20);
  store.set_device_bytes(2 << 20);
  store.set_state(v1::Store::STATE_IDLE);
  store.set_step(7);
  store.set_last_seconds(2);
  store.set_last_read_bytes(3'000'000'000);
  store.set_last_written_bytes(2'000'000'000);
  store.set_read_bytes(uint64_t(4) << 30);
  store.set_written_bytes(uint64_t(5) << 30);
  auto* segment = store.add_segments();
  segment->set_name("main");
  segment->set_encoding("lo16");
  return store;
}

}  // namespace

TEST_CASE("store ls lists stores, those on their way with both steps") {
  FakeControl daemon;
  *daemon.stores_answer.add_stores() = MakeStore();
  v1::Store other = MakeStore();
  other.set_state(v1::Store::STATE_STEPPING);
  other.set_open_step(8);
  *daemon.stores_answer.add_stores() = other;
  other.clear_step();
  other.clear_rank();
  *daemon.stores_answer.add_stores() = other;
  const Outcome o = RunCli({"store", "ls", "--job", "rl", daemon.flag()});
  CHECK(o.exit_code == kExitOk);
  CHECK(daemon.stores_request.selector().job() == "rl");
  CHECK(o.out ==
        " PID  LABELS      STORE  STATE     STEP  ELEMENTS  FILES  HOST    LAST      READ   "
        "WRITTEN  ENCODINGS\n"
        "4711  rl/actor/3  adam   idle         7      5000  1 MiB     0  2.00 s  4.00 GiB  "
        "5.00 GiB  main=lo16\n"
        "4711  rl/actor/3  adam   stepping   7>8      5000  1 MiB     0  2.00 s  4.00 GiB  "
        "5.00 GiB  main=lo16\n"
        "4711  rl/actor/-  adam   stepping   ->8      5000  1 MiB     0  2.00 s  4.00 GiB  "
        "5.00 GiB  main=lo16\n");
  const auto json = nlohmann::json::parse(RunCli({"store", "ls", "-o", "json", daemon.flag()}).out);
  REQUIRE(json["stores"].size() == 3);
  CHECK(json["stores"][0]["step"] == 7);
  CHECK(json["stores"][0]["open_step"] == nullptr);
  CHECK(json["stores"][0]["redundancy"] == "rotate");
  CHECK(json["stores"][0]["written_bytes"] == uint64_t(5) << 30);
  CHECK(json["stores"][0]["segments"][0]["encoding"] == "lo16");
  CHECK(json["stores"][2]["step"] == nullptr);
  CHECK(json["stores"][2]["rank"] == nullptr);
}

TEST_CASE("store show describes each store of the name, and why one is torn") {
  FakeControl daemon;
  *daemon.store_answer.add_stores() = MakeStore();
  v1::Store torn = MakeStore();
  torn.set_state(v1::Store::STATE_TORN);
  torn.set_reason("TORN");
  torn.set_message("step 8 was given up\x1b");
  *daemon.store_answer.add_stores() = torn;
  const Outcome o = RunCli({"store", "show", "adam", daemon.flag()});
  CHECK(o.exit_code == kExitOk);
  CHECK(daemon.store_request.name() == "adam");
  for (const char* line :
       {"process     4711  rl/actor/3\n", "state       idle\n", "step        7\n",
        "elements    5000 in 5 buckets of 1024 at most\n", "in files    1 MiB, rotate\n",
        "            /nvme0/me\n", "in HBM      2 MiB, 3 slots\n",
        "last step   2.00 s, read 2.79 GiB at 1.50 GB/s, written 1.86 GiB at 1.00 GB/s\n",
        "state       torn\n", "because     TORN: step 8 was given up?\n"}) {
    INFO(line);
    CHECK(o.out.find(line) != std::string::npos);
  }
}

TEST_CASE("a store that is not there is an error, and a verb without its part is refused") {
  FakeControl daemon;
  daemon.error = ErrorWithReason(grpc::StatusCode::NOT_FOUND, "no such store", "NO_STORE");
  CHECK(RunCli({"store", "show", "adam", daemon.flag()}).exit_code == kExitNotFound);
  CHECK(RunCli({"store", daemon.flag()}).exit_code == kExitUsage);
  CHECK(RunCli({"store", "show", daemon.flag()}).exit_code == kExitUsage);
}

}  // namespace parkade::cli
