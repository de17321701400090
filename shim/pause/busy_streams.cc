// Queries streams one after the other on a helper thread that may be left behind in a query.
#include "shim/pause/busy_streams.h"

#include <cstdio>
#include <memory>

#include "common/mutex.h"
#include "shim/cuda/scoped_context.h"
#include "shim/libc/thread.h"

namespace parkade::shim {
namespace {

// Shared with the thread, which may outlive the call.
struct Survey {
  Survey(const Driver& d, CUcontext c, std::vector<CUstream> s)
      : driver(d), context(c), streams(std::move(s)) {}

  const Driver& driver;
  const CUcontext context;
  const std::vector<CUstream> streams;
  Mutex mu;  // not held in a query
  CondVar changed;
  size_t asked GUARDED_BY(mu) = 0;  // queries that have begun
  bool over GUARDED_BY(mu) = false;
  std::vector<CUstream> busy GUARDED_BY(mu);

  // False once nobody listens any more.
  bool Next(size_t* i) {
    MutexLock lock(mu);
    if (over || asked == streams.size()) return false;
    *i = asked++;
    return true;
  }

  void Ask() {
    ScopedContext current(driver, context);
    ScopedRelaxedCapture relaxed(driver);
    for (size_t i = 0; current.status() == CUDA_SUCCESS && Next(&i);) {
      const bool is_busy = driver.stream_query(streams[i]) == CUDA_ERROR_NOT_READY;
      MutexLock lock(mu);
      if (is_busy) busy.push_back(streams[i]);
    }
    MutexLock lock(mu);
    over = true;
    changed.NotifyAll();
  }

  static void Work(void* arg) {
    std::unique_ptr<std::shared_ptr<Survey>> owned(static_cast<std::shared_ptr<Survey>*>(arg));
    (*owned)->Ask();
  }
};

}  // namespace

std::vector<CUstream> BusyStreams(const Driver& driver, CUcontext context,
                                  std::vector<CUstream> streams, Deadline by) {
  streams.push_back(CU_STREAM_LEGACY);
  auto survey = std::make_shared<Survey>(driver, context, std::move(streams));
  auto* arg = new std::shared_ptr<Survey>(survey);
  auto thread = Thread::Start("parkade-survey", Survey::Work, arg);
  if (!thread.ok()) {
    delete arg;
    return {};
  }
  thread->Detach();
  MutexLock lock(survey->mu);
  while (!survey->over && !by.Passed()) survey->changed.WaitUntil(survey->mu, by);
  if (!survey->over && survey->asked != 0) {
    survey->busy.push_back(survey->streams[survey->asked - 1]);
  }
  survey->over = true;
  return survey->busy;
}

std::string NameStreams(const std::vector<CUstream>& streams) {
  constexpr size_t kNamed = 3;
  if (streams.empty()) return "a stream that no hook saw";
  std::string text;
  for (size_t i = 0; i < streams.size() && i < kNamed; ++i) {
    char name[48];
    if (streams[i] == CU_STREAM_LEGACY) {
      snprintf(name, sizeof name, "the default stream");
    } else {
      snprintf(name, sizeof name, "stream %p", static_cast<void*>(streams[i]));
    }
    text += (i == 0 ? "" : ", ") + std::string(name);
  }
  if (streams.size() > kNamed) text += " and " + std::to_string(streams.size() - kNamed) + " more";
  return text;
}

}  // namespace parkade::shim
