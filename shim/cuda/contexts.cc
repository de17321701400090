// Keeps the list of live contexts.
#include "shim/cuda/contexts.h"

namespace parkade::shim {

bool Contexts::Add(CUcontext context, int device) {
  MutexLock lock(mu_);
  for (const Entry& e : entries_) {
    if (e.context == context) return false;
  }
  entries_.push_back({context, device});
  return true;
}

void Contexts::Remove(CUcontext context) {
  MutexLock lock(mu_);
  std::erase_if(entries_, [&](const Entry& e) { return e.context == context; });
}

std::vector<Contexts::Entry> Contexts::List() const {
  MutexLock lock(mu_);
  return entries_;
}

}  // namespace parkade::shim
