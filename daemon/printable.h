// Makes text that a process sent fit for logs, protobuf strings and terminals.
#pragma once

#include <string>
#include <string_view>

namespace parkade::daemon {

// `text` as valid UTF-8 without control characters; what is neither becomes '?'.
std::string Printable(std::string_view text);

}  // namespace parkade::daemon
