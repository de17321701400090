// shim::Thread over pthread_create as the linker finds it: in place of shim/libc/thread.cc under
// the thread sanitizer, which must see every thread begin and is passed by when libc's own is
// called.
#include <pthread.h>

#include "shim/libc/thread.h"

namespace parkade::shim {
namespace {

struct Beginning {
  void (*run)(void*);
  void* arg;
};

void* Begin(void* arg) {
  const Beginning beginning = *static_cast<Beginning*>(arg);
  delete static_cast<Beginning*>(arg);
  beginning.run(beginning.arg);
  return nullptr;
}

}  // namespace

Result<Thread> Thread::Start(const char* name, void (*run)(void*), void* arg) {
  Thread thread;
  auto* beginning = new Beginning{run, arg};
  if (const int error = pthread_create(&thread.id_, nullptr, Begin, beginning); error != 0) {
    delete beginning;
    return OsError(error, "starting thread %s", name);
  }
  thread.joinable_ = true;
  return thread;
}

void Thread::Join() {
  if (joinable_) pthread_join(id_, nullptr);
  joinable_ = false;
}

void Thread::Detach() {
  if (joinable_) pthread_detach(id_);
  joinable_ = false;
}

}  // namespace parkade::shim
