// Calls without a context, in a context that was destroyed, and on another context's memory.
#include "tests/apps/edge_calls/case.h"

namespace {

void None() { Must(cuCtxSetCurrent(nullptr), "cuCtxSetCurrent"); }

// A case that runs on a thread without a current context.
template <typename Work>
void Without(Work work) {
  OnThread(nullptr, work);
}

void Allocate(Answer& a) {
  CUdeviceptr p = kUntouched;
  const CUresult r = cuMemAlloc(&p, kSmall);
  a.Code(r).Note("out=%s", Touched(p));
  if (r == CUDA_SUCCESS) Must(cuMemFree(p), "cuMemFree");
}

const Case kCases[] = {
    {"no_context_alloc", [](Answer& a) { Without([&] { Allocate(a); }); }},
    {"no_context_alloc_zero_bytes",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       Without([&] { a.Code(cuMemAlloc(&p, 0)).Note("out=%s", Touched(p)); });
     }},
    {"no_context_alloc_null_out",
     [](Answer& a) { Without([&] { a.Code(cuMemAlloc(nullptr, 100)); }); }},
    {"no_context_alloc_huge",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       Without([&] { a.Code(cuMemAlloc(&p, SIZE_MAX)).Note("out=%s", Touched(p)); });
     }},
    {"no_context_alloc_pitch",
     [](Answer& a) {
       CUdeviceptr p = kUntouched;
       size_t pitch = kUntouched;
       Without([&] { a.Code(cuMemAllocPitch(&p, &pitch, 100, 10, 4)); });
       a.Note("out=%s pitch=%s", Touched(p), Touched(pitch));
     }},
    {"no_context_free",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       CUresult r = CUDA_SUCCESS;
       Without([&] { r = cuMemFree(p); });
       a.Code(r).Code("later", cuMemFree(p));
     }},
    {"no_context_free_null", [](Answer& a) { Without([&] { a.Code(cuMemFree(0)); }); }},
    {"no_context_free_interior",
     [](Answer& a) {
       const Memory m(kMiddle);
       Without([&] { a.Code(cuMemFree(m + 4096)); });
     }},
    {"no_context_free_low_address", [](Answer& a) { Without([&] { a.Code(cuMemFree(16)); }); }},
    {"no_context_free_twice",
     [](Answer& a) {
       const Freed freed(kMiddle);
       Without([&] { a.Code(cuMemFree(freed)); });
     }},
    {"no_context_free_async",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       CUresult r = CUDA_SUCCESS;
       Without([&] { r = cuMemFreeAsync(p, nullptr); });
       a.Code(r).Code("later", cuMemFree(p));
     }},
    {"no_context_range",
     [](Answer& a) {
       const Memory m(kMiddle);
       size_t size = kUntouched;
       Without([&] { a.Code(cuMemGetAddressRange(nullptr, &size, m)); });
       a.Note("size=%s", Touched(size));
     }},
    {"no_context_attribute",
     [](Answer& a) {
       const Memory m(kMiddle);
       uint64_t size = kUntouched;
       Without([&] { a.Code(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, m)); });
       a.Note("out=%s", Touched(size));
     }},
    {"no_context_attributes",
     [](Answer& a) {
       const Memory m(kMiddle);
       uint64_t size = kUntouched;
       CUpointer_attribute id = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
       void* to = &size;
       Without([&] { a.Code(cuPointerGetAttributes(1, &id, &to, m)); });
       a.Note("out=%s", Touched(size));
     }},
    {"no_context_set_attribute",
     [](Answer& a) {
       const Memory m(kMiddle);
       unsigned on = 1;
       Without([&] { a.Code(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m)); });
     }},
    {"no_context_retain",
     [](Answer& a) {
       const Memory m(kMiddle);
       CUmemGenericAllocationHandle handle = kUntouched;
       Without([&] {
         a.Code(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(CUdeviceptr(m))));
       });
     }},
    {"no_context_ipc_get",
     [](Answer& a) {
       const Memory m(kMiddle);
       CUipcMemHandle handle;
       Without([&] { a.Code(cuIpcGetMemHandle(&handle, m)); });
     }},
    {"no_context_descriptor",
     [](Answer& a) {
       const Memory m(4 << 20);
       int fd = -5;
       Without([&] {
         a.Code(cuMemGetHandleForAddressRange(&fd, m, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                              0));
       });
       a.Note("fd=%s", fd == -5 ? "untouched" : "set");
     }},
    {"no_context_information",
     [](Answer& a) {
       size_t free = kUntouched, total = kUntouched;
       Without([&] { a.Code(cuMemGetInfo(&free, &total)); });
       a.Note("free=%s total=%s", Touched(free), Touched(total));
     }},
    {"no_context_fill",
     [](Answer& a) {
       const Memory m(kSmall);
       Without([&] { a.Code(cuMemsetD8(m, 0, kSmall)); });
     }},
    {"no_context_copy",
     [](Answer& a) {
       const Memory m(kSmall);
       Without([&] { a.Code(cuMemcpyHtoD(m, host_bytes, kSmall)); });
     }},
    {"destroyed_context_elsewhere",
     [](Answer& a) {
       OtherContext other;
       const CUcontext context = other;
       OnThread(context, [&] { Must(cuCtxDestroy(context), "cuCtxDestroy"); });
       a.Code("device", [] {
         CUdevice device = 0;
         return cuCtxGetDevice(&device);
       }());
       Allocate(a);
       size_t free = 0, total = 0;
       a.Code("information", cuMemGetInfo(&free, &total)).Code("free_null", cuMemFree(0));
       other.Forget();
     }},
    {"destroyed_context_takes_its_memory",
     [](Answer& a) {
       OtherContext other;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       other.Destroy();
       size_t size = kUntouched;
       uint64_t value = kUntouched;
       a.Code("range", cuMemGetAddressRange(nullptr, &size, p)).Note("size=%s", Touched(size));
       a.Code("attribute", cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
       a.Code("fill", cuMemsetD8(p, 0, 16)).Code("free", cuMemFree(p));
     }},
    {"destroyed_context_free_inside",
     [](Answer& a) {
       // Memory of the context, freed on a thread where the destroyed context is still current.
       OtherContext other;
       const CUcontext context = other;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       OnThread(context, [&] { Must(cuCtxDestroy(context), "cuCtxDestroy"); });
       a.Code("free", cuMemFree(p)).Code("interior", cuMemFree(p + 4096));
       other.Forget();
     }},
    {"other_context_free",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       {
         const OtherContext other;
         a.Code("there", cuMemFree(p));
       }
       a.Code("home", cuMemFree(p));
     }},
    {"other_context_free_of_its_memory",
     [](Answer& a) {
       const OtherContext other;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       OnThread(PrimaryContext(), [&] { a.Code("there", cuMemFree(p)); });
       a.Code("home", cuMemFree(p));
     }},
    {"other_context_attribute",
     [](Answer& a) {
       const Memory m(kSmall);
       const OtherContext other;
       CUcontext of_memory = nullptr;
       a.Code(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT, m));
       a.Note("primary=%d", of_memory == PrimaryContext());
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kSmall), "cuMemAlloc");
       a.Code(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT, p));
       a.Note("other=%d", of_memory == other).Code("free", cuMemFree(p));
     }},
    {"other_context_range",
     [](Answer& a) {
       const Memory m(kMiddle);
       const OtherContext other;
       size_t size = kUntouched;
       a.Code(cuMemGetAddressRange(nullptr, &size, m)).Note("size=%s", Touched(size));
     }},
    {"other_context_fill",
     [](Answer& a) {
       const Memory m(kMiddle);
       const OtherContext other;
       a.Code(cuMemsetD8(m, 0, kMiddle));
     }},
    {"other_context_copy",
     [](Answer& a) {
       const Memory m(kMiddle);
       const OtherContext other;
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kMiddle), "cuMemAlloc");
       a.Code(cuMemcpyDtoD(p, m, kMiddle)).Code("free", cuMemFree(p));
     }},
    {"other_context_ipc_get",
     [](Answer& a) {
       const Memory m(kMiddle);
       const OtherContext other;
       CUipcMemHandle handle;
       a.Code(cuIpcGetMemHandle(&handle, m));
     }},
    {"context_push_null", [](Answer& a) { a.Code(cuCtxPushCurrent(nullptr)); }},
    {"context_pop_twice",
     [](Answer& a) {
       CUcontext popped = nullptr;
       a.Code(cuCtxPopCurrent(&popped)).Note("primary=%d", popped == PrimaryContext());
       CUcontext again = nullptr;
       a.Code("again", cuCtxPopCurrent(&again));
       Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
     }},
    {"context_kept_by_allocation",
     [](Answer& a) {
       const Memory m(kLarge);
       CUcontext current = nullptr;
       a.Code(cuCtxGetCurrent(&current)).Note("primary=%d", current == PrimaryContext());
     }},
    {"context_none_kept_by_failures",
     [](Answer& a) {
       None();
       CUdeviceptr p = 0;
       a.Code("alloc", cuMemAlloc(&p, 100));
       CUcontext current = PrimaryContext();
       a.Code(cuCtxGetCurrent(&current)).Note("null=%d", current == nullptr);
       Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
     }},
    {"context_get_null", [](Answer& a) { a.Code(cuCtxGetCurrent(nullptr)); }},
};

}  // namespace

std::span<const Case> ContextCases() { return kCases; }
