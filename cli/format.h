// Text for people: sizes, times, rates, names of states; nothing here reads input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace parkade::cli {

std::string FormatBytes(uint64_t bytes);    // "0", "17 B", "620 MiB", "8.00 GiB", in powers of 1024
std::string FormatSeconds(double seconds);  // "0 s", "0.40 ms", "327 ms", "8.10 s", "132 s"
// "52.6 GB/s", decimal as drives and links are rated; "-" when no time has passed.
std::string FormatRate(uint64_t bytes, double seconds);
std::string FormatAddress(uint64_t address);  // "0x7f0000000000"
std::string FormatTime(const google::protobuf::Timestamp& time, absl::TimeZone zone);  // RFC 3339
// "3.10 GiB of 8.00 GiB, 21.0 GB/s, 250 ms left"; what is unknown is left out.
std::string FormatProgress(const v1::Progress& progress);

std::string StateName(v1::ProcessState state);  // "running", "partly_moved"; "state 99" if unknown
std::string KindName(v1::Event::Kind kind);     // "present", "progress"
std::string PolicyName(v1::Policy policy);      // "host"
std::string OperationKindName(v1::Operation::Kind kind);     // "pause"
std::string OperationStateName(v1::Operation::State state);  // "running", "done"

// `text` with every control character replaced by "?": labels and command lines come from other
// processes and must not move the cursor of whoever lists them.
std::string Printable(std::string_view text);

// `text`, or "-" when it is empty.
std::string OrDash(std::string_view text);

// "rl/actor/3" from job, role and rank, "-" where one is missing.
std::string Labels(const v1::Process& process);

}  // namespace parkade::cli
