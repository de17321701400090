// cuMemset*: fills of 8, 16 and 32 bits, flat and in rows.
#include "tests/sim/driver.h"
#include "tests/sim/transfer.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

struct Fill {
  Area to;
  Bytes width = 0;  // in bytes
  Bytes rows = 1;
  uint32_t value = 0;
  Bytes unit_bytes = 1;
};

// Only memory that the context's kernels may write (580).
CUresult Check(Context& context, const Fill& fill) {
  if (fill.to.base % fill.unit_bytes != 0 || fill.to.pitch % fill.unit_bytes != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const auto found = Sim().addresses.Find(fill.to.base);
  if (found && found->range.kind == RangeKind::kNative && found->range.gpu != context.gpu &&
      !context.peers.Has(found->range.context))
    return CUDA_ERROR_INVALID_VALUE;
  return CheckArea(fill.to, fill.width, fill.rows, Wanted::kDevice, true, context.gpu);
}

Task TaskOf(const Fill& fill) {
  return [fill] { return RunFill(fill.to, fill.width, fill.rows, fill.value, fill.unit_bytes); };
}

CUresult Async(Context& context, const Fill& fill, CUstream handle) {
  std::shared_ptr<Stream> stream;
  Captures::Status seen;
  if (handle != nullptr && FindStream(context, handle, &stream) == CUDA_SUCCESS) {
    (void)Sim().captures.Look(*stream, &seen);
  }
  // Into a graph a fill goes unchecked (580).
  if (seen.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    Context& own = stream != nullptr ? stream->context : context;
    if (auto r = Check(own, fill); r != CUDA_SUCCESS) return r;
  }
  return Enqueue(context, handle, CU_GRAPH_NODE_TYPE_MEMSET, TaskOf(fill));
}

// The synchronous form is a legacy-stream call.
CUresult Sync(Context& context, const Fill& fill) {
  if (auto r = Check(context, fill); r != CUDA_SUCCESS) return r;
  return RunToEnd(context, TaskOf(fill));
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  return CallIn<"cuMemsetD8_v2">([&](Context& context) {
    return Sync(context, {{to, 0}, n, 1, value, 1});
  });
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n) {
  return CallIn<"cuMemsetD16_v2">([&](Context& context) {
    return Sync(context, {{to, 0}, n * 2, 1, value, 2});
  });
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
  return CallIn<"cuMemsetD32_v2">([&](Context& context) {
    return Sync(context, {{to, 0}, n * 4, 1, value, 4});
  });
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return CallIn<"cuMemsetD2D8_v2">([&](Context& context) {
    return Sync(context, {{to, pitch}, width, height, value, 1});
  });
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return CallIn<"cuMemsetD2D16_v2">([&](Context& context) {
    return Sync(context, {{to, pitch}, width * 2, height, value, 2});
  });
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                          size_t height) {
  return CallIn<"cuMemsetD2D32_v2">([&](Context& context) {
    return Sync(context, {{to, pitch}, width * 4, height, value, 4});
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  return CallIn<"cuMemsetD8Async">([&](Context& context) {
    return Async(context, {{to, 0}, n, 1, value, 1}, stream);
  });
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
  return CallIn<"cuMemsetD16Async">([&](Context& context) {
    return Async(context, {{to, 0}, n * 2, 1, value, 2}, stream);
  });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  return CallIn<"cuMemsetD32Async">([&](Context& context) {
    return Async(context, {{to, 0}, n * 4, 1, value, 4}, stream);
  });
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return CallIn<"cuMemsetD2D8Async">([&](Context& context) {
    return Async(context, {{to, pitch}, width, height, value, 1}, stream);
  });
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return CallIn<"cuMemsetD2D16Async">([&](Context& context) {
    return Async(context, {{to, pitch}, width * 2, height, value, 2}, stream);
  });
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream) {
  return CallIn<"cuMemsetD2D32Async">([&](Context& context) {
    return Async(context, {{to, pitch}, width * 4, height, value, 4}, stream);
  });
}
