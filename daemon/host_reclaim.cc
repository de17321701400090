// Chooses a process, claims it, and sends it one message.
#include "daemon/host_reclaim.h"

#include <algorithm>
#include <memory>

#include "common/deadline.h"
#include "common/log.h"
#include "daemon/round.h"
#include "proto/wire.h"

namespace parkade::daemon {
namespace {

// Unmapping takes a tenth of a second for each GiB at worst.
constexpr uint64_t kAnswerMs = 10'000;

bool MayGiveBack(const Process& process) {
  const ProcessView view = process.View();
  if (!view.connected || !view.ledger) return false;
  if (view.deep.state != DeepMark::State::kNone) return false;  // it would wait in the driver
  // Also of one that is paused in part: what it keeps of the tags that are back.
  const bool still =
      view.state == wire::ProcessState::kRunning || view.state == wire::ProcessState::kPaused;
  return still && view.ledger->host_pool_bytes > view.ledger->host_backup_bytes;
}

}  // namespace

bool ReclaimHostMemory(Registry& registry, ProcessList& asked) {
  ProcessList others = registry.All();
  std::erase_if(others, [&asked](const auto& process) {
    return std::find(asked.begin(), asked.end(), process) != asked.end() || !MayGiveBack(*process);
  });
  std::stable_sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return a->last_sent_ns() < b->last_sent_ns();
  });
  for (const auto& process : others) {
    asked.push_back(process);
    const auto claim = registry.Take({process});
    if (!claim.ok()) continue;  // it is being moved: its memory is in use
    const auto round = std::make_shared<Round>(1);
    process->Send(wire::Make<wire::ReleaseHost>(), round, 0);
    const bool answered = round->WaitAll(Deadline::InMs(kAnswerMs));
    Log(LogLevel::kInfo, "process %d %s the host memory of its last pause, for another's",
        process->pid(), answered ? "has given back" : "was asked for");
    return true;
  }
  return false;
}

}  // namespace parkade::daemon
