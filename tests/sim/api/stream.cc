// cuStream*: streams, waits for them, and host functions in them. Capture is in capture.cc.
#include "tests/sim/driver.h"

using namespace parkade::sim;

namespace {

CUresult Create(Context& context, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~unsigned(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const auto kind =
      flags & CU_STREAM_NON_BLOCKING ? StreamKind::kNonBlocking : StreamKind::kBlocking;
  *out = Sim().streams.Add(context.Add(kind, flags, priority));
  return CUDA_SUCCESS;
}

// The points that a wait for `handle` waits for. Refused while captures are in the way.
CUresult WaitPoints(Context& context, CUstream handle, std::vector<Point>* points) {
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
  Captures& captures = Sim().captures;
  if (auto r = captures.RefuseOn(*stream); r != CUDA_SUCCESS) return r;
  if (auto r = captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
  if (stream->kind == StreamKind::kLegacy) {
    *points = context.LegacyTails();
  } else {
    *points = {stream->Tail()};
  }
  return CUDA_SUCCESS;
}

template <CallName kName, typename Body>
CUresult CallOn(CUstream handle, Body body) {
  return CallIn<kName>([&](Context& context) {
    std::shared_ptr<Stream> stream;
    if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
    return body(*stream);
  });
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return CallIn<"cuStreamCreate">(
      [&](Context& context) { return Create(context, stream, flags, 0); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return CallIn<"cuStreamCreateWithPriority">([&](Context& context) {
    return Create(context, stream, flags, std::min(0, std::max(-5, priority)));
  });
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  return CallIn<"cuStreamDestroy_v2">([&](Context&) {
    const auto stream = Sim().streams.Remove(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = Sim().captures.RefuseOn(*stream);
    stream->End();
    stream->context.Forget(stream.get());
    return result;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return CallIn<"cuStreamQuery">([&](Context& context) {
    std::vector<Point> points;
    if (auto r = WaitPoints(context, handle, &points); r != CUDA_SUCCESS) return r;
    for (const Point& point : points)
      if (!point.Reached()) return CUDA_ERROR_NOT_READY;
    return CUresult(context.sticky);
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return CallIn<"cuStreamSynchronize">([&](Context& context) {
    std::vector<Point> points;
    if (auto r = WaitPoints(context, handle, &points); r != CUDA_SUCCESS) return r;
    for (const Point& point : points) point.Wait();
    return CUresult(context.sticky);
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return CallOn<"cuStreamGetPriority">(handle, [&](Stream& stream) {
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return CallOn<"cuStreamGetFlags">(handle, [&](Stream& stream) {
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return CallOn<"cuStreamGetId">(handle, [&](Stream& stream) {
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* gpu) {
  return CallOn<"cuStreamGetDevice">(handle, [&](Stream& stream) {
    *gpu = stream.context.gpu;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return CallOn<"cuStreamGetCtx">(handle, [&](Stream& stream) {
    *context = stream.context.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  return CallOn<"cuStreamGetCtx_v2">(handle, [&](Stream& stream) {
    *context = stream.context.handle;
    if (green != nullptr) *green = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return CallIn<"cuLaunchHostFunc">([&](Context& context) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Enqueue(context, handle, CU_GRAPH_NODE_TYPE_HOST, [function, argument] {
      function(argument);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* argument, unsigned) {
  return CallIn<"cuStreamAddCallback">([&](Context& context) {
    if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> stream;
    if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
    if (auto r = Sim().captures.RefuseOn(*stream); r != CUDA_SUCCESS) return r;
    return Enqueue(context, handle, CU_GRAPH_NODE_TYPE_HOST, [handle, callback, argument] {
      callback(handle, CUDA_SUCCESS, argument);
      return CUDA_SUCCESS;
    });
  });
}
