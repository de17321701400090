// The table of what is registered, and by whom.
#include "shim/heap/registrations.h"

#include <vector>

namespace parkade::shim {

void Registrations::Add(Key key, Heap::Held held, const char* why) {
  if (held.empty()) return;
  {
    MutexLock lock(mu_);
    held_.emplace(key, std::move(held));
  }
  ledger_.AddWarning(why);
}

std::optional<Heap::Held> Registrations::Take(Key key) {
  MutexLock lock(mu_);
  const auto it = held_.find(key);
  if (it == held_.end()) return std::nullopt;
  return std::move(held_.extract(it).mapped());
}

void Registrations::RemoveAll(const void* owner) {
  std::vector<Heap::Held> ended;
  {
    MutexLock lock(mu_);
    for (auto it = held_.lower_bound({owner, nullptr}); it != held_.end();) {
      if (it->first.first != owner) break;
      ended.push_back(std::move(it->second));
      it = held_.erase(it);
    }
  }
  for (const Heap::Held& held : ended) heap_.LetGo(held);
}

}  // namespace parkade::shim
