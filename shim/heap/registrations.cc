// The table of what is registered, and by whom.
#include "shim/heap/registrations.h"

namespace parkade::shim {

void Registrations::Add(Key key, Heap::Held held, const char* why) {
  if (held.empty()) return;
  {
    MutexLock lock(mu_);
    held_.emplace(key, std::move(held));
  }
  ledger_.AddWarning(why);
}

Registrations::Taken Registrations::Take(Key key) {
  Taken taken;
  MutexLock lock(mu_);
  const auto it = held_.find(key);
  if (it != held_.end()) taken.emplace_back(key, std::move(held_.extract(it).mapped()));
  return taken;
}

Registrations::Taken Registrations::TakeAll(const void* owner) {
  Taken taken;
  MutexLock lock(mu_);
  auto it = held_.lower_bound({owner, nullptr});
  while (it != held_.end() && it->first.first == owner) {
    taken.emplace_back(it->first, std::move(it->second));
    it = held_.erase(it);
  }
  return taken;
}

}  // namespace parkade::shim
