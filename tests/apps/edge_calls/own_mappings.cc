// Virtual memory management on memory that the program makes and maps itself: handles, places,
// access, and what each refusal leaves.
#include "tests/apps/edge_calls/case.h"

namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr size_t kPage = 2 << 20;
constexpr size_t kReserved = 32 * kPage;
constexpr CUmemLocation kDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemAccessDesc kFull = {kDevice, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
constexpr CUmemAccessDesc kNone = {kDevice, CU_MEM_ACCESS_FLAGS_PROT_NONE};

CUmemAllocationProp OnDevice(CUmemAllocationHandleType type) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = kDevice;
  prop.requestedHandleTypes = type;
  return prop;
}

// A reservation, a handle of one page, and a handle of two; nothing is mapped.
struct Segment {
  Segment() {
    const CUmemAllocationProp prop = OnDevice(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    Must(cuMemAddressReserve(&base, kReserved, 0, 0, 0), "cuMemAddressReserve");
    Must(cuMemCreate(&one, kPage, &prop, 0), "cuMemCreate");
    Must(cuMemCreate(&two, 2 * kPage, &prop, 0), "cuMemCreate");
  }
  ~Segment() {
    cuMemUnmap(base, kReserved);
    if (one != 0) Must(cuMemRelease(one), "cuMemRelease");
    if (two != 0) Must(cuMemRelease(two), "cuMemRelease");
    cuMemAddressFree(base, kReserved);  // gone already where a driver frees what is mapped
  }
  // One page at the front, two behind it, and a hole; all with access.
  void MapBoth() const {
    Must(cuMemMap(base, kPage, 0, one, 0), "cuMemMap");
    Must(cuMemMap(base + kPage, 2 * kPage, 0, two, 0), "cuMemMap");
    Must(cuMemSetAccess(base, 3 * kPage, &kFull, 1), "cuMemSetAccess");
  }
  CUdeviceptr base = 0;
  Handle one = 0, two = 0;
};

void Byte(Answer& a, CUdeviceptr at) {
  unsigned char byte = 0;
  const CUresult r = cuMemcpyDtoH(&byte, at, 1);
  a.Code("read", r);
  if (r == CUDA_SUCCESS) a.Note("byte=%d", byte);
}

// Whether memory is mapped there; a fill would fault where none is and the driver does not look.
void Mapped(Answer& a, CUdeviceptr at) {
  Handle handle = 0;
  const CUresult r = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at));
  a.Code("mapped", r);
  if (r == CUDA_SUCCESS) Must(cuMemRelease(handle), "cuMemRelease");
}

const Case kCases[] = {
    // NCCL asks so before it has a context.
    {"own_create_on_the_host",
     [](Answer& a) {
       OnThread(nullptr, [&] {
         CUmemAllocationProp prop = OnDevice(CU_MEM_HANDLE_TYPE_NONE);
         prop.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
         size_t step = kUntouched;
         Handle handle = kUntouched;
         const auto r =
             cuMemGetAllocationGranularity(&step, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
         a.Code("step", r).Note("step=%s", Touched(step));
         const CUresult made = cuMemCreate(&handle, kPage, &prop, 0);
         a.Code("create", made).Note("handle=%s", Touched(handle));
         if (made == CUDA_SUCCESS) a.Code("release", cuMemRelease(handle));
       });
     }},
    {"own_create",
     [](Answer& a) {
       CUmemAllocationProp prop = OnDevice(CU_MEM_HANDLE_TYPE_NONE);
       Handle handle = kUntouched;
       a.Code("no_size", cuMemCreate(&handle, 0, &prop, 0));
       a.Code("part", cuMemCreate(&handle, kPage / 2, &prop, 0));
       a.Code("flags", cuMemCreate(&handle, kPage, &prop, 7));
       a.Code("no_prop", cuMemCreate(&handle, kPage, nullptr, 0));
       a.Code("no_handle", cuMemCreate(nullptr, kPage, &prop, 0));
       a.Code("32_tib", cuMemCreate(&handle, size_t(1) << 45, &prop, 0));
       prop.location.id = 99;
       a.Code("no_device", cuMemCreate(&handle, kPage, &prop, 0));
       a.Note("handle=%s", Touched(handle));
     }},
    {"own_map_wrong",
     [](Answer& a) {
       const Segment s;
       a.Code("offset", cuMemMap(s.base, kPage, kPage, s.two, 0));
       a.Code("part", cuMemMap(s.base, kPage, 0, s.two, 0));
       a.Code("more", cuMemMap(s.base, 2 * kPage, 0, s.one, 0));
       a.Code("unaligned", cuMemMap(s.base + 4096, kPage, 0, s.one, 0));
       a.Code("no_size", cuMemMap(s.base, 0, 0, s.one, 0));
       a.Code("flags", cuMemMap(s.base, kPage, 0, s.one, 1));
       a.Code("null", cuMemMap(0, kPage, 0, s.one, 0));
     }},
    {"own_map_over",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       a.Code("same", cuMemMap(s.base, kPage, 0, s.one, 0));
       a.Code("across", cuMemMap(s.base, 2 * kPage, 0, s.two, 0));
       a.Code("beside", cuMemMap(s.base + 4 * kPage, 2 * kPage, 0, s.two, 0));
     }},
    {"own_unmap_parts",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       a.Code("front", cuMemUnmap(s.base + kPage, kPage));
       a.Code("back", cuMemUnmap(s.base + 2 * kPage, kPage));
       a.Code("one_and_a_half", cuMemUnmap(s.base, 2 * kPage));
       a.Code("no_size", cuMemUnmap(s.base, 0));
       a.Code("hole", cuMemUnmap(s.base + 8 * kPage, kPage));
       for (size_t page : {0, 1, 2}) Mapped(a, s.base + page * kPage);
       a.Code("both", cuMemUnmap(s.base, 3 * kPage));
       a.Code("again", cuMemUnmap(s.base, 3 * kPage));
     }},
    {"own_unmap_holes",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       Must(cuMemMap(s.base + 8 * kPage, kPage, 0, s.one, 0), "cuMemMap");
       a.Code(cuMemUnmap(s.base, 16 * kPage));
       Mapped(a, s.base);
     }},
    {"own_access_wrong",
     [](Answer& a) {
       const Segment s;
       a.Code("unmapped", cuMemSetAccess(s.base, kPage, &kFull, 1));
       Must(cuMemMap(s.base, kPage, 0, s.one, 0), "cuMemMap");
       Must(cuMemMap(s.base + kPage, 2 * kPage, 0, s.two, 0), "cuMemMap");
       a.Code("hole", cuMemSetAccess(s.base, 4 * kPage, &kFull, 1));
       a.Code("part", cuMemSetAccess(s.base, 2 * kPage, &kFull, 1));
       a.Code("none_named", cuMemSetAccess(s.base, kPage, &kFull, 0));
       a.Code("no_list", cuMemSetAccess(s.base, kPage, nullptr, 1));
       a.Code("no_size", cuMemSetAccess(s.base, 0, &kFull, 1));
       CUmemAccessDesc other = kFull;
       other.location.id = 99;
       a.Code("no_device", cuMemSetAccess(s.base, kPage, &other, 1));
     }},
    {"own_access",
     [](Answer& a) {
       const Segment s;
       unsigned long long flags = 77;
       Must(cuMemMap(s.base, kPage, 0, s.one, 0), "cuMemMap");
       a.Code("before", cuMemGetAccess(&flags, &kDevice, s.base)).Note("flags=%llu", flags);
       Must(cuMemSetAccess(s.base, kPage, &kFull, 1), "cuMemSetAccess");
       a.Code("full", cuMemGetAccess(&flags, &kDevice, s.base + 5)).Note("flags=%llu", flags);
       a.Code("fill", cuMemsetD8(s.base, 1, 1));
       a.Code("taken", cuMemSetAccess(s.base, kPage, &kNone, 1));
       a.Code("none", cuMemGetAccess(&flags, &kDevice, s.base)).Note("flags=%llu", flags);
       a.Code("hole", cuMemGetAccess(&flags, &kDevice, s.base + 8 * kPage));
     }},
    {"own_alias",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       const CUdeviceptr alias = s.base + 8 * kPage;
       a.Code("map", cuMemMap(alias, kPage, 0, s.one, 0));
       a.Code("access", cuMemSetAccess(alias, kPage, &kFull, 1));
       Must(cuMemsetD8(s.base, 42, kPage), "cuMemsetD8");
       Byte(a, alias);
       a.Code("unmap", cuMemUnmap(s.base, kPage));
       Byte(a, alias);
     }},
    {"own_early_release",
     [](Answer& a) {
       Segment s;
       s.MapBoth();
       a.Code(cuMemRelease(s.one)).Code("fill", cuMemsetD8(s.base, 9, kPage));
       Byte(a, s.base);
       Handle again = kUntouched;
       a.Code("retain", cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(s.base)));
       a.Code("map", cuMemMap(s.base + 8 * kPage, kPage, 0, again, 0));
       a.Code("release", cuMemRelease(again)).Code("unmap", cuMemUnmap(s.base, kPage));
       s.one = 0;
     }},
    {"own_retain",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       Handle handle = kUntouched;
       const auto at = [&s](size_t offset) { return reinterpret_cast<void*>(s.base + offset); };
       a.Code("hole", cuMemRetainAllocationHandle(&handle, at(8 * kPage)));
       a.Code("no_handle", cuMemRetainAllocationHandle(nullptr, at(0)));
       a.Note("handle=%s", Touched(handle));
       a.Code("inside", cuMemRetainAllocationHandle(&handle, at(77)));
       a.Note("same=%d", handle == s.one).Code("release", cuMemRelease(handle));
       CUmemAllocationProp prop = {};
       a.Code("first", cuMemGetAllocationPropertiesFromHandle(&prop, s.one));
     }},
    {"own_properties",
     [](Answer& a) {
       const Segment s;
       CUmemAllocationProp prop = {};
       a.Code(cuMemGetAllocationPropertiesFromHandle(&prop, s.one));
       a.Note("type=%d handle_types=%d", prop.type, prop.requestedHandleTypes);
       a.Note("location=%d,%d", prop.location.type, prop.location.id);
       a.Note("rdma=%d usage=%d", prop.allocFlags.gpuDirectRDMACapable, prop.allocFlags.usage);
     }},
    {"own_export_wrong",
     [](Answer& a) {
       const CUmemAllocationProp prop = OnDevice(CU_MEM_HANDLE_TYPE_NONE);
       constexpr auto kType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
       Handle handle = 0;
       int fd = -1;
       Must(cuMemCreate(&handle, kPage, &prop, 0), "cuMemCreate");
       a.Code("not_asked_for", cuMemExportToShareableHandle(&fd, handle, kType, 0));
       a.Code("nowhere", cuMemExportToShareableHandle(nullptr, handle, kType, 0));
       a.Code("flags", cuMemExportToShareableHandle(&fd, handle, kType, 1)).Note("fd=%d", fd);
       Must(cuMemRelease(handle), "cuMemRelease");
     }},
    {"own_address_free",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       a.Code("mapped", cuMemAddressFree(s.base, kReserved));
       a.Code("part", cuMemAddressFree(s.base, kPage));
       a.Code("inside", cuMemAddressFree(s.base + kPage, kPage));
       Mapped(a, s.base);
     }},
    {"own_other_frees",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       CUipcMemHandle ipc;
       a.Code("free", cuMemFree(s.base)).Code("inside", cuMemFree(s.base + 5));
       a.Code("hole", cuMemFree(s.base + 8 * kPage)).Code("ipc", cuIpcGetMemHandle(&ipc, s.base));
       Mapped(a, s.base);
     }},
    {"own_range",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       CUdeviceptr base = kUntouched;
       size_t bytes = 0;
       a.Code(cuMemGetAddressRange(&base, &bytes, s.base + kPage + 5));
       a.Note("base=%s bytes=%zu", From(s.base, base).c_str(), bytes);
       a.Code("hole", cuMemGetAddressRange(&base, &bytes, s.base + 8 * kPage));
     }},
    {"own_without_context",
     [](Answer& a) {
       const Segment s;
       s.MapBoth();
       OnThread(nullptr, [&] {
         Handle handle = 0;
         CUdeviceptr base = 0;
         unsigned long long flags = 0, id = 0;
         a.Code("retain", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(s.base)));
         a.Code("release", cuMemRelease(handle));
         a.Code("access", cuMemGetAccess(&flags, &kDevice, s.base));
         a.Code("range", cuMemGetAddressRange(&base, nullptr, s.base));
         a.Code("id", cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, s.base));
         a.Code("unmap", cuMemUnmap(s.base, kPage));
         a.Code("map", cuMemMap(s.base, kPage, 0, s.one, 0));
         a.Code("allow", cuMemSetAccess(s.base, kPage, &kFull, 1));
       });
     }},
    {"own_outlives_context",
     [](Answer& a) {
       const Segment s;
       OtherContext other;
       s.MapBoth();
       Must(cuMemsetD8(s.base, 42, kPage), "cuMemsetD8");
       other.Destroy();
       Byte(a, s.base);
     }},
};

}  // namespace

std::span<const Case> OwnMappingCases() { return kCases; }
