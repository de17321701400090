// Starts threads through functions that are looked up at run time.
#include "shim/libc/thread.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>

#include "shim/libc/late.h"

namespace parkade::shim {
namespace {

struct Beginning {
  void (*run)(void*);
  void* arg;
  char name[16];
};

void* Begin(void* beginning) {
  std::unique_ptr<Beginning> given(static_cast<Beginning*>(beginning));
  const Beginning self = *given;
  given.reset();                  // `run` may never return
  prctl(PR_SET_NAME, self.name);  // pthread_setname_np is in libpthread before 2.34
  self.run(self.arg);
  return nullptr;
}

}  // namespace

Result<Thread> Thread::Start(const char* name, void (*run)(void*), void* arg) {
  auto* create = reinterpret_cast<decltype(&pthread_create)>(FindInLibc("pthread_create"));
  if (create == nullptr) {
    return MakeError(Code::kUnavailable, "NO_THREADS", "starting %s: no pthread_create", name);
  }
  std::unique_ptr<Beginning> beginning(new (std::nothrow) Beginning{run, arg, {}});
  if (beginning == nullptr) return OsError(ENOMEM, "starting thread %s", name);
  snprintf(beginning->name, sizeof beginning->name, "%s", name);

  // A new thread inherits the mask of the one that makes it.
  sigset_t every, before;
  sigfillset(&every);
  sigprocmask(SIG_SETMASK, &every, &before);
  Thread thread;
  const int error = create(&thread.id_, nullptr, Begin, beginning.get());
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    Error e = OsError(error, "starting thread %s", name);
    e.code = Code::kUnavailable;
    return e;
  }
  static_cast<void>(beginning.release());  // Begin's now
  thread.joinable_ = true;
  return thread;
}

void Thread::Join() {
  if (!joinable_) return;
  joinable_ = false;
  auto* join = reinterpret_cast<decltype(&pthread_join)>(FindInLibc("pthread_join"));
  if (join != nullptr) join(id_, nullptr);
}

void Thread::Detach() {
  if (!joinable_) return;
  joinable_ = false;
  auto* detach = reinterpret_cast<decltype(&pthread_detach)>(FindInLibc("pthread_detach"));
  if (detach != nullptr) detach(id_);
}

}  // namespace parkade::shim
