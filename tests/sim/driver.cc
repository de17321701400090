// The one Driver of the process, the current context of each thread, and where work goes.
#include "tests/sim/driver.h"

#include <sys/resource.h>
#include <unistd.h>

#include "tests/sim/current.h"

namespace parkade::sim {
namespace {

Driver* driver = nullptr;
pid_t driver_pid = 0;
thread_local int per_thread_depth = 0;

// Every piece of device memory keeps a descriptor; programs are started with room for 1024.
void AllowManyFiles() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

Driver& Sim() { return *driver; }

CUresult StartDriver() {
  static Mutex mu;
  MutexLock lock(mu);
  if (driver != nullptr) return driver_pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  auto fresh = std::make_unique<Driver>();
  fresh->settings = ReadSettings();
  if (fresh->settings.gpus == 0) return CUDA_ERROR_NO_DEVICE;
  // Not freed on failure: closing the file would drop the POSIX locks of another Account.
  driver = fresh.release();
  if (!driver->account.Open(driver->settings.dir) || !driver->account.Join()) {
    driver = nullptr;
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  AllowManyFiles();
  driver_pid = getpid();
  WatchCheckpoint(&driver->account.Own());
  SetInitialized();
  return CUDA_SUCCESS;
}

ThreadContexts& ContextStack() {
  thread_local constinit ThreadContexts stack{};
  return stack;
}

CUresult CurrentContext(std::shared_ptr<Context>* context) {
  auto& stack = ContextStack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = Sim().contexts.Find(stack.back());
  if (*context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return (*context)->sticky;
}

PerThreadDefaultStream::PerThreadDefaultStream() { ++per_thread_depth; }
PerThreadDefaultStream::~PerThreadDefaultStream() { --per_thread_depth; }

CUresult FindStream(Context& context, CUstream handle, std::shared_ptr<Stream>* stream) {
  if (handle == CU_STREAM_PER_THREAD || (handle == nullptr && per_thread_depth > 0)) {
    *stream = context.PerThread();
  } else if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    *stream = context.Legacy();
  } else {
    *stream = Sim().streams.Find(handle);
  }
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Enqueue(Context& context, CUstream handle, CUgraphNodeType type, Task task) {
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
  bool captured = false;
  if (auto r = Sim().captures.Record(stream, type, task, &captured); r != CUDA_SUCCESS) return r;
  if (!captured) stream->context.Submit(*stream, std::move(task));
  return CUDA_SUCCESS;
}

CUresult RunToEnd(Context& context, Task task) {
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, nullptr, &stream); r != CUDA_SUCCESS) return r;
  if (auto r = Sim().captures.RefuseOn(*stream); r != CUDA_SUCCESS) return r;
  bool captured = false;
  if (auto r = Sim().captures.Record(stream, CU_GRAPH_NODE_TYPE_EMPTY, nullptr, &captured);
      r != CUDA_SUCCESS)
    return r;
  stream->context.Submit(*stream, std::move(task)).Wait();
  return stream->context.sticky;
}

}  // namespace parkade::sim
