// One message to each, and their answers.
#include "daemon/errand.h"

#include <algorithm>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr uint64_t kStopMs = 5000;  // for who works to notice that it shall no longer

WrongBlock Read(const wire::WrongBlock& in) {
  return {in.address, in.bytes,  in.device,      in.place == uint32_t(wire::Place::kDisk),
          in.file,    in.offset, in.missing != 0};
}

bool IsWorse(const absl::Status& failed, const absl::Status& than) {
  return than.ok() || (failed.code() == absl::StatusCode::kDataLoss &&
                       than.code() != absl::StatusCode::kDataLoss);
}

}  // namespace

absl::Status Errand::Run() {
  const uint64_t begin_ns = MonotonicNs();
  const auto round = std::make_shared<Round>(processes_.size());
  for (size_t i = 0; i < processes_.size(); ++i) ask_(i, round);
  Await(*round);
  const auto in_time = round->answers();
  if (!round->WaitAll(Deadline::InMs(0))) {
    Stop(processes_, Deadline::InMs(0));
    round->WaitAll(Deadline::InMs(std::min(kStopMs, stall_ms_)));
  }
  absl::Status worst;
  uint64_t wrong_blocks = 0;
  const auto answers = round->answers();
  for (size_t i = 0; i < processes_.size(); ++i) {
    Outcome& outcome = outcomes_.emplace_back();
    outcome.pid = processes_[i]->pid();
    outcome.state = processes_[i]->State();
    outcome.total_seconds = double(MonotonicNs() - begin_ns) / 1e9;
    absl::Status failed;
    if (answers[i]) {
      failed = answers[i]->status;
      if (answers[i]->reply) outcome.stats = answers[i]->reply->stats;
      for (const wire::WrongBlock& wrong : round->notes(i)) {
        outcome.wrong_blocks.push_back(Read(wrong));
      }
      wrong_blocks += outcome.stats.wrong_blocks;
    }
    // Who answers that it was stopped was so because it had stalled.
    const bool stopped = !in_time[i] && failed.code() == absl::StatusCode::kCancelled;
    if (!answers[i] || stopped) {
      failed = Fail(absl::StatusCode::kUnavailable, "SHIM_STALLED",
                    Cat("process ", outcome.pid, " stopped working on its backup"),
                    {{"pid", std::to_string(outcome.pid)}});
    }
    if (!failed.ok() && IsWorse(failed, worst)) worst = failed;
  }
  if (worst.code() == absl::StatusCode::kDataLoss) {
    return Annotate(worst, "", {{"wrong_blocks", std::to_string(wrong_blocks)}});
  }
  if (course_.cancelled()) return course_.Cancellation();
  if (worst.code() == absl::StatusCode::kCancelled) {
    return Annotate(worst, "something else was asked of it meanwhile: ");
  }
  return worst;
}

void Errand::Await(Round& round) const {
  uint64_t seen = 0, done = BytesDone();
  Deadline stalled = Deadline::InMs(stall_ms_);
  while (!round.WaitAll(Deadline::InMs(0)) && !course_.cancelled() && !stalled.Passed()) {
    const uint64_t given = round.WaitForMore(seen, Deadline::InMs(Course::kLookMs));
    const uint64_t now = BytesDone();
    if (given != seen || now != done) stalled = Deadline::InMs(stall_ms_);
    seen = given;
    done = now;
  }
}

uint64_t Errand::BytesDone() const {
  uint64_t sum = 0;
  for (const auto& process : processes_) {
    const ProcessView view = process->View();
    if (view.ledger) sum += view.ledger->moved_bytes;
  }
  return sum;
}

void Errand::Stop(const ProcessList& processes, Deadline by) {
  const auto round = std::make_shared<Round>(processes.size());
  auto stop = wire::Make<wire::Verify>();
  stop.stop = 1;
  for (size_t i = 0; i < processes.size(); ++i) processes[i]->Send(stop, round, i);
  round->WaitAll(by);
}

}  // namespace parkade::daemon
