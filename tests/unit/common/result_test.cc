// Results, and the kinds that errno values become.
#include "common/result.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <string>

namespace parkade {
namespace {

TEST_CASE("a result holds its value or its error") {
  Result<std::unique_ptr<int>> value(std::make_unique<int>(7));
  REQUIRE(value.ok());
  CHECK(**value == 7);
  const Result<int> error(MakeError(Code::kDataLoss, "CHECKSUM", "block %d", 3));
  REQUIRE_FALSE(error.ok());
  CHECK(std::string(error.error().what) == "block 3");
  CHECK(Result<void>().ok());
  CHECK_FALSE(Result<void>(error.error()).ok());
}

TEST_CASE("an error text that is too long is cut and still ended") {
  const std::string text(1000, 'x');
  const Error e = MakeError(Code::kInternal, "X", "%s", text.c_str());
  CHECK(std::string(e.what) == text.substr(0, sizeof e.what - 1));
}

TEST_CASE("errno decides kind and reason") {
  const struct {
    int os_errno;
    Code code;
    const char* reason;
  } kCases[] = {{ENOSPC, Code::kResourceExhausted, "DISK_SPACE"},
                {EDQUOT, Code::kResourceExhausted, "DISK_QUOTA"},
                {ENOMEM, Code::kResourceExhausted, "HOST_MEMORY"},
                {EACCES, Code::kPermissionDenied, "NO_ACCESS"},
                {ENOENT, Code::kNotFound, "NO_FILE"},
                {EIO, Code::kInternal, "OS_ERROR"}};
  for (const auto& c : kCases) {
    const Error e = OsError(c.os_errno, "try %d", c.os_errno);
    CHECK(e.code == c.code);
    CHECK(std::string(e.reason) == c.reason);
    CHECK(e.os_errno == c.os_errno);
  }
}

}  // namespace
}  // namespace parkade
