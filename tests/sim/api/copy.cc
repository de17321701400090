// cuMemcpy*: copies between host and device, flat and in rows.
#include <optional>

#include "tests/sim/driver.h"
#include "tests/sim/transfer.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

enum class Side { kDevice, kHost, kAny };

bool IsPinnedHost(Address at) {
  const auto found = Sim().addresses.Find(at);
  return found &&
         (found->range.kind == RangeKind::kPinned || found->range.kind == RangeKind::kRegistered);
}

CUresult Check(const Copy& copy, Side to, Side from, int gpu) {
  auto wanted = [](Side side) { return side == Side::kDevice ? Wanted::kDevice : Wanted::kAny; };
  if (auto r = CheckArea(copy.to, copy.width, copy.rows, wanted(to), true, gpu); r != CUDA_SUCCESS)
    return r;
  return CheckArea(copy.from, copy.width, copy.rows, wanted(from), false, gpu);
}

Task TaskOf(const Copy& copy) {
  return [copy] { return RunCopy(copy); };
}

// `gpu`: whose view of virtual memory counts; the current context's unless the call names contexts.
CUresult Sync(Context& context, const Copy& copy, Side to, Side from, std::optional<int> gpu = {}) {
  if (auto r = Check(copy, to, from, gpu.value_or(context.gpu)); r != CUDA_SUCCESS) return r;
  return RunToEnd(context, TaskOf(copy));
}

// A copy with pageable memory is staged by the driver, which reads or writes that memory before the
// call returns.
CUresult Async(Context& context, const Copy& copy, Side to, Side from, CUstream handle,
               std::optional<int> gpu = {}) {
  if (auto r = Check(copy, to, from, gpu.value_or(context.gpu)); r != CUDA_SUCCESS) return r;
  std::shared_ptr<Stream> stream;
  if (auto r = FindStream(context, handle, &stream); r != CUDA_SUCCESS) return r;
  bool captured = false;
  if (auto r = Sim().captures.Record(stream, CU_GRAPH_NODE_TYPE_MEMCPY, TaskOf(copy), &captured);
      r != CUDA_SUCCESS || captured)
    return r;
  const Point done = stream->context.Submit(*stream, TaskOf(copy));
  const bool pageable = (to == Side::kHost && !IsPinnedHost(copy.to.base)) ||
                        (from == Side::kHost && !IsPinnedHost(copy.from.base));
  if (pageable) done.Wait();
  return CUDA_SUCCESS;
}

Copy Flat(Address to, Address from, Bytes bytes) { return {{to, 0}, {from, 0}, bytes, 1}; }
Address HostAddress(const void* host) { return reinterpret_cast<Address>(host); }

// One side of a CUDA_MEMCPY2D. NOT_SUPPORTED for arrays, which this driver does not have.
CUresult ReadSide(CUmemorytype type, const void* host, CUdeviceptr device, Bytes x, Bytes y,
                  Bytes pitch, Area* area, Side* side) {
  if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
    // A type that is none goes unnoticed where memory is mapped by cuMemMap (580).
    const auto found = Sim().addresses.Find(device);
    if (!found || !found->mapping) return CUDA_ERROR_INVALID_VALUE;
  }
  const bool on_host = type == CU_MEMORYTYPE_HOST;
  *side = on_host ? Side::kHost : type == CU_MEMORYTYPE_DEVICE ? Side::kDevice : Side::kAny;
  *area = {(on_host ? HostAddress(host) : device) + y * pitch + x, pitch};
  return CUDA_SUCCESS;
}

CUresult Read2D(const CUDA_MEMCPY2D* params, Copy* copy, Side* to, Side* from) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  copy->width = params->WidthInBytes;
  copy->rows = params->Height;
  if (auto r = ReadSide(params->srcMemoryType, params->srcHost, params->srcDevice,
                        params->srcXInBytes, params->srcY, params->srcPitch, &copy->from, from);
      r != CUDA_SUCCESS)
    return r;
  return ReadSide(params->dstMemoryType, params->dstHost, params->dstDevice, params->dstXInBytes,
                  params->dstY, params->dstPitch, &copy->to, to);
}

CUresult Sync2D(Context& context, const CUDA_MEMCPY2D* params) {
  Copy copy;
  Side to, from;
  if (auto r = Read2D(params, &copy, &to, &from); r != CUDA_SUCCESS) return r;
  return Sync(context, copy, to, from);
}

}  // namespace

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return CallIn<"cuMemcpyHtoD_v2">([&](Context& context) {
    return Sync(context, Flat(to, HostAddress(from), bytes), Side::kDevice, Side::kHost);
  });
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return CallIn<"cuMemcpyDtoH_v2">([&](Context& context) {
    return Sync(context, Flat(HostAddress(to), from, bytes), Side::kHost, Side::kDevice);
  });
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CallIn<"cuMemcpyDtoD_v2">([&](Context& context) {
    return Sync(context, Flat(to, from, bytes), Side::kDevice, Side::kDevice);
  });
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CallIn<"cuMemcpy">([&](Context& context) {
    return Sync(context, Flat(to, from, bytes), Side::kAny, Side::kAny);
  });
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return CallIn<"cuMemcpyPeer">([&](Context& context) {
    return Sync(context, Flat(to, from, bytes), Side::kDevice, Side::kDevice,
                AddressSpace::kAnyGpu);
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return CallIn<"cuMemcpyHtoDAsync_v2">([&](Context& context) {
    return Async(context, Flat(to, HostAddress(from), bytes), Side::kDevice, Side::kHost, stream);
  });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CallIn<"cuMemcpyDtoHAsync_v2">([&](Context& context) {
    return Async(context, Flat(HostAddress(to), from, bytes), Side::kHost, Side::kDevice, stream);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CallIn<"cuMemcpyDtoDAsync_v2">([&](Context& context) {
    return Async(context, Flat(to, from, bytes), Side::kDevice, Side::kDevice, stream);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CallIn<"cuMemcpyAsync">([&](Context& context) {
    const Side to_side = Sim().addresses.Find(to) ? Side::kDevice : Side::kHost;
    const Side from_side = Sim().addresses.Find(from) ? Side::kDevice : Side::kHost;
    return Async(context, Flat(to, from, bytes), to_side, from_side, stream);
  });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return CallIn<"cuMemcpyPeerAsync">([&](Context& context) {
    return Async(context, Flat(to, from, bytes), Side::kDevice, Side::kDevice, stream,
                 AddressSpace::kAnyGpu);
  });
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* params) {
  return CallIn<"cuMemcpy2D_v2">([&](Context& context) { return Sync2D(context, params); });
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* params) {
  return CallIn<"cuMemcpy2DUnaligned_v2">(
      [&](Context& context) { return Sync2D(context, params); });
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* params, CUstream stream) {
  return CallIn<"cuMemcpy2DAsync_v2">([&](Context& context) {
    Copy copy;
    Side to, from;
    if (auto r = Read2D(params, &copy, &to, &from); r != CUDA_SUCCESS) return r;
    return Async(context, copy, to, from, stream);
  });
}
