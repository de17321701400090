// cuCtx*: contexts and the calling thread's stack of them.
#include <cstdio>
#include <cstdlib>

#include "tests/sim/current.h"
#include "tests/sim/driver.h"
#include "tests/sim/primary.h"

using namespace parkade::sim;

namespace {

CUresult Create(CUcontext* context, unsigned flags, CUdevice gpu) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (gpu < 0 || gpu >= Sim().settings.gpus) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext fresh = nullptr;
  if (auto r = OpenContext(gpu, flags, &fresh); r != CUDA_SUCCESS) return r;
  *context = fresh;
  ContextStack().push_back(*context);
  return CUDA_SUCCESS;
}

// A primary context that was released can still be made current; calls in it are refused. The
// driver makes any destroyed context current, and corrupts memory by that sooner or later: here the
// process ends at once.
bool Usable(CUcontext context) {
  if (Sim().contexts.Find(context) != nullptr || IsPrimary(context)) return true;
  if (GpuOfDestroyed(context)) {
    fputs("simulated driver: a destroyed context was made current\n", stderr);
    abort();
  }
  return false;
}

// Calls that wait for a whole context end every capture in it.
CUresult Synchronize(Context& context) {
  if (auto r = Sim().captures.RefuseIn(context); r != CUDA_SUCCESS) return r;
  return context.Drain();
}

}  // namespace

CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice gpu) {
  return Call<"cuCtxCreate">([&] { return Create(context, flags, gpu); });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice gpu) {
  return Call<"cuCtxCreate_v2">([&] { return Create(context, flags, gpu); });
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned flags,
                        CUdevice gpu) {
  return Call<"cuCtxCreate_v3">([&] { return Create(context, flags, gpu); });
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned flags, CUdevice gpu) {
  return Call<"cuCtxCreate_v4">([&] { return Create(context, flags, gpu); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return Call<"cuCtxDestroy_v2">([&] {
    const CUresult result = CloseContext(context);
    auto& stack = ContextStack();
    if (result == CUDA_SUCCESS && !stack.empty() && stack.back() == context) stack.pop_back();
    return result;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return Call<"cuCtxPushCurrent_v2">([&] {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Usable(context)) return CUDA_ERROR_INVALID_CONTEXT;
    ContextStack().push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return Call<"cuCtxPopCurrent_v2">([&] {
    auto& stack = ContextStack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return Call<"cuCtxSetCurrent">([&] {
    if (context != nullptr && !Usable(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = ContextStack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return Call<"cuCtxGetCurrent">([&] {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = ContextStack().empty() ? nullptr : ContextStack().back();
    return CUDA_SUCCESS;
  });
}

// Also of a context that has been destroyed while it was current here.
CUresult cuCtxGetDevice(CUdevice* gpu) {
  return Call<"cuCtxGetDevice">([&] {
    auto& stack = ContextStack();
    if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (gpu == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto context = Sim().contexts.Find(stack.back());
    const auto gone = context == nullptr ? GpuOfDestroyed(stack.back()) : std::nullopt;
    if (context == nullptr && !gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *gpu = context == nullptr ? *gone : context->gpu;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* gpu, CUcontext handle) {
  return Call<"cuCtxGetDevice_v2">([&] {
    const auto context = Sim().contexts.Find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *gpu = context->gpu;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return CallIn<"cuCtxGetFlags">([&](Context& context) {
    *flags = context.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetFlags(unsigned flags) {
  return CallIn<"cuCtxSetFlags">([&](Context& context) {
    context.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return Call<"cuCtxGetId">([&] {
    const auto context = Sim().contexts.Find(
        handle != nullptr || ContextStack().empty() ? handle : ContextStack().back());
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *id = context->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  return Call<"cuCtxGetApiVersion">([&] {
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return CallIn<"cuCtxSynchronize">([](Context& context) { return Synchronize(context); });
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return Call<"cuCtxSynchronize_v2">([&] {
    const auto context = Sim().contexts.Find(handle);
    return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : Synchronize(*context);
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return CallIn<"cuCtxGetStreamPriorityRange">([&](Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

// Limits are accepted and have no effect: host threads need no device stack or heap.
CUresult cuCtxSetLimit(CUlimit, size_t) {
  return CallIn<"cuCtxSetLimit">([](Context&) { return CUDA_SUCCESS; });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return CallIn<"cuCtxGetLimit">([&](Context&) {
    *value = limit == CU_LIMIT_STACK_SIZE ? 1024 : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? 8 << 20 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return CallIn<"cuCtxEnablePeerAccess">([&](Context& context) {
    const auto other = Sim().contexts.Find(peer);
    if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (other->gpu == context.gpu) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return context.peers.Insert(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return CallIn<"cuCtxDisablePeerAccess">([&](Context& context) {
    if (Sim().contexts.Find(peer) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return context.peers.Erase(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}
