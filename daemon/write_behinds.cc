// One operation for each pause.
#include "daemon/write_behinds.h"

#include <chrono>
#include <future>
#include <memory>

#include "common/log.h"
#include "daemon/status.h"

namespace parkade::daemon {
namespace {

constexpr std::chrono::seconds kNoteTime{5};  // a thread's start, and a write to the page cache

}  // namespace

std::string WriteBehinds::Begin(const std::string& caller, const BehindOrder& order) {
  const auto noted = std::make_shared<std::promise<void>>();
  const auto id = operations_.Start(
      {caller, OperationKind::kWriteBehind, "", ""}, [&node = node_, order, noted](Course& course) {
        return node.WriteBehind(order, course, [&noted] { noted->set_value(); });
      });
  if (id.ok()) {
    // Before the pause is answered: whoever has the answer may count on it.
    noted->get_future().wait_for(kNoteTime);
    return *id;
  }
  Log(LogLevel::kWarning, "what a pause has left in host memory stays there: %s",
      MessageOf(id.status()).c_str());
  return "";
}

void WriteBehinds::GoOn(const Journal& journal, const Registry& registry) {
  for (const BegunOperation& begun : journal.found().interrupted) {
    if (begun.kind != OperationKind::kWriteBehind) continue;
    BehindOrder order;
    for (const auto& party : begun.parties) {
      if (auto process = registry.Known(party.identity)) {
        const uint64_t number = process->BeginBehind();
        order.parties.push_back({std::move(process), number});
      }
    }
    if (!order.parties.empty()) Begin(begun.origin.caller, order);
  }
}

}  // namespace parkade::daemon
