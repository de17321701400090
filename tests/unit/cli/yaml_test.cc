// `-o yaml`: the same values as `-o json`, whatever they are.
#include "cli/yaml.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

TEST_CASE("values of every kind stand in blocks") {
  const Json json = Json::parse(R"({
    "pid": 4711, "rate": 1.5, "share": 1e-7, "job": null, "done": true,
    "state": "paused", "no": "no", "two words": "a: b # c\n\"d\"", "none": [], "empty": {},
    "devices": [{"gpu": 0, "tags": ["weights", "kv"]}, {"gpu": 1}], "pairs": [[1, 2], [], [3]]})");
  CHECK(ToYaml(json) == R"(pid: 4711
rate: 1.5
share: 1.0e-07
job: null
done: true
state: "paused"
"no": "no"
"two words": "a: b # c\n\"d\""
none: []
empty: {}
devices:
  - gpu: 0
    tags:
      - "weights"
      - "kv"
  - gpu: 1
pairs:
  - - 1
    - 2
  - []
  - - 3
)");
  CHECK(ToYaml(Json(7)) == "7\n");
  CHECK(ToYaml(Json::object()) == "{}\n");
}

TEST_CASE("each document that is flushed comes out, and what is none as it is") {
  std::ostringstream out;
  {
    const YamlOutput yaml(out);
    out << R"({"a":)" << std::flush;
    CHECK(out.str().empty());
    out << "1}" << std::endl;
    out << R"({"a": 2})" << std::endl;
    out << "no document\n";
  }
  CHECK(out.str() == "---\na: 1\n---\na: 2\nno document\n");
}

TEST_CASE("an output that takes nothing is said to") {
  struct Full : std::streambuf {
  } full;
  std::ostream out(&full);
  {
    const YamlOutput yaml(out);
    out << "[1]";
  }
  CHECK(out.bad());
}

TEST_CASE("ps and watch answer in YAML") {
  FakeControl daemon;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_RUNNING);
  const Outcome ps = RunCli({"ps", "-o", "yaml", daemon.flag()});
  CHECK(ps.exit_code == 0);
  CHECK(ps.out.rfind("---\nschema_version: 1\nprocesses:\n  - ", 0) == 0);
  CHECK(ps.out.find("pid: 4711\n") != std::string::npos);
}

}  // namespace parkade::cli
