// Builds statuses with an ErrorInfo in the payload.
#include "daemon/status.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/cord.h"
#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/words.h"
#include "proto/error.pb.h"

namespace parkade::daemon {
namespace {

v1::ErrorInfo InfoOf(const absl::Status& status) {
  v1::ErrorInfo info;
  if (const auto payload = status.GetPayload(kErrorInfoUrl)) {
    info.ParseFromString(std::string(*payload));
  }
  return info;
}

void Attach(absl::Status& status, const v1::ErrorInfo& info) {
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
}

// A shim's reason if it looks like one.
std::string CleanReason(std::string_view reason) {
  const bool clean = !reason.empty() && std::all_of(reason.begin(), reason.end(), [](char c) {
    return isupper(static_cast<unsigned char>(c)) || isdigit(static_cast<unsigned char>(c)) ||
           c == '_';
  });
  return clean ? std::string(reason) : "SHIM_ERROR";
}

}  // namespace

absl::Status Fail(absl::StatusCode code, std::string_view reason, std::string_view message,
                  const Metadata& metadata) {
  absl::Status status(code, {message.data(), message.size()});
  v1::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(std::string(reason));
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  Attach(status, info);
  return status;
}

absl::Status ToStatus(const Error& error, const Metadata& metadata) {
  Metadata all = metadata;
  std::string message = error.what;
  if (error.os_errno != 0) {
    all["os_errno"] = std::to_string(error.os_errno);
    message += Cat(": ", strerror(error.os_errno));
  }
  if (error.cuda != 0) all["cuda"] = std::to_string(error.cuda);
  return Fail(static_cast<absl::StatusCode>(error.code), error.reason, message, all);
}

absl::Status ToStatus(const wire::Reply& reply, int pid) {
  if (reply.code == 0) return absl::OkStatus();
  const auto code = reply.code <= uint32_t(Code::kDataLoss)
                        ? static_cast<absl::StatusCode>(reply.code)
                        : absl::StatusCode::kUnknown;
  Metadata metadata{{"pid", std::to_string(pid)}};
  if (reply.os_errno != 0) metadata["os_errno"] = std::to_string(reply.os_errno);
  if (reply.cuda != 0) metadata["cuda"] = std::to_string(reply.cuda);
  if (reply.device >= 0) metadata["device"] = std::to_string(reply.device);
  if (reply.state == uint32_t(wire::ProcessState::kFailed)) metadata["sticky"] = "true";
  std::string message = Cat("process ", pid, ": ", Printable(ReadText(reply.message)));
  if (reply.os_errno > 0) message += Cat(": ", strerror(reply.os_errno));
  return Fail(code, CleanReason(ReadText(reply.reason)), message, metadata);
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix,
                      const Metadata& metadata) {
  if (status.ok()) return status;
  absl::Status more(status.code(), Cat(prefix, MessageOf(status)));
  v1::ErrorInfo info = InfoOf(status);
  for (const auto& [name, value] : metadata) (*info.mutable_metadata())[name] = value;
  Attach(more, info);
  return more;
}

std::string ReasonOf(const absl::Status& status) { return InfoOf(status).reason(); }

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

Metadata MetadataOf(const absl::Status& status) {
  const v1::ErrorInfo info = InfoOf(status);
  return {info.metadata().begin(), info.metadata().end()};
}

}  // namespace parkade::daemon
