// Errors on their way from a shim to a gRPC client.
#include "daemon/status.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status_grpc.h"
#include "proto/error.pb.h"

using namespace parkade;
using namespace parkade::daemon;

TEST_CASE("a client finds code, message, reason and metadata in the details") {
  const auto status =
      Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE", "no room", {{"path", "/scratch"}});
  const grpc::Status out = ToGrpc(status);
  CHECK(out.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(out.error_message() == "no room");
  v1::ErrorStatus details;
  REQUIRE(details.ParseFromString(out.error_details()));
  CHECK(details.code() == 8);
  REQUIRE(details.details_size() == 1);
  CHECK(details.details(0).type_url() == "type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  REQUIRE(info.ParseFromString(details.details(0).value()));
  CHECK(info.reason() == "DISK_SPACE");
  CHECK(info.domain() == "parkade.v1");
  CHECK(info.metadata().at("path") == "/scratch");
  CHECK(ToGrpc(absl::OkStatus()).ok());
}

TEST_CASE("an error of the operating system says its number and its words") {
  const auto status = ToStatus(OsError(ENOSPC, "write %s", "x"));
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReasonOf(status) == "DISK_SPACE");
  CHECK(MessageOf(status) == "write x: No space left on device");
  CHECK(MetadataOf(status)["os_errno"] == std::to_string(ENOSPC));
}

TEST_CASE("what a shim answers is carried over and not trusted") {
  auto reply = wire::Make<wire::Reply>();
  CHECK(ToStatus(reply, 5).ok());
  reply.code = uint32_t(Code::kResourceExhausted);
  reply.cuda = 2;
  reply.device = 1;
  CopyText(reply.reason, "GPU_MEMORY");
  CopyText(reply.message, "needs \x1b[31m 5 bytes");
  const auto status = ToStatus(reply, 5);
  CHECK(ReasonOf(status) == "GPU_MEMORY");
  CHECK(MessageOf(status) == "process 5: needs ?[31m 5 bytes");
  CHECK(MetadataOf(status)["pid"] == "5");
  CHECK(MetadataOf(status)["cuda"] == "2");
  CHECK(MetadataOf(status)["device"] == "1");
  reply.code = 4711;
  CopyText(reply.reason, "rm -rf");
  CHECK(ToStatus(reply, 5).code() == absl::StatusCode::kUnknown);
  CHECK(ReasonOf(ToStatus(reply, 5)) == "SHIM_ERROR");
}

TEST_CASE("more can be said of a failure") {
  const auto status = Annotate(Fail(absl::StatusCode::kAborted, "X", "text", {{"a", "1"}}),
                               "before: ", {{"b", "2"}});
  CHECK(status.code() == absl::StatusCode::kAborted);
  CHECK(MessageOf(status) == "before: text");
  CHECK(MetadataOf(status) == Metadata{{"a", "1"}, {"b", "2"}});
}

TEST_CASE("only valid UTF-8 without control characters is printable") {
  CHECK(Printable("plain /path-1") == "plain /path-1");
  CHECK(Printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\x97") ==
        "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\x97");
  CHECK(Printable("a\nb\x1b\x7f") == "a?b??");
  CHECK(Printable("\xc0\x80") == "??");            // overlong
  CHECK(Printable("\xed\xa0\x80") == "???");       // surrogate
  CHECK(Printable("\xe2\x82") == "??");            // cut
  CHECK(Printable("\xc2\x9b") == "??");            // C1
  CHECK(Printable("\xf4\x90\x80\x80") == "????");  // beyond Unicode
}
