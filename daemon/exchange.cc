// Waits for both sides, and tells one what the other has released.
#include "daemon/exchange.h"

#include <utility>

namespace parkade::daemon {
namespace {

// A handle of 512 MiB takes some 10 ms to leave; its release stands in a ledger, which nothing
// announces.
constexpr uint64_t kLookMs = 2;

}  // namespace

absl::Status Exchange::Move(const Transition::Eviction& eviction) {
  if (course_.cancelled()) return course_.Cancellation();
  const auto leaving = out_.StartCommit(eviction);
  const auto arriving = in_.StartArrival();
  Transition::Progress seen;
  Deadline stalled = Deadline::InMs(stall_ms_);
  bool out_ended = false, in_ended = false;
  absl::Status out_status, in_status;
  while (!(out_ended && in_ended)) {
    pace_.Look(out_ended && out_status.ok());
    if (!out_ended && leaving->WaitAllOrFailure(Deadline::InMs(kLookMs))) {
      out_ended = true;
      out_status = out_.EndCommit(*leaving);
      if (!out_status.ok()) return out_status;
      continue;  // the others are to hear of it at once
    }
    const uint64_t wait_ms = out_ended ? Course::kLookMs : 0;
    if (!in_ended && arriving->WaitAllOrFailure(Deadline::InMs(wait_ms))) {
      in_ended = true;
      in_status = in_.EndArrival(*arriving);
      if (!in_status.ok()) return in_status;
    }
    if (course_.cancelled()) return course_.Cancellation();
    Transition::Progress now = out_.ProgressOfAll();
    for (const auto& each : in_.ProgressOfAll()) now.push_back(each);
    if (now != seen) stalled = Deadline::InMs(stall_ms_);
    seen = std::move(now);
    if (!stalled.Passed()) continue;
    // Without their answers these fail, and say who it is.
    return out_ended ? in_.EndArrival(*arriving) : out_.EndCommit(*leaving);
  }
  pace_.Look(true);
  return absl::OkStatus();
}

absl::Status Exchange::Run(const Transition::Eviction& eviction, bool release_host,
                           Timeline& timeline) {
  absl::Status moved = Move(eviction);
  timeline.Ended("move");
  if (moved.ok()) return in_.Resume({release_host});
  // First who came in: who went out needs its memory.
  moved = in_.SendBack(std::move(moved));
  return out_.Undo(std::move(moved));
}

}  // namespace parkade::daemon
