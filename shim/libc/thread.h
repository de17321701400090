// Thread: a thread of the shim's own, with every signal blocked so that handlers of the application
// never run on it.
#pragma once

#include <pthread.h>

#include "common/result.h"

namespace parkade::shim {

class Thread {
 public:
  // Runs `run(arg)` on a new thread called `name` (cut at 15 bytes). Fails with UNAVAILABLE when
  // the process cannot have threads (no libpthread in it, or a limit).
  static Result<Thread> Start(const char* name, void (*run)(void*), void* arg);

  Thread() = default;
  Thread(Thread&& other) noexcept : id_(other.id_), joinable_(other.joinable_) {
    other.joinable_ = false;
  }
  Thread& operator=(Thread&& other) noexcept {
    Join();
    id_ = other.id_;
    joinable_ = other.joinable_;
    other.joinable_ = false;
    return *this;
  }
  ~Thread() { Join(); }

  // Waits until it has ended; `run` must be on its way out. Nothing to do without a thread.
  void Join();
  // Lets it run on by itself.
  void Detach();
  bool joinable() const { return joinable_; }

 private:
  pthread_t id_{};
  bool joinable_ = false;
};

}  // namespace parkade::shim
