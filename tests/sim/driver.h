// Driver: everything the simulated driver keeps in a process, and how calls reach it.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "common/mutex.h"
#include "tests/sim/account.h"
#include "tests/sim/address_space.h"
#include "tests/sim/calls.h"
#include "tests/sim/capture.h"
#include "tests/sim/context.h"
#include "tests/sim/event.h"
#include "tests/sim/link.h"
#include "tests/sim/registry.h"
#include "tests/sim/settings.h"

namespace parkade::sim {

struct Driver {
  Settings settings;
  Account account;
  AddressSpace addresses;
  Captures captures;
  std::array<Link, kMaxGpus> links;
  Registry<Context, CUcontext> contexts;
  Registry<Stream, CUstream> streams;
  Registry<Event, CUevent> events;
  // Not SUCCESS: a kernel has failed, and no new context works in this process any more.
  std::atomic<CUresult> lost{CUDA_SUCCESS};
};

// Made by cuInit, never destroyed: streams may run until the process is gone. Only after
// Initialized().
Driver& Sim();
// Reads the settings and joins the node. For cuInit.
CUresult StartDriver();

// The calling thread's context. INVALID_CONTEXT, CONTEXT_IS_DESTROYED or the context's sticky
// error, in which case *context is set all the same.
CUresult CurrentContext(std::shared_ptr<Context>* context);

// How an exported function that needs a current context begins.
template <CallName kName, typename Body>
CUresult CallIn(Body&& body) {
  return Call<kName>([&] {
    std::shared_ptr<Context> context;
    const CUresult result = CurrentContext(&context);
    return result == CUDA_SUCCESS ? body(*context) : result;
  });
}

// The same for calls that also answer in a context that a kernel has ruined.
template <CallName kName, typename Body>
CUresult CallInAny(Body&& body) {
  return Call<kName>([&] {
    std::shared_ptr<Context> context;
    const CUresult result = CurrentContext(&context);
    return context != nullptr ? body(*context) : result;
  });
}

// While one of these lives, stream 0 is the calling thread's own: the _ptsz and _ptds variants.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream();
  ~PerThreadDefaultStream();
};

// The stream behind a handle, special handles included. INVALID_HANDLE when there is none.
CUresult FindStream(Context& context, CUstream handle, std::shared_ptr<Stream>* stream);

// Gives `task` to the stream, or to the stream's capture as a node of `type`.
CUresult Enqueue(Context& context, CUstream handle, CUgraphNodeType type, Task task);
// For calls that return when their work is done: on the default stream, which ends captures of
// blocking streams.
CUresult RunToEnd(Context& context, Task task);

}  // namespace parkade::sim
