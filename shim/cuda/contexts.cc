// Keeps the list of live contexts.
#include "shim/cuda/contexts.h"

#include <algorithm>

namespace parkade::shim {

bool Contexts::Add(CUcontext context, int device) {
  MutexLock lock(mu_);
  std::erase(gone_, context);  // the driver gives handles out again
  for (const Entry& e : entries_) {
    if (e.context == context) return false;
  }
  const int only = only_device_.load(std::memory_order_relaxed);
  only_device_.store(only == kNone || only == device ? device : kSeveral,
                     std::memory_order_relaxed);
  entries_.push_back({context, device, ++last_number_});
  return true;
}

void Contexts::Remove(CUcontext context) {
  MutexLock lock(mu_);
  if (std::erase_if(entries_, [&](const Entry& e) { return e.context == context; }) == 0) return;
  gone_.push_back(context);
  any_gone_.store(true, std::memory_order_relaxed);
}

bool Contexts::IsGone(CUcontext context) const {
  if (!any_gone_.load(std::memory_order_relaxed)) return false;
  MutexLock lock(mu_);
  return std::find(gone_.begin(), gone_.end(), context) != gone_.end();
}

uint64_t Contexts::NumberOf(CUcontext context) const {
  MutexLock lock(mu_);
  for (const Entry& e : entries_) {
    if (e.context == context) return e.number;
  }
  return 0;
}

std::vector<Contexts::Entry> Contexts::List() const {
  MutexLock lock(mu_);
  return entries_;
}

}  // namespace parkade::shim
