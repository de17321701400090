// `parkade show` against a daemon in software.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

v1::GetProcessResponse Answer(int allocations) {
  v1::GetProcessResponse answer;
  *answer.mutable_process() = MakeProcess(4711, v1::PROCESS_STATE_PAUSED);
  answer.mutable_process()->set_scratch_dir("/scratch/p1");
  answer.mutable_process()->add_settings("policy=disk (PARKADE_POLICY)");
  answer.mutable_process()->add_warnings("PARKADE_CHUNK=0 is no size");
  for (int i = 0; i < allocations; ++i) {
    v1::Allocation* a = answer.add_allocations();
    a->set_address(0x7f00'0000'0000 + uint64_t(i) * 2_MiB);
    a->set_bytes(uint64_t(i + 1) * 1_MiB);
    a->set_tag(i % 2 == 0 ? "weights" : "kv_cache");
    a->set_allocation_class("pausable");
    a->set_place("host");
  }
  return answer;
}

size_t Lines(const std::string& text, const std::string& start) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find("\n" + start, at)) != std::string::npos; ++at) ++count;
  return count;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("show sums allocations by tag and lists the largest") {
  FakeControl daemon;
  daemon.get_answer = Answer(30);
  const Outcome o = RunCli({"show", "4711", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(daemon.get_request.pid() == 4711);
  CHECK(Has(o.out, "kv_cache  pausable  host      15  240 MiB\n"));
  CHECK(Has(o.out, "weights   pausable  host      15  225 MiB\n"));
  CHECK(Lines(o.out, "0x") == 20);
  CHECK(Has(o.out, "\n0x7f0003a00000  30 MiB"));
  CHECK(Has(o.out, "the 20 largest of 30"));
  CHECK(Has(o.out, "policy   PARKADE_POLICY  disk\n"));
  CHECK(Has(o.out, "warning: PARKADE_CHUNK=0 is no size\n"));
  CHECK(Has(o.out, "state       paused\n"));
  CHECK(Has(o.out, "/scratch/p1"));
}

TEST_CASE("show -o wide lists every allocation") {
  FakeControl daemon;
  daemon.get_answer = Answer(30);
  const Outcome o = RunCli({"show", "4711", "-o", "wide", daemon.flag()});
  CHECK(Lines(o.out, "0x") == 30);
  CHECK_FALSE(Has(o.out, "largest of"));
}

TEST_CASE("show -o json has every allocation, setting and warning") {
  FakeControl daemon;
  daemon.get_answer = Answer(30);
  const auto json =
      nlohmann::json::parse(RunCli({"show", "4711", "-o", "json", daemon.flag()}).out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["process"]["pid"] == 4711);
  CHECK(json["allocations"].size() == 30);
  uint64_t count = 0, bytes = 0;
  for (const auto& tag : json["tags"]) {
    count += tag["count"].get<uint64_t>();
    bytes += tag["bytes"].get<uint64_t>();
  }
  CHECK(count == 30);
  uint64_t listed = 0;
  for (const auto& a : json["allocations"]) listed += a["bytes"].get<uint64_t>();
  CHECK(bytes == listed);
  CHECK(json["allocations"][29] == nlohmann::json::parse(R"({"address": "0x7f0003a00000",
      "bytes": 31457280, "device": 0, "tag": "kv_cache", "class": "pausable", "place": "host"})"));
  CHECK(json["process"]["settings"] ==
        nlohmann::json::parse(
            R"([{"name": "policy", "value": "disk", "source": "PARKADE_POLICY"}])"));
  CHECK(json["process"]["warnings"] == nlohmann::json::parse(R"(["PARKADE_CHUNK=0 is no size"])"));
}

TEST_CASE("a million allocations fit into one answer") {
  FakeControl daemon;
  daemon.get_answer = Answer(200'000);  // some 8 MB: twice what gRPC takes by default
  const Outcome o = RunCli({"show", "4711", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(Has(o.out, "the 20 largest of 200000"));
}

TEST_CASE("show needs one PID") {
  CHECK(RunCli({"show"}).exit_code == kExitUsage);
  CHECK(RunCli({"show", "x"}).exit_code == kExitUsage);
  CHECK(RunCli({"show", "1", "2"}).exit_code == kExitUsage);
}

}  // namespace parkade::cli
