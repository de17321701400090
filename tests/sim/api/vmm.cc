// cuMemCreate, cuMemMap and their kind: virtual memory management.
#include <atomic>
#include <unordered_map>

#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// Handles count their uses: cuMemRetainAllocationHandle gives out the same handle again.
class Handles {
 public:
  CUmemGenericAllocationHandle Add(std::shared_ptr<Physical> memory) {
    MutexLock lock(mu_);
    return Make(std::move(memory));
  }
  CUmemGenericAllocationHandle Retain(std::shared_ptr<Physical> memory) {
    MutexLock lock(mu_);
    const auto known = by_memory_.find(memory.get());
    if (known == by_memory_.end()) return Make(std::move(memory));
    ++entries_[known->second].uses;
    return known->second;
  }
  std::shared_ptr<Physical> Find(CUmemGenericAllocationHandle handle) {
    MutexLock lock(mu_);
    const auto found = entries_.find(handle);
    return found == entries_.end() ? nullptr : found->second.memory;
  }
  bool Drop(CUmemGenericAllocationHandle handle) {
    std::shared_ptr<Physical> last;  // settled outside the lock
    MutexLock lock(mu_);
    const auto found = entries_.find(handle);
    if (found == entries_.end()) return false;
    if (--found->second.uses == 0) {
      last = std::move(found->second.memory);
      if (by_memory_[last.get()] == handle) by_memory_.erase(last.get());
      entries_.erase(found);
    }
    return true;
  }

 private:
  struct Entry {
    std::shared_ptr<Physical> memory;
    int uses = 0;
  };
  CUmemGenericAllocationHandle Make(std::shared_ptr<Physical> memory) REQUIRES(mu_) {
    by_memory_.emplace(memory.get(), next_);
    entries_[next_] = {std::move(memory), 1};
    return next_++;
  }
  Mutex mu_;
  std::unordered_map<CUmemGenericAllocationHandle, Entry> entries_ GUARDED_BY(mu_);
  std::unordered_map<const Physical*, CUmemGenericAllocationHandle> by_memory_ GUARDED_BY(mu_);
  CUmemGenericAllocationHandle next_ GUARDED_BY(mu_) = 0x51d0000001;
};

Handles& AllHandles() {
  static auto* const handles = new Handles;
  return *handles;
}

// A multicast object is its handle alone: what is bound to it is checked, and not kept.
constexpr CUmemGenericAllocationHandle kFirstMulticast = 0x51dc00000001;
constinit std::atomic<CUmemGenericAllocationHandle> next_multicast{kFirstMulticast};

bool IsMulticast(CUmemGenericAllocationHandle handle) {
  return handle >= kFirstMulticast && handle < next_multicast;
}

CUresult CheckProperties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (prop->location.id < 0 || prop->location.id >= Sim().settings.gpus)
    return CUDA_ERROR_INVALID_DEVICE;
  if ((prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  return Call<"cuMemAddressReserve">([&] {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Address base = 0;
    const CUresult result = Sim().addresses.Reserve(bytes, alignment, hint, &base);
    if (result == CUDA_SUCCESS) *out = base;
    return result;
  });
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  return Call<"cuMemAddressFree">([&] { return Sim().addresses.FreeReservation(base, bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return Call<"cuMemCreate">([&] {
    if (handle == nullptr || flags != 0 || bytes == 0 || bytes % kGranularity != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto r = CheckProperties(prop); r != CUDA_SUCCESS) return r;
    Driver& sim = Sim();
    std::shared_ptr<Physical> memory;
    if (auto r = Physical::Create(sim.account, prop->location.id, bytes, sim.settings.gpu_bytes,
                                  &memory);
        r != CUDA_SUCCESS)
      return r;
    memory->prop = *prop;
    *handle = AllHandles().Add(std::move(memory));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Call<"cuMemRelease">([&] {
    const bool known = IsMulticast(handle) || AllHandles().Drop(handle);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Device memory is mapped whole.
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return Call<"cuMemMap">([&] {
    auto memory = AllHandles().Find(handle);
    if (memory == nullptr || flags != 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != memory->bytes()) return CUDA_ERROR_NOT_SUPPORTED;
    return Sim().addresses.Map(at, bytes, std::move(memory));
  });
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  return Call<"cuMemUnmap">([&] { return Sim().addresses.Unmap(at, bytes); });
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return Call<"cuMemSetAccess">([&] {
    if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const auto& location = access[i].location;
      if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
      if (location.id < 0 || location.id >= Sim().settings.gpus) return CUDA_ERROR_INVALID_VALUE;
      if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
          access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
          access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    }
    return Sim().addresses.SetAccess(at, bytes, access, count);
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr at) {
  return Call<"cuMemGetAccess">([&] {
    if (flags == nullptr || location == nullptr || location->id < 0 ||
        location->id >= Sim().settings.gpus)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    return Sim().addresses.GetAccess(at, location->id, flags);
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return Call<"cuMemExportToShareableHandle">([&] {
    const auto memory = AllHandles().Find(handle);
    if (out == nullptr || memory == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    if ((memory->prop.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
    const int fd = memory->Export();
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  return Call<"cuMemImportFromShareableHandle">([&] {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_ptr<Physical> memory;
    const int fd = int(reinterpret_cast<intptr_t>(os_handle));
    if (auto r = Physical::Import(Sim().account, fd, &memory); r != CUDA_SUCCESS) return r;
    *handle = AllHandles().Add(std::move(memory));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags) {
  return Call<"cuMemGetAllocationGranularity">([&] {
    if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (auto r = CheckProperties(prop); r != CUDA_SUCCESS) return r;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  return Call<"cuMemGetAllocationPropertiesFromHandle">([&] {
    const auto memory = AllHandles().Find(handle);
    if (prop == nullptr || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *prop = memory->prop;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* at) {
  return Call<"cuMemRetainAllocationHandle">([&] {
    const auto found = Sim().addresses.Find(reinterpret_cast<Address>(at));
    if (handle == nullptr || !found || !found->mapping) return CUDA_ERROR_INVALID_VALUE;
    *handle = AllHandles().Retain(found->mapping->memory);
    return CUDA_SUCCESS;
  });
}

// Sparse arrays are not simulated: the list is checked, and nothing is mapped.
CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned count, CUstream) {
  return Call<"cuMemMapArrayAsync">([&] {
    if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
      const bool maps = list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP;
      if (maps && AllHandles().Find(list[i].memHandle.memHandle) == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* p) {
  return Call<"cuMulticastCreate">([&] {
    if (handle == nullptr || p == nullptr || p->numDevices == 0 || p->size % kGranularity != 0)
      return CUDA_ERROR_INVALID_VALUE;
    *handle = next_multicast++;
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t,
                            CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
                            unsigned long long flags) {
  return Call<"cuMulticastBindMem">([&] {
    const auto memory = AllHandles().Find(handle);
    if (!IsMulticast(multicast) || memory == nullptr || flags != 0 || offset > memory->bytes() ||
        bytes > memory->bytes() - offset)
      return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

// Memory of cuMemAlloc is refused.
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t, CUdeviceptr at, size_t,
                             unsigned long long flags) {
  return Call<"cuMulticastBindAddr">([&] {
    const auto found = Sim().addresses.Find(at);
    const bool mapped = found && found->mapping.has_value();
    return IsMulticast(multicast) && mapped && flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
