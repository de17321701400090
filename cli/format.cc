// Formats numbers to three significant digits.
#include "cli/format.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parkade::cli {
namespace {

std::string ThreeDigits(double value) {
  if (value < 9.995) return absl::StrFormat("%.2f", value);
  if (value < 99.95) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.0f", value);
}

// "PROCESS_STATE_PAUSED" without its prefix, in lower case.
std::string Lower(const std::string& name, std::string_view prefix, int number) {
  if (name.size() <= prefix.size()) return absl::StrCat("unknown ", number);
  return absl::AsciiStrToLower(name.substr(prefix.size()));
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  if (bytes == 0) return "0";
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes) / 1024;
  size_t unit = 0;
  // 1023.6 KiB would be shown as 1024 KiB.
  for (; value >= 1023.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  // Whole mebibytes are how GPU tools print context sizes; decimals start to matter from GiB on.
  if (unit < 2 && value == double(uint64_t(value))) {
    return absl::StrCat(uint64_t(value), " ", kUnits[unit]);
  }
  return absl::StrCat(ThreeDigits(value), " ", kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 0.9995) return absl::StrCat(ThreeDigits(seconds * 1000), " ms");
  return absl::StrCat(ThreeDigits(seconds), " s");
}

std::string FormatRate(uint64_t bytes, double seconds) {
  if (seconds <= 0 || bytes == 0) return "-";
  const double per_second = double(bytes) / seconds;
  if (per_second < 0.995e9) return absl::StrCat(ThreeDigits(per_second / 1e6), " MB/s");
  return absl::StrCat(ThreeDigits(per_second / 1e9), " GB/s");
}

std::string FormatAddress(uint64_t address) { return absl::StrFormat("0x%x", address); }

std::string FormatTime(const google::protobuf::Timestamp& time, absl::TimeZone zone) {
  const absl::Time moment = absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3S%Ez", moment, zone);
}

std::string FormatProgress(const v1::Progress& progress) {
  std::string text =
      absl::StrCat(FormatBytes(progress.done_bytes()), " of ", FormatBytes(progress.total_bytes()));
  if (progress.bytes_per_second() > 0) {
    absl::StrAppend(&text, ", ", FormatRate(uint64_t(progress.bytes_per_second()), 1));
  }
  if (progress.has_time_left()) {
    const auto& left = progress.time_left();
    absl::StrAppend(&text, ", ", FormatSeconds(double(left.seconds()) + left.nanos() * 1e-9),
                    " left");
  }
  return text;
}

std::string StateName(v1::ProcessState state) {
  return Lower(v1::ProcessState_Name(state), "PROCESS_STATE_", int(state));
}

std::string KindName(v1::Event::Kind kind) {
  return Lower(v1::Event::Kind_Name(kind), "KIND_", int(kind));
}

std::string PolicyName(v1::Policy policy) {
  return Lower(v1::Policy_Name(policy), "POLICY_", int(policy));
}

std::string OperationKindName(v1::Operation::Kind kind) {
  return Lower(v1::Operation::Kind_Name(kind), "KIND_", int(kind));
}

std::string OperationStateName(v1::Operation::State state) {
  return Lower(v1::Operation::State_Name(state), "STATE_", int(state));
}

std::string Printable(std::string_view text) {
  std::string clean(text);
  for (size_t i = 0; i < clean.size(); ++i) {
    const auto byte = static_cast<unsigned char>(clean[i]);
    // U+0080 to U+009F are control characters too; in UTF-8 they are 0xC2 and a byte below 0xA0.
    const bool c1 =
        byte == 0xc2 && i + 1 < clean.size() && static_cast<unsigned char>(clean[i + 1]) < 0xa0;
    if (c1) clean[i] = clean[i + 1] = '?';
    if (byte < 0x20 || byte == 0x7f) clean[i] = byte == '\n' || byte == '\t' ? ' ' : '?';
  }
  return clean;
}

std::string OrDash(std::string_view text) { return text.empty() ? "-" : std::string(text); }

std::string Labels(const v1::Process& process) {
  return absl::StrCat(OrDash(process.job()), "/", OrDash(process.role()), "/",
                      process.has_rank() ? absl::StrCat(process.rank()) : "-");
}

}  // namespace parkade::cli
