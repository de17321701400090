// Speaks gRPC over the daemon's Unix socket, or over TLS.
#include "cli/client.h"

#include <errno.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/endpoint.h"
#include "cli/error.h"
#include "common/fd.h"
#include "proto/control.grpc.pb.h"
#include "proto/error.pb.h"

namespace parkade::cli {
namespace {

constexpr absl::Duration kQuestion = absl::Seconds(10);
constexpr absl::Duration kTransition = absl::Minutes(30);
constexpr absl::Duration kNoEnd = absl::InfiniteDuration();

// The constant in the error's details, empty if it has none: then it is gRPC's own.
std::string ReasonIn(const grpc::Status& status) {
  v1::ErrorStatus details;
  v1::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details().empty()) return "";
  return info.ParseFromString(details.details(0).value()) ? info.reason() : "";
}

// A gRPC target of the socket: its syntax is a URI's, a path may hold anything.
std::string Target(const std::string& path) {
  std::string target = "unix:";
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || strchr("/-_.~", c) != nullptr) {
      target += c;
    } else {
      absl::StrAppendFormat(&target, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return target;
}

// Why no call reaches the socket, as connect(2) says it.
absl::Status WhyUnreachable(const std::string& path, const std::string& otherwise) {
  const auto unreachable = [&path](const std::string& why) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      absl::StrCat("no daemon at ", path, ": ", why), "UNREACHABLE");
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return unreachable("the path is too long");
  memcpy(address.sun_path, path.data(), path.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return unreachable(strerror(errno));
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return unreachable(otherwise);
  }
  if (errno == ECONNREFUSED) return unreachable("nobody listens on its socket");
  return unreachable(strerror(errno));
}

}  // namespace

struct EventStream::Call {
  Endpoint endpoint;
  absl::Status broken;  // why there is no reader
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::Event>> reader;
};

struct Client::Wire {
  Endpoint endpoint;
  absl::Status broken;  // why there is no stub
  std::optional<absl::Duration> timeout;
  std::unique_ptr<v1::Control::Stub> stub;

  void SetDeadline(grpc::ClientContext& context, absl::Duration otherwise) const {
    const absl::Duration wait = timeout.value_or(otherwise);
    if (wait != kNoEnd) context.set_deadline(absl::ToChronoTime(absl::Now() + wait));
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&,
                                                                          Response*),
                                const Request& request, absl::Duration wait) const;
};

namespace {

absl::Status ToStatus(const grpc::Status& status, const Endpoint& endpoint) {
  if (status.ok()) return absl::OkStatus();
  const std::string reason = ReasonIn(status);
  const std::string& path = endpoint.name;
  // An error of the connection, not of the daemon; for a path that no socket can have, gRPC gives
  // UNKNOWN.
  const bool too_long = !endpoint.tls && path.size() >= sizeof(sockaddr_un::sun_path);
  if (endpoint.tls && status.error_code() == grpc::StatusCode::UNAVAILABLE && reason.empty()) {
    return MakeStatus(
        absl::StatusCode::kUnavailable,
        absl::StrCat("no daemon at ", path, ", or its certificate or ours is refused"),
        "UNREACHABLE");
  }
  if ((status.error_code() == grpc::StatusCode::UNAVAILABLE && reason.empty()) || too_long) {
    return WhyUnreachable(path, "it closed the connection");
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && reason.empty()) {
    return MakeStatus(absl::StatusCode::kDeadlineExceeded, "the daemon did not answer in time",
                      "NO_ANSWER");
  }
  return MakeStatus(static_cast<absl::StatusCode>(status.error_code()), status.error_message(),
                    reason);
}

}  // namespace

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Wire::Call(
    grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, absl::Duration wait) const {
  if (!broken.ok()) return broken;
  grpc::ClientContext context;
  SetDeadline(context, wait);
  Response response;
  const grpc::Status status = (stub.get()->*method)(&context, request, &response);
  if (!status.ok()) return ToStatus(status, endpoint);
  return response;
}

EventStream::EventStream(std::unique_ptr<Call> call) : call_(std::move(call)) {}
EventStream::~EventStream() { Cancel(); }
bool EventStream::Next(v1::Event* event) {
  return call_->broken.ok() && call_->reader->Read(event);
}
absl::Status EventStream::Finish() {
  if (!call_->broken.ok()) return call_->broken;
  return ToStatus(call_->reader->Finish(), call_->endpoint);
}
void EventStream::Cancel() { call_->context.TryCancel(); }

Client::Client(const Globals& globals) : wire_(std::make_unique<Wire>()) {
  // gRPC would print its own lines beside our one sentence.
  gpr_set_log_function([](gpr_log_func_args*) {});
  wire_->timeout = globals.timeout;
  auto endpoint = EndpointOf(globals);
  wire_->broken = endpoint.status();
  if (!endpoint.ok()) return;
  const Endpoint& to = wire_->endpoint = std::move(*endpoint);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a process may have a million allocations
  wire_->stub = v1::Control::NewStub(
      grpc::CreateCustomChannel(to.tls ? to.name : Target(to.name),
                                to.tls ? grpc::SslCredentials({to.ca, to.key, to.certificate})
                                       : grpc::InsecureChannelCredentials(),
                                arguments));
}

Client::~Client() = default;

absl::StatusOr<v1::ListProcessesResponse> Client::ListProcesses(
    const v1::ListProcessesRequest& request) {
  return wire_->Call(&v1::Control::Stub::ListProcesses, request, kQuestion);
}

absl::StatusOr<v1::GetProcessResponse> Client::GetProcess(int32_t pid) {
  v1::GetProcessRequest request;
  request.set_pid(pid);
  return wire_->Call(&v1::Control::Stub::GetProcess, request, kQuestion);
}

absl::StatusOr<v1::GetNodeResponse> Client::GetNode() {
  return wire_->Call(&v1::Control::Stub::GetNode, v1::GetNodeRequest(), kQuestion);
}

absl::StatusOr<v1::PauseResponse> Client::Pause(const v1::PauseRequest& request) {
  return wire_->Call(&v1::Control::Stub::Pause, request, kTransition);
}

absl::StatusOr<v1::ResumeResponse> Client::Resume(const v1::ResumeRequest& request) {
  return wire_->Call(&v1::Control::Stub::Resume, request, kTransition);
}

absl::StatusOr<v1::HandoffResponse> Client::Handoff(const v1::HandoffRequest& request) {
  return wire_->Call(&v1::Control::Stub::Handoff, request, kTransition);
}

absl::StatusOr<v1::WaitFreeResponse> Client::WaitFree(const v1::WaitFreeRequest& request) {
  return wire_->Call(&v1::Control::Stub::WaitFree, request, kTransition);
}

absl::StatusOr<v1::ReserveResponse> Client::Reserve(const v1::ReserveRequest& request) {
  return wire_->Call(&v1::Control::Stub::Reserve, request, kTransition);
}

absl::StatusOr<v1::ReleaseResponse> Client::Release(const v1::ReleaseRequest& request) {
  return wire_->Call(&v1::Control::Stub::Release, request, kQuestion);
}

absl::StatusOr<v1::SetBudgetResponse> Client::SetBudget(const v1::SetBudgetRequest& request) {
  return wire_->Call(&v1::Control::Stub::SetBudget, request, kQuestion);
}

absl::StatusOr<v1::VerifyResponse> Client::Verify(const v1::VerifyRequest& request) {
  return wire_->Call(&v1::Control::Stub::Verify, request, kTransition);
}

absl::StatusOr<v1::PrefetchResponse> Client::Prefetch(const v1::PrefetchRequest& request) {
  return wire_->Call(&v1::Control::Stub::Prefetch, request, kTransition);
}

absl::StatusOr<v1::Operation> Client::GetOperation(const v1::GetOperationRequest& request) {
  return wire_->Call(&v1::Control::Stub::GetOperation, request, kQuestion);
}

absl::StatusOr<v1::ListOperationsResponse> Client::ListOperations(
    const v1::ListOperationsRequest& request) {
  return wire_->Call(&v1::Control::Stub::ListOperations, request, kQuestion);
}

absl::StatusOr<v1::Operation> Client::CancelOperation(const v1::CancelOperationRequest& request) {
  return wire_->Call(&v1::Control::Stub::CancelOperation, request, kTransition);
}

absl::StatusOr<v1::Group> Client::DefineGroup(const v1::DefineGroupRequest& request) {
  return wire_->Call(&v1::Control::Stub::DefineGroup, request, kQuestion);
}

absl::StatusOr<v1::RemoveGroupResponse> Client::RemoveGroup(const v1::RemoveGroupRequest& request) {
  return wire_->Call(&v1::Control::Stub::RemoveGroup, request, kQuestion);
}

absl::StatusOr<v1::ListGroupsResponse> Client::ListGroups() {
  return wire_->Call(&v1::Control::Stub::ListGroups, v1::ListGroupsRequest(), kQuestion);
}

absl::StatusOr<v1::CollectGarbageResponse> Client::CollectGarbage(
    const v1::CollectGarbageRequest& request) {
  return wire_->Call(&v1::Control::Stub::CollectGarbage, request, kTransition);
}

absl::StatusOr<v1::ListStoresResponse> Client::ListStores(const v1::ListStoresRequest& request) {
  return wire_->Call(&v1::Control::Stub::ListStores, request, kQuestion);
}

absl::StatusOr<v1::GetStoreResponse> Client::GetStore(const v1::GetStoreRequest& request) {
  return wire_->Call(&v1::Control::Stub::GetStore, request, kQuestion);
}

absl::StatusOr<v1::MarkResponse> Client::Mark(const v1::MarkRequest& request) {
  return wire_->Call(&v1::Control::Stub::Mark, request, kQuestion);
}

absl::Status Client::GetTimeline(const v1::GetTimelineRequest& request,
                                 const std::function<void(const v1::TimelineEntry&)>& hear) {
  if (!wire_->broken.ok()) return wire_->broken;
  grpc::ClientContext context;
  wire_->SetDeadline(context, kTransition);
  const auto reader = wire_->stub->GetTimeline(&context, request);
  for (v1::TimelineEntry entry; reader->Read(&entry);) hear(entry);
  return ToStatus(reader->Finish(), wire_->endpoint);
}

std::unique_ptr<EventStream> Client::Watch(const v1::WatchRequest& request) {
  auto call = std::make_unique<EventStream::Call>();
  call->endpoint = wire_->endpoint;
  call->broken = wire_->broken;
  wire_->SetDeadline(call->context, kNoEnd);
  if (call->broken.ok()) call->reader = wire_->stub->Watch(&call->context, request);
  return std::make_unique<EventStream>(std::move(call));
}

}  // namespace parkade::cli
