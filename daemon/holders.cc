// Puts the driver's list of a GPU's users beside what is known of the processes.
#include "daemon/holders.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text.h"
#include "daemon/selector.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

bool UsesGpu(const ProcessView& view, const std::string& uuid) {
  if (!view.ledger) return false;
  for (const wire::LedgerDevice& device : view.ledger->devices) {
    if (device.used != 0 && GpuUuid(device.uuid) == uuid) return true;
  }
  return false;
}

const char* Movement(wire::ProcessState state) {
  switch (state) {
    case wire::ProcessState::kPreparing:
    case wire::ProcessState::kPrepared:
      return "about to leave";
    case wire::ProcessState::kEvicting:
      return "leaving";
    case wire::ProcessState::kRestoring:
      return "coming back";
    default:
      return nullptr;
  }
}

std::string LabelOf(const Introduction& said) {
  std::string label = Join(std::vector<std::string>{said.job, said.role}, "/");
  if (said.job.empty() || said.role.empty()) label = said.job + said.role;
  return label.empty() ? label : Cat(" (", label, ")");
}

}  // namespace

std::string HoldersOf(const Process& process, int device, const Registry& registry,
                      const Gpus& gpus) {
  const ProcessView asking = process.View();
  const bool known = asking.ledger && device >= 0 && size_t(device) < wire::kMaxDevices &&
                     asking.ledger->devices[device].used != 0;
  if (!known) return {};
  const std::string uuid = GpuUuid(asking.ledger->devices[device].uuid);
  const auto views = gpus.Read();
  const auto gpu = std::find_if(views.begin(), views.end(),
                                [&](const GpuView& view) { return view.uuid == uuid; });
  if (gpu == views.end()) return {};

  std::map<int, std::string> labels;
  std::vector<std::string> moving;
  for (const auto& other : registry.All()) {
    const ProcessView view = other->View();
    if (!UsesGpu(view, uuid)) continue;
    const bool shown = other->identity().uid == process.identity().uid;
    labels[other->pid()] = shown ? LabelOf(view.introduction) : "";
    if (const char* how = Movement(view.state)) moving.push_back(Cat(other->pid(), " ", how));
  }
  std::vector<std::pair<Bytes, int>> users;
  for (const auto& [pid, bytes] : gpu->users) users.emplace_back(bytes, pid);
  std::sort(users.rbegin(), users.rend());
  std::vector<std::string> held;
  for (const auto& [bytes, pid] : users) held.push_back(Cat(pid, labels[pid], " ", InUnits(bytes)));
  std::string text = Cat("; held by ", held.empty() ? "nobody known" : Join(held, ", "));
  if (!moving.empty()) text += Cat("; moving: ", Join(moving, ", "));
  return text;
}

void AnswerWant(Process& process, const wire::Want& want, const Registry& registry,
                const Gpus& gpus) {
  const std::string text = HoldersOf(process, want.device, registry, gpus);
  if (text.empty()) return;
  auto message = wire::Make<wire::Holders>(want.header.op_id);
  CopyText(message.text, text);
  process.Tell(message);
}

}  // namespace parkade::daemon
