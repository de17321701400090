// Keeps the list of live streams.
#include "shim/cuda/streams.h"

namespace parkade::shim {

void Streams::Add(CUstream stream, CUcontext context) {
  MutexLock lock(mu_);
  entries_.push_back({stream, context});
}

std::optional<CUcontext> Streams::Remove(CUstream stream) {
  MutexLock lock(mu_);
  for (Entry& e : entries_) {
    if (e.stream != stream) continue;
    const CUcontext context = e.context;
    e = entries_.back();
    entries_.pop_back();
    return context;
  }
  return std::nullopt;
}

void Streams::RemoveAll(CUcontext context) {
  MutexLock lock(mu_);
  std::erase_if(entries_, [&](const Entry& e) { return e.context == context; });
}

std::vector<CUstream> Streams::List(CUcontext context) const {
  std::vector<CUstream> streams;
  MutexLock lock(mu_);
  for (const Entry& e : entries_) {
    if (e.context == context) streams.push_back(e.stream);
  }
  return streams;
}

}  // namespace parkade::shim
