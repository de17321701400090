// Settings' lines fall into their parts, whatever a process wrote.
#include "cli/setting.h"

#include <catch2/catch.hpp>

namespace parkade::cli {
namespace {

void CheckParts(const std::string& line, const Setting& expected) {
  INFO(line);
  const Setting setting = ReadSetting(line);
  CHECK(setting.name == expected.name);
  CHECK(setting.value == expected.value);
  CHECK(setting.source == expected.source);
}

}  // namespace

TEST_CASE("a setting has a name, a value and a source") {
  CheckParts("policy=host (default)", {"policy", "host", "default"});
  CheckParts("scratch=/a=b (c) (PARKADE_SCRATCH_DIR)",
             {"scratch", "/a=b (c)", "PARKADE_SCRATCH_DIR"});
  CheckParts("job= (environment)", {"job", "", "environment"});
}

TEST_CASE("a line of another form is kept whole") {
  for (const char* line : {"", "nothing", "a=b", "a (b)", "(a=b)", "a (b)=c"}) {
    CheckParts(line, {"", line, ""});
  }
}

}  // namespace parkade::cli
