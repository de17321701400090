// Errors inside the daemon: an absl::Status that carries a google.rpc.ErrorInfo, and the way from
// Result's Error and from a shim's Reply to one. Knows no gRPC (status_grpc.h does).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/result.h"
#include "proto/wire.h"

namespace parkade::daemon {

using Metadata = std::map<std::string, std::string>;

constexpr char kErrorDomain[] = "parkade.v1";
constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// A failure. `reason` is one of those listed in control.proto, `message` a sentence for people.
absl::Status Fail(absl::StatusCode code, std::string_view reason, std::string_view message,
                  const Metadata& metadata = {});

// The same for an Error; adds os_errno and cuda to the metadata when they are set.
absl::Status ToStatus(const Error& error, const Metadata& metadata = {});

// What a shim answered: OK, or its error with the pid put in front. The text is not trusted.
absl::Status ToStatus(const wire::Reply& reply, int pid);

// The same failure with more said: `prefix` before the message, `metadata` added.
absl::Status Annotate(const absl::Status& status, std::string_view prefix,
                      const Metadata& metadata = {});

// Text and reason; the reason and the metadata are empty when the status carries none.
std::string MessageOf(const absl::Status& status);
std::string ReasonOf(const absl::Status& status);
Metadata MetadataOf(const absl::Status& status);

}  // namespace parkade::daemon
