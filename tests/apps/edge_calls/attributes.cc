// cuPointerGetAttribute(s) and cuPointerSetAttribute, on every kind of address.
#include <cstring>

#include "tests/apps/edge_calls/attribute.h"

namespace {

void Places(Answer& a, const Attribute& attribute, const Memory& m, const char* of,
            CUdeviceptr inside) {
  const struct {
    const char* name;
    CUdeviceptr at;
  } places[] = {{"base", m}, {"inside", m + inside}, {"last", m.end() - 1}, {"end", m.end()}};
  for (const auto& place : places) {
    a.Note("%s.%s=%s", of, place.name, Describe(attribute, place.at, m, false).c_str());
  }
}

// One attribute of every kind of address there is.
template <int kIndex>
void OfAll(Answer& a) {
  const Attribute& attribute = Attributes()[kIndex];
  const Memory small(kSmall), middle(kMiddle), large(kLarge);
  Places(a, attribute, small, "small", 100);
  Places(a, attribute, middle, "middle", 2 << 20);
  Places(a, attribute, large, "large", 550 << 20);
  void* pinned = nullptr;
  CUdeviceptr managed = 0;
  Must(cuMemAllocHost(&pinned, kSmall), "cuMemAllocHost");
  Must(cuMemAllocManaged(&managed, kSmall, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  // All are there before the first goes, so that none takes the place of another.
  CUdeviceptr freed = 0, freed_middle = 0, freed_large = 0;
  const Memory beside(kSmall), beside_middle(kMiddle), beside_large(kLarge);
  Must(cuMemAlloc(&freed, kSmall), "cuMemAlloc");
  Must(cuMemAlloc(&freed_middle, kMiddle), "cuMemAlloc");
  Must(cuMemAlloc(&freed_large, kLarge), "cuMemAlloc");
  for (CUdeviceptr p : {freed, freed_middle, freed_large}) Must(cuMemFree(p), "cuMemFree");
  const struct {
    const char* name;
    CUdeviceptr at, base;
  } others[] = {{"freed", freed, freed},
                {"freed_middle", freed_middle, freed_middle},
                {"freed_large", freed_large, freed_large},
                {"null", 0, 0},
                {"low", 16, 0},
                {"host", AsDevice(host_bytes), AsDevice(host_bytes)},
                {"pinned", AsDevice(pinned) + 10, AsDevice(pinned)},
                {"managed", managed + 10, managed}};
  for (const auto& other : others) {
    a.Note("%s=%s", other.name, Describe(attribute, other.at, other.base, false).c_str());
  }
  Must(cuMemFree(managed), "cuMemFree");
  Must(cuMemFreeHost(pinned), "cuMemFreeHost");
}

// What cuPointerGetAttributes writes for each attribute of an address, beside its single twin.
void Many(Answer& a, CUdeviceptr at, CUdeviceptr base) {
  for (const Attribute& attribute : Attributes()) {
    if (attribute.kind == Attribute::Kind::kTokens) continue;
    uint64_t value[4] = {kUntouched, 0, 0, 0};
    void* to = value;
    CUpointer_attribute id = attribute.id;
    const CUresult r = cuPointerGetAttributes(1, &id, &to, at);
    if (attribute.kind == Attribute::Kind::kAddress && r == CUDA_SUCCESS) {
      a.Note("%s=%s", attribute.name, From(base, value[0]).c_str());
    } else if (attribute.kind == Attribute::Kind::kNumber && r == CUDA_SUCCESS) {
      // Narrow values leave the rest of the eight bytes as they were.
      a.Note("%s=%llx", attribute.name, static_cast<unsigned long long>(value[0]));
    } else {
      a.Note("%s=%s:%s", attribute.name, Name(r), value[0] == 0 ? "0" : Touched(value[0]));
    }
  }
}

void SetSync(Answer& a, CUdeviceptr at) {
  unsigned on = 1;
  a.Code("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
  a.Note("now=%llu",
         static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at)));
}

void Identity(Answer& a, CUpointer_attribute attribute) {
  CUdeviceptr first = 0;
  Must(cuMemAlloc(&first, kLarge), "cuMemAlloc");
  const uint64_t id = ValueOf(attribute, first);
  a.Note("second_half=%d", ValueOf(attribute, first + (550 << 20)) == id);
  {
    const Memory other(kLarge);
    a.Note("another_large=%d", ValueOf(attribute, other) == id);
  }
  Must(cuMemFree(first), "cuMemFree");
  const Memory later(kLarge), middle(kMiddle), middle_too(kMiddle);
  a.Note("later=%d", ValueOf(attribute, later) == id);
  a.Note("two_middle=%d", ValueOf(attribute, middle) == ValueOf(attribute, middle_too));
}

const Case kCases[] = {
    {"attribute_context", OfAll<0>},
    {"attribute_memory_type", OfAll<1>},
    {"attribute_device_pointer", OfAll<2>},
    {"attribute_host_pointer", OfAll<3>},
    {"attribute_p2p_tokens", OfAll<4>},
    {"attribute_sync_memops", OfAll<5>},
    {"attribute_buffer_id", OfAll<6>},
    {"attribute_is_managed", OfAll<7>},
    {"attribute_device_ordinal", OfAll<8>},
    {"attribute_is_legacy_cuda_ipc_capable", OfAll<9>},
    {"attribute_range_start_addr", OfAll<10>},
    {"attribute_range_size", OfAll<11>},
    {"attribute_mapped", OfAll<12>},
    {"attribute_allowed_handle_types", OfAll<13>},
    {"attribute_is_gpu_direct_rdma_capable", OfAll<14>},
    {"attribute_access_flags", OfAll<15>},
    {"attribute_mempool_handle", OfAll<16>},
    {"attribute_mapping_size", OfAll<17>},
    {"attribute_mapping_base_addr", OfAll<18>},
    {"attribute_memory_block_id", OfAll<19>},
    {"attribute_is_hw_decompress_capable", OfAll<20>},
    {"attribute_null_out",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m));
     }},
    {"attribute_unknown",
     [](Answer& a) {
       const Memory m(kSmall);
       uint64_t value = kUntouched;
       for (int id : {0, 22, 999, -1}) {
         a.Code(cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(id), m));
       }
       a.Note("out=%s", Touched(value));
     }},
    {"attribute_failure_leaves_out",
     [](Answer& a) {
       uint64_t value = kUntouched;
       a.Code(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, Freed(kMiddle)));
       a.Note("out=%s", Touched(value));
     }},
    {"attributes_of_live",
     [](Answer& a) {
       const Memory m(kMiddle);
       Many(a, m + 5, m);
     }},
    {"attributes_of_large",
     [](Answer& a) {
       const Memory m(kLarge);
       Many(a, m + (550 << 20), m);
     }},
    {"attributes_of_one_past_the_end",
     [](Answer& a) {
       const Memory m(kSmall);
       Many(a, m.end(), m);
     }},
    {"attributes_of_freed",
     [](Answer& a) {
       const Freed freed(kMiddle);
       Many(a, freed, freed);
     }},
    {"attributes_of_null", [](Answer& a) { Many(a, 0, 0); }},
    {"attributes_of_host_memory",
     [](Answer& a) { Many(a, AsDevice(host_bytes), AsDevice(host_bytes)); }},
    {"attributes_none",
     [](Answer& a) {
       const Memory m(kSmall);
       CUpointer_attribute id = CU_POINTER_ATTRIBUTE_CONTEXT;
       void* to = nullptr;
       a.Code(cuPointerGetAttributes(0, &id, &to, m));
     }},
    {"attributes_null_list",
     [](Answer& a) {
       const Memory m(kSmall);
       void* to = nullptr;
       a.Code(cuPointerGetAttributes(1, nullptr, &to, m));
     }},
    {"attributes_null_out",
     [](Answer& a) {
       const Memory m(kSmall);
       CUpointer_attribute id = CU_POINTER_ATTRIBUTE_CONTEXT;
       a.Code(cuPointerGetAttributes(1, &id, nullptr, m));
     }},
    {"attributes_one_unknown",
     [](Answer& a) {
       const Memory m(kSmall);
       CUpointer_attribute ids[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                    static_cast<CUpointer_attribute>(999)};
       uint64_t size = kUntouched, other = kUntouched;
       void* to[] = {&size, &other};
       a.Code(cuPointerGetAttributes(2, ids, to, m));
       a.Note("size=%llx other=%s", static_cast<unsigned long long>(size), Touched(other));
     }},
    {"attribute_buffer_id_identity",
     [](Answer& a) { Identity(a, CU_POINTER_ATTRIBUTE_BUFFER_ID); }},
    {"attribute_memory_block_id_identity",
     [](Answer& a) { Identity(a, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID); }},
    {"set_sync_memops_base",
     [](Answer& a) {
       const Memory m(kMiddle), other(kMiddle);
       SetSync(a, m);
       a.Note(
           "last=%llu other=%llu",
           static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m.end() - 1)),
           static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other)));
       unsigned off = 0;
       a.Code("unset", cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m));
       a.Note("now=%llu",
              static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m)));
     }},
    {"set_sync_memops_inside",
     [](Answer& a) {
       const Memory m(kLarge);
       SetSync(a, m + (550 << 20));
       a.Note("base=%llu",
              static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m)));
     }},
    {"set_sync_memops_forgotten_by_free",
     [](Answer& a) {
       CUdeviceptr p = 0;
       Must(cuMemAlloc(&p, kSmall), "cuMemAlloc");
       SetSync(a, p);
       Must(cuMemFree(p), "cuMemFree");
       const Memory m(kSmall);
       a.Note("later=%llu",
              static_cast<unsigned long long>(ValueOf(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m)));
     }},
    {"set_sync_memops_end",
     [](Answer& a) {
       const Memory m(kSmall);
       SetSync(a, m.end());
     }},
    {"set_sync_memops_freed", [](Answer& a) { SetSync(a, Freed(kMiddle)); }},
    {"set_sync_memops_null", [](Answer& a) { SetSync(a, 0); }},
    {"set_sync_memops_host", [](Answer& a) { SetSync(a, AsDevice(host_bytes)); }},
    {"set_attribute_null_value",
     [](Answer& a) {
       const Memory m(kSmall);
       a.Code(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m));
     }},
    {"set_attribute_that_cannot_be",
     [](Answer& a) {
       const Memory m(kSmall);
       uint64_t value = 1;
       a.Code(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, m));
       a.Code(cuPointerSetAttribute(&value, static_cast<CUpointer_attribute>(999), m));
     }},
};

}  // namespace

std::span<const Case> AttributeCases() { return kCases; }
