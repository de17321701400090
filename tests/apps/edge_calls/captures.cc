// What may happen to memory while a stream captures, on the capturing thread and on others, under
// each mode: the code of the call, and whether the capture survived it.
#include "tests/apps/edge_calls/case.h"

namespace {

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

enum class Where { kHere, kElsewhere, kHereRelaxed };

template <typename Work>
void Run(Where where, Work work) {
  if (where == Where::kElsewhere) {
    OnThread(PrimaryContext(), work);
    return;
  }
  CUstreamCaptureMode mode = where == Where::kHereRelaxed ? kRelaxed : kGlobal;
  Must(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  work();
  Must(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
}

// `work` while a stream captures a fill; then the end of that capture.
template <typename Work>
void During(Answer& a, CUstreamCaptureMode mode, Where where, Work work) {
  const Stream stream;
  const Memory target(4096);
  Must(cuStreamBeginCapture(stream, mode), "cuStreamBeginCapture");
  Must(cuMemsetD8Async(target, 1, 4096, stream), "cuMemsetD8Async");
  Run(where, [&] { work(static_cast<CUstream>(stream)); });
  CUgraph graph = nullptr;
  a.Code("end", cuStreamEndCapture(stream, &graph)).Note("graph=%d", graph != nullptr);
  if (graph != nullptr) Must(cuGraphDestroy(graph), "cuGraphDestroy");
}

void Allocate(Answer& a, CUstreamCaptureMode mode, Where where) {
  CUdeviceptr small = kUntouched, large = kUntouched;
  During(a, mode, where, [&](CUstream) { a.Code("alloc", cuMemAlloc(&small, kSmall)); });
  if (small != kUntouched) Must(cuMemFree(small), "cuMemFree");
  During(a, mode, where, [&](CUstream) { a.Code("large", cuMemAlloc(&large, kLarge)); });
  if (large != kUntouched) Must(cuMemFree(large), "cuMemFree");
}

void Free(Answer& a, CUstreamCaptureMode mode, Where where) {
  for (size_t bytes : {kSmall, kLarge}) {
    CUdeviceptr p = 0;
    Must(cuMemAlloc(&p, bytes), "cuMemAlloc");
    CUresult r = CUDA_SUCCESS;
    During(a, mode, where, [&](CUstream) { a.Code("free", r = cuMemFree(p)); });
    a.Code("again", cuMemFree(p));
  }
}

template <CUstreamCaptureMode kMode, Where kWhere>
void AllocateUnder(Answer& a) {
  Allocate(a, kMode, kWhere);
}

template <CUstreamCaptureMode kMode, Where kWhere>
void FreeUnder(Answer& a) {
  Free(a, kMode, kWhere);
}

const Case kCases[] = {
    {"capture_global_alloc", AllocateUnder<kGlobal, Where::kHere>},
    {"capture_global_alloc_elsewhere", AllocateUnder<kGlobal, Where::kElsewhere>},
    {"capture_global_alloc_relaxed", AllocateUnder<kGlobal, Where::kHereRelaxed>},
    {"capture_thread_local_alloc", AllocateUnder<kThreadLocal, Where::kHere>},
    {"capture_thread_local_alloc_elsewhere", AllocateUnder<kThreadLocal, Where::kElsewhere>},
    {"capture_thread_local_alloc_relaxed", AllocateUnder<kThreadLocal, Where::kHereRelaxed>},
    {"capture_relaxed_alloc", AllocateUnder<kRelaxed, Where::kHere>},
    {"capture_relaxed_alloc_elsewhere", AllocateUnder<kRelaxed, Where::kElsewhere>},
    {"capture_global_free", FreeUnder<kGlobal, Where::kHere>},
    {"capture_global_free_elsewhere", FreeUnder<kGlobal, Where::kElsewhere>},
    {"capture_global_free_relaxed", FreeUnder<kGlobal, Where::kHereRelaxed>},
    {"capture_thread_local_free", FreeUnder<kThreadLocal, Where::kHere>},
    {"capture_thread_local_free_elsewhere", FreeUnder<kThreadLocal, Where::kElsewhere>},
    {"capture_relaxed_free", FreeUnder<kRelaxed, Where::kHere>},
    {"capture_relaxed_free_elsewhere", FreeUnder<kRelaxed, Where::kElsewhere>},
    {"capture_global_alloc_zero_bytes",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code(cuMemAlloc(&p, 0)); });
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code(cuMemAlloc(nullptr, 10)); });
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code(cuMemAlloc(&p, SIZE_MAX)); });
     }},
    {"capture_global_alloc_pitch",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       size_t pitch = kUntouched;
       During(a, kGlobal, Where::kHere,
              [&](CUstream) { a.Code(cuMemAllocPitch(&p, &pitch, 100, 10, 4)); });
       a.Note("out=%s pitch=%s", Touched(p), Touched(pitch));
       if (p != kUntouched) Must(cuMemFree(p), "cuMemFree");
     }},
    {"capture_global_free_null",
     [](Answer& a) { During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code(cuMemFree(0)); }); }},
    {"capture_global_free_wrong",
     [](Answer& a) {
       const Memory m(kMiddle);
       const Freed freed(kMiddle);
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code("inside", cuMemFree(m + 4096)); });
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code("freed", cuMemFree(freed)); });
       During(a, kGlobal, Where::kHere, [&](CUstream) { a.Code("low", cuMemFree(16)); });
     }},
    {"capture_free_async_on_its_stream",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       During(a, kGlobal, Where::kHere,
              [&](CUstream stream) { a.Code("free", cuMemFreeAsync(p, stream)); });
       a.Code("later", cuMemFree(p));
     }},
    {"capture_free_async_on_its_stream_relaxed",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       During(a, kRelaxed, Where::kHere,
              [&](CUstream stream) { a.Code("free", cuMemFreeAsync(p, stream)); });
       a.Code("later", cuMemFree(p));
     }},
    {"capture_free_async_on_another_stream",
     [](Answer& a) {
       const Stream other;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       During(a, kGlobal, Where::kHere,
              [&](CUstream) { a.Code("free", cuMemFreeAsync(p, other)); });
       a.Code("wait", cuStreamSynchronize(other)).Code("later", cuMemFree(p));
     }},
    {"capture_alloc_async_on_its_stream",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       During(a, kGlobal, Where::kHere, [&](CUstream stream) {
         a.Code("alloc", cuMemAllocAsync(&p, kSmall, stream)).Note("out=%s", Touched(p));
       });
     }},
    {"capture_pool_attribute",
     [](Answer& a) {
       CUmemoryPool pool = nullptr;
       cuuint64_t bytes = 0;
       a.Code("pool", cuDeviceGetDefaultMemPool(&pool, 0));
       During(a, kGlobal, Where::kHere, [&](CUstream) {
         a.Code("ask", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
       });
     }},
    {"capture_queries",
     [](Answer& a) {
       const Memory m(kMiddle);
       During(a, kGlobal, Where::kHere, [&](CUstream) {
         size_t size = 0, free = 0, total = 0;
         a.Code("range", cuMemGetAddressRange(nullptr, &size, m));
         a.Code("attribute", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, m));
         a.Code("information", cuMemGetInfo(&free, &total));
         CUmemGenericAllocationHandle handle = 0;
         a.Code("retain",
                cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(CUdeviceptr(m))));
       });
     }},
    {"capture_ipc_get",
     [](Answer& a) {
       const Memory m(kMiddle);
       During(a, kGlobal, Where::kHere, [&](CUstream) {
         CUipcMemHandle handle;
         a.Code("ipc", cuIpcGetMemHandle(&handle, m));
       });
     }},
    {"capture_set_attribute",
     [](Answer& a) {
       const Memory m(kMiddle);
       During(a, kGlobal, Where::kHere, [&](CUstream) {
         unsigned on = 1;
         a.Code("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m));
       });
     }},
    {"capture_descriptor",
     [](Answer& a) {
       const Memory m(4 << 20);
       int fd = -1;
       During(a, kGlobal, Where::kHere, [&](CUstream) {
         a.Code("descriptor", cuMemGetHandleForAddressRange(
                                  &fd, m, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
       });
     }},
    {"capture_pinned",
     [](Answer& a) {
       void* pinned = nullptr;
       During(a, kGlobal, Where::kHere,
              [&](CUstream) { a.Code("pinned", cuMemAllocHost(&pinned, kSmall)); });
       if (pinned != nullptr) Must(cuMemFreeHost(pinned), "cuMemFreeHost");
     }},
    {"capture_fill_past_the_end",
     [](Answer& a) {
       const Memory m(kMiddle);
       During(a, kRelaxed, Where::kHere, [&](CUstream stream) {
         a.Code("whole", cuMemsetD8Async(m, 1, kMiddle, stream));
         a.Code("one_more", cuMemsetD8Async(m, 1, kMiddle + 1, stream));
       });
     }},
    {"capture_copy_past_the_end",
     [](Answer& a) {
       const Memory m(kMiddle), n(kMiddle);
       During(a, kRelaxed, Where::kHere, [&](CUstream stream) {
         a.Code("whole", cuMemcpyDtoDAsync(m, n, kMiddle, stream));
         a.Code("one_more", cuMemcpyDtoDAsync(m, n, kMiddle + 1, stream));
       });
     }},
    {"capture_waits",
     [](Answer& a) {
       During(a, kGlobal, Where::kElsewhere, [&](CUstream) { a.Code(cuCtxSynchronize()); });
     }},
};

}  // namespace

std::span<const Case> CaptureCases() { return kCases; }
