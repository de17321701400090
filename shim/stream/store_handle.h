// What is behind a parkade_store handle, and the way to use it: one call at a time.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "shim/stream/store_options.h"

struct parkade_store {
  std::unique_ptr<parkade::shim::StepEngine> engine;
  const pid_t pid = getpid();
  std::atomic<bool> in_use{false};
  std::vector<parkade::shim::StreamJob> held;            // acquired and not submitted
  std::vector<std::vector<parkade_store_piece>> pieces;  // by bucket
  parkade::Mutex mu;                                     // innermost
  parkade::Error last GUARDED_BY(mu);
};

namespace parkade::shim {

// One call on a store, and at the same time the only one.
class Use {
 public:
  explicit Use(parkade_store* store) : store_(store) {
    if (store == nullptr) {
      code_ = PARKADE_STORE_E_INVAL;
    } else if (store->pid != getpid()) {
      code_ = PARKADE_STORE_E_STATE;
    } else if (store->in_use.exchange(true, std::memory_order_acquire)) {
      code_ = PARKADE_STORE_E_BUSY;
    } else {
      taken_ = true;
    }
  }
  ~Use() {
    if (taken_) store_->in_use.store(false, std::memory_order_release);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  bool refused() const { return code_ != 0; }
  int code() const { return code_; }
  int Say(const Error& error) {
    MutexLock lock(store_->mu);
    store_->last = error;
    return CodeOf(error);
  }
  int Say(const Result<void>& result) {
    return result.ok() ? PARKADE_STORE_OK : Say(result.error());
  }

 private:
  parkade_store* const store_;
  int code_ = 0;
  bool taken_ = false;
};

// What parkade_store_open does. The sentence of its error is the thread's until the next one.
Result<parkade_store*> OpenStore(const parkade_store_options* options,
                                 const parkade_store_entry* entries, size_t count);
const char* OpenError();
// The store is about to be deleted.
void ForgetStore(parkade_store* store);

}  // namespace parkade::shim
