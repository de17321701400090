// Shelf: driver objects of finished moves, kept for the next one in the same context, since to make
// and destroy streams, events and kernels takes longer than to copy 100 MiB.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "shim/cuda/contexts.h"

namespace parkade::shim {

// Of one kind of gear. Its destructor gives to the driver what it has, whatever context is current;
// Forget() says that the context is gone, and all that was made in it. Any thread.
template <typename Gear>
class Shelf {
 public:
  explicit Shelf(const Contexts& contexts) : contexts_(contexts) {}  // which outlives it

  // Null when none is kept for the context.
  std::unique_ptr<Gear> Take(CUcontext context) {
    const uint64_t number = contexts_.NumberOf(context);
    MutexLock lock(mu_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->context != context) continue;
      Kept taken = std::move(*it);
      kept_.erase(it);
      if (taken.number == number) return std::move(taken.gear);
      taken.gear->Forget();  // another context had this address
      return nullptr;
    }
    return nullptr;
  }

  // One for each context is kept, and none for a context that nobody has noted.
  // What was kept of contexts that have gone is forgotten.
  void Keep(CUcontext context, std::unique_ptr<Gear> gear) {
    const std::vector<Contexts::Entry> known = contexts_.List();
    const auto number_of = [&known](CUcontext c) -> uint64_t {
      for (const Contexts::Entry& e : known) {
        if (e.context == c) return e.number;
      }
      return 0;
    };
    MutexLock lock(mu_);
    std::erase_if(kept_, [&](const Kept& kept) {
      if (number_of(kept.context) == kept.number) return false;
      kept.gear->Forget();
      return true;
    });
    const uint64_t number = number_of(context);
    if (number != 0) kept_.push_back({context, number, std::move(gear)});
  }

 private:
  struct Kept {
    CUcontext context;
    uint64_t number;
    std::unique_ptr<Gear> gear;
  };

  const Contexts& contexts_;
  Mutex mu_;  // innermost
  std::vector<Kept> kept_ GUARDED_BY(mu_);
};

}  // namespace parkade::shim
