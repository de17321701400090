// Two phases down over all processes, and one state after the other back.
#include "daemon/deep_pause.h"

#include <time.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "common/log.h"
#include "daemon/movement.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

using State = DriverProcess::State;

// From the checkpointed state two calls lead to the running one.
constexpr int kMostLooks = 8;
// What a context with its modules may be where only the driver's free memory tells, in which
// others' doings show too.
constexpr Bytes kMostContext = 4_GiB;

Bytes SumOf(const GpuAccount::ByGpu& bytes) {
  Bytes sum = 0;
  for (const auto& [uuid, count] : bytes) sum += count;
  return sum;
}

double SecondsSince(uint64_t begin_ns) { return double(MonotonicNs() - begin_ns) / 1e9; }

}  // namespace

DeepPause::DeepPause(const std::vector<Member*>& members, Events& events, const Gpus& gpus,
                     const Settings& settings)
    : events_(events), gpus_(gpus), limits_(settings.limits) {
  for (Member* member : members) {
    parties_.push_back(
        {member, std::make_unique<DriverProcess>(member->process, settings.helper), {}});
  }
}

void DeepPause::ForEach(const std::function<void(Party&)>& work) {
  std::vector<std::thread> threads;
  for (Party& party : parties_) threads.emplace_back([&work, &party] { work(party); });
  for (std::thread& thread : threads) thread.join();
}

void DeepPause::Mark(const Party& party, DeepMark mark) {
  party.member->process->SetDeep(std::move(mark));
  events_.Publish(Event::Kind::kState, *party.member->process);
}

absl::Status DeepPause::CheckState(Party& party) {
  const auto state = party.driver->AskState(limits_.other_ms);
  if (!state.ok()) return state.status();
  const int pid = party.member->process->pid();
  if (*state == State::kRunning) return absl::OkStatus();
  if (*state == State::kFailed) {
    Mark(party, {DeepMark::State::kFailed});
    return GivenUp(pid);
  }
  return Fail(absl::StatusCode::kFailedPrecondition, "CUDA_ERROR_ILLEGAL_STATE",
              Cat("process ", pid, " is in the hands of somebody else's checkpoint"),
              {{"pid", std::to_string(pid)}});
}

absl::Status DeepPause::BringUp(Party& party) {
  absl::Status failed;
  State before = State::kRunning;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    const auto state = party.driver->AskState(limits_.other_ms);
    if (!state.ok()) return failed.ok() ? state.status() : failed;
    if (!failed.ok() && *state == before) return failed;
    before = *state;
    switch (*state) {
      case State::kRunning:
        Mark(party, {});
        return absl::OkStatus();
      case State::kLocked:
        failed = party.driver->Do(DriverCall::kUnlock, limits_.other_ms);
        break;
      case State::kCheckpointed:
        failed = party.driver->Do(DriverCall::kRestore, limits_.move_ms);
        break;
      case State::kFailed:
        Mark(party, {DeepMark::State::kFailed});
        return GivenUp(party.member->process->pid());
    }
  }
  return failed;
}

bool DeepPause::AnyRefuses() {
  const auto refuses = [](const Party& p) { return !p.member->deep.refusal.ok(); };
  const auto first = std::find_if(parties_.begin(), parties_.end(), refuses);
  if (first == parties_.end()) return false;
  const absl::Status why = first->member->deep.refusal;
  const std::string peer = std::to_string(first->member->process->pid());
  for (Party& party : parties_) {
    if (refuses(party)) continue;
    const std::string pid = std::to_string(party.member->process->pid());
    party.member->deep.refusal =
        Fail(absl::StatusCode::kFailedPrecondition, "PEER_REFUSED",
             Cat("process ", pid, " goes with one that cannot: ", MessageOf(why)),
             {{"pid", pid}, {"peer_pid", peer}});
  }
  return true;
}

void DeepPause::LetGo(Party& party) {
  const absl::Status up = BringUp(party);
  if (up.ok()) return;
  // Whether it is marked says how it stands now; a resume tries again.
  party.member->deep.refusal =
      ReasonOf(up) == "CHECKPOINT_FAILED"
          ? up
          : Annotate(party.member->deep.refusal,
                     Cat("(and the driver does not let go of it: ", MessageOf(up), ") "));
}

void DeepPause::Down(const Journal& journal) {
  const uint64_t begin_ns = MonotonicNs();
  for (const Party& party : parties_) {
    party.member->deep.concerns = true;
    party.member->deep.refusal = CheckDeep(*party.member->process);
  }
  if (AnyRefuses()) return;
  ForEach([this](Party& party) { party.member->deep.refusal = CheckState(party); });
  if (AnyRefuses()) return;
  for (const Party& party : parties_) Mark(party, {DeepMark::State::kDeep});
  if (journal.closed()) {
    for (Party& party : parties_) {
      Mark(party, {});
      party.member->deep.refusal =
          Fail(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "parkaded is about to end");
    }
    return;
  }
  ForEach([this](Party& party) {
    party.member->deep.refusal = party.driver->Do(DriverCall::kLock, limits_.lock_ms);
  });
  if (AnyRefuses()) {
    ForEach([this](Party& party) { LetGo(party); });
    return;
  }
  const auto free_before = FreeNow();
  ForEach([this](Party& party) {
    const int pid = party.member->process->pid();
    for (const auto& [uuid, resident] : ResidentOf({party.member->process})) {
      party.used[uuid] = gpus_.UsedBy(pid, {uuid});
    }
    party.member->deep.refusal = party.driver->Do(DriverCall::kCheckpoint, limits_.move_ms);
    if (!party.member->deep.refusal.ok()) LetGo(party);
  });
  const auto free_after = FreeNow();
  for (const Party& party : parties_) {
    DeepOutcome& outcome = party.member->deep;
    if (!outcome.refusal.ok()) continue;
    const DeepMark mark{DeepMark::State::kDeep, FreedBy(party, free_before, free_after)};
    outcome.deep = true;
    outcome.bytes = SumOf(mark.bytes);
    outcome.seconds = SecondsSince(begin_ns);
    Mark(party, mark);
  }
}

GpuAccount::ByGpu DeepPause::FreeNow() const {
  std::set<std::string> uuids;
  for (const Party& party : parties_) {
    for (const auto& [uuid, bytes] : ResidentOf({party.member->process})) uuids.insert(uuid);
  }
  const std::vector<std::string> wanted(uuids.begin(), uuids.end());
  auto free = gpus_.Free(wanted);
  // The driver shows a release a moment later: until two looks agree.
  for (const Deadline by = Deadline::InMs(100); !by.Passed();) {
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
    if (auto now = gpus_.Free(wanted); now != free) {
      free = std::move(now);
    } else {
      break;
    }
  }
  return free;
}

GpuAccount::ByGpu DeepPause::FreedBy(const Party& party, const GpuAccount::ByGpu& before,
                                     const GpuAccount::ByGpu& after) const {
  GpuAccount::ByGpu freed;
  for (const auto& [uuid, used] : party.used) {
    if (used != 0) {
      const Bytes still = gpus_.UsedBy(party.member->process->pid(), {uuid});
      freed[uuid] = used > still ? used - still : 0;
      continue;
    }
    const auto was = before.find(uuid), is = after.find(uuid);
    if (was == before.end() || is == after.end() || is->second <= was->second) continue;
    const auto sharers =
        std::count_if(parties_.begin(), parties_.end(), [&uuid = uuid](const Party& p) {
          return p.member->deep.refusal.ok() && p.used.contains(uuid);
        });
    freed[uuid] = std::min((is->second - was->second) / Bytes(sharers), kMostContext);
  }
  return freed;
}

absl::Status DeepPause::Up() {
  const uint64_t begin_ns = MonotonicNs();
  ForEach([this, begin_ns](Party& party) {
    DeepOutcome& outcome = party.member->deep;
    const DeepMark mark = party.member->process->View().deep;
    if (party.member->already || mark.state != DeepMark::State::kDeep) return;
    outcome.refusal = BringUp(party);
    if (!outcome.refusal.ok()) return;
    outcome = {.concerns = true, .bytes = SumOf(mark.bytes), .seconds = SecondsSince(begin_ns)};
  });
  for (const Party& party : parties_) {
    const bool is_up = party.member->process->View().deep.state == DeepMark::State::kNone;
    if (!is_up && !party.member->deep.refusal.ok()) return party.member->deep.refusal;
  }
  return absl::OkStatus();
}

void DeepPause::Settle() {
  ForEach([this](Party& party) {
    const int pid = party.member->process->pid();
    const auto state = party.driver->AskState(limits_.other_ms);
    if (!state.ok()) {
      Log(LogLevel::kWarning, "whether process %d is deep is not known: %s", pid,
          MessageOf(state.status()).c_str());
    } else if (*state == State::kCheckpointed) {
      Log(LogLevel::kInfo, "process %d is deep", pid);
    } else if (const absl::Status up = BringUp(party); !up.ok()) {
      Log(LogLevel::kError, "%s", MessageOf(up).c_str());
    }
  });
}

}  // namespace parkade::daemon
