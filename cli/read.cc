// The checks behind the command line's values.
#include "cli/read.h"

#include <charconv>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "cli/format.h"
#include "common/bytes.h"
#include "proto/wire.h"

namespace parkade::cli {
namespace {

// Whether `text` is a whole number of at least `least` that fits the API's type.
template <typename Number>
bool IsNumber(const std::string& text, Number least) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number >= least;
}

}  // namespace

absl::StatusOr<absl::Duration> ReadDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return UsageError(absl::StrCat("time \"", text,
                                   "\": a number with a unit is expected, such as "
                                   "500ms, 30s or 5m"));
  }
  if (duration <= absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return UsageError(absl::StrCat("time \"", text, "\": must be more than zero and finite"));
  }
  return duration;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::ToInt64Seconds(duration));
  proto.set_nanos(int32_t(absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
  return proto;
}

v1::Policy ReadPolicy(const std::string& text) {
  if (text == "host") return v1::POLICY_HOST;
  if (text == "disk") return v1::POLICY_DISK;
  if (text == "auto") return v1::POLICY_AUTO;
  if (text == "discard") return v1::POLICY_DISCARD;
  if (text == "keep") return v1::POLICY_KEEP;
  return v1::POLICY_UNSPECIFIED;
}

CLI::Validator IsDuration() {
  return CLI::Validator(
      [](std::string& text) { return std::string(ReadDuration(text).status().message()); }, "",
      "duration");
}

CLI::Validator IsSize(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const auto size = ParseBytes(text);
        if (!size.ok()) return size.error().what;
        if (*size >= least && *size <= most) return "";
        return absl::StrCat("size \"", text, "\": must be from ", FormatBytes(least), " to ",
                            FormatBytes(most));
      },
      "", "size");
}

CLI::Validator IsLabel(size_t longest) {
  return CLI::Validator(
      [longest](std::string& text) -> std::string {
        if (text.empty()) return "must not be empty";
        if (text.size() > longest) {
          return absl::StrCat("\"", text, "\" is too long: ", longest, " bytes at most");
        }
        if (Printable(text) != text) return "must not hold control characters";
        return "";
      },
      "", "label");
}

CLI::Validator IsPid() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (IsNumber(text, 1)) return "";
        return absl::StrCat("\"", text, "\" is no process ID");
      },
      "", "pid");
}

CLI::Validator IsEpoch() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (IsNumber(text, uint64_t{1})) return "";
        return absl::StrCat("\"", text, "\" is no epoch: a whole number from 1 on is expected");
      },
      "", "epoch");
}

CLI::Validator IsRank() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (IsNumber(text, 0)) return "";
        return absl::StrCat("\"", text, "\" is no rank: a whole number from 0 on is expected");
      },
      "", "rank");
}

CLI::Validator IsDirectoryName() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr size_t kLongest = sizeof(wire::Hello::wanted_scratch_base) - 1;
        if (text.empty() || text[0] != '/') {
          return absl::StrCat("\"", text, "\" must be an absolute path");
        }
        if (text.size() > kLongest) return absl::StrCat("path is longer than ", kLongest, " bytes");
        return "";
      },
      "", "directory");
}

}  // namespace parkade::cli
