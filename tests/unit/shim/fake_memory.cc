// FakeDriver's memory: native by mmap, handles by memfd, addresses by reservations.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/shim/fake_state.h"

namespace parkade::shim {
namespace {

// Reserves addresses with the granularity's alignment and nothing behind them.
CUdeviceptr Reserve(Bytes bytes) {
  const Bytes padded = bytes + kGranularity;
  void* map = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return 0;
  const auto from = reinterpret_cast<CUdeviceptr>(map);
  const CUdeviceptr base = RoundUp(from, kGranularity);
  if (base > from) munmap(map, base - from);
  if (base < from + kGranularity) munmap(Address(base + bytes), from + kGranularity - base);
  return base;
}

// Replaces what is at reserved addresses by a handle's memory, or by nothing (-1); no access yet.
bool PutAt(CUdeviceptr ptr, Bytes bytes, int fd) {
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  return mmap(Address(ptr), bytes, PROT_NONE, kind | MAP_FIXED, fd, 0) != MAP_FAILED;
}

}  // namespace

struct FakeMemoryCalls {
  static CUresult MemAlloc(CUdeviceptr* out, size_t bytes) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemAlloc"); r != CUDA_SUCCESS) return r;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (current_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++fake->mistakes_;
    const CUcontext context = current_contexts.back();
    if (!fake->Room(DeviceOf(context), bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out = reinterpret_cast<CUdeviceptr>(memory);
    fake->native_[*out] = {bytes, context};
    fake->used_[DeviceOf(context)] += bytes;
    return CUDA_SUCCESS;
  }
  static CUresult MemFree(CUdeviceptr ptr) {
    void (*call)(void*) = nullptr;
    void* arg = nullptr;
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuMemFree"); r != CUDA_SUCCESS) return r;
      const auto it = fake->native_.find(ptr);
      if (it == fake->native_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
      if (capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++fake->mistakes_;
      munmap(Address(ptr), it->second.bytes);
      fake->used_[DeviceOf(it->second.context)] -= it->second.bytes;
      fake->native_.erase(it);
      call = fake->on_native_free_;
      arg = fake->on_native_free_arg_;
    }
    if (call != nullptr) call(arg);
    return CUDA_SUCCESS;
  }

  static CUresult AddressReserve(CUdeviceptr* out, size_t bytes, size_t, CUdeviceptr,
                                 unsigned long long) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemAddressReserve"); r != CUDA_SUCCESS) return r;
    if (bytes == 0 || bytes % kGranularity != 0) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr base = Reserve(bytes);
    if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    fake->reservations_[base] = bytes;
    *out = base;
    return CUDA_SUCCESS;
  }
  static CUresult AddressFree(CUdeviceptr base, size_t bytes) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemAddressFree"); r != CUDA_SUCCESS) return r;
    const auto it = fake->reservations_.find(base);
    if (it == fake->reservations_.end() || it->second != bytes) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    const auto inside = fake->mappings_.lower_bound(base);
    if (inside != fake->mappings_.end() && inside->first < base + bytes) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    munmap(Address(base), bytes);
    fake->reservations_.erase(it);
    return CUDA_SUCCESS;
  }
  static CUresult Granularity(size_t* out, const CUmemAllocationProp*,
                              CUmemAllocationGranularity_flags) {
    *out = kGranularity;
    return CUDA_SUCCESS;
  }
  static CUresult Properties(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
    MutexLock lock(fake->mu_);
    const auto it = fake->handles_.find(handle);
    if (it == fake->handles_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    *out = it->second.prop;
    return CUDA_SUCCESS;
  }
  // Knows what is mapped alone, and says of it what a test can tell apart.
  static CUresult PointerAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr ptr) {
    MutexLock lock(fake->mu_);
    auto it = fake->mappings_.upper_bound(ptr);
    if (it == fake->mappings_.begin()) return CUDA_ERROR_INVALID_VALUE;
    const auto& [base, mapping] = *--it;
    if (ptr - base >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE) {
      *static_cast<size_t*>(out) = mapping.bytes;
    } else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
      *static_cast<bool*>(out) = false;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }
  static CUresult Create(CUmemGenericAllocationHandle* out, size_t bytes,
                         const CUmemAllocationProp* prop, unsigned long long) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemCreate"); r != CUDA_SUCCESS) return r;
    if (bytes == 0 || bytes % kGranularity != 0) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    if (!fake->Room(prop->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const int fd = memfd_create("fake-handle", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, off_t(bytes)) != 0) return CUDA_ERROR_UNKNOWN;
    *out = ++fake->last_handle_;
    fake->handles_[*out] = {fd, bytes, *prop, 1, false};
    fake->used_[prop->location.id] += bytes;
    return CUDA_SUCCESS;
  }
  static CUresult Release(CUmemGenericAllocationHandle handle) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemRelease"); r != CUDA_SUCCESS) return r;
    const auto it = fake->handles_.find(handle);
    if (it == fake->handles_.end() || it->second.released) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    it->second.released = true;
    fake->Unreference(handle);
    return CUDA_SUCCESS;
  }
  static CUresult Export(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                         unsigned long long) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemExportToShareableHandle"); r != CUDA_SUCCESS) return r;
    const auto it = fake->handles_.find(handle);
    if (it == fake->handles_.end()) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int*>(out) = dup(it->second.fd);
    return CUDA_SUCCESS;
  }
  static CUresult Import(CUmemGenericAllocationHandle* out, void* descriptor,
                         CUmemAllocationHandleType) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemImportFromShareableHandle"); r != CUDA_SUCCESS) return r;
    const int fd = dup(int(reinterpret_cast<intptr_t>(descriptor)));
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    *out = ++fake->last_handle_;
    fake->handles_[*out] = {fd, Bytes(file.st_size), {}, 1, false, true};
    return CUDA_SUCCESS;
  }
  static CUresult Map(CUdeviceptr ptr, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemMap"); r != CUDA_SUCCESS) return r;
    const auto it = fake->handles_.find(handle);
    if (it == fake->handles_.end() || offset != 0 || bytes != it->second.bytes) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    auto reserved = fake->reservations_.upper_bound(ptr);
    if (reserved == fake->reservations_.begin() ||
        ptr + bytes > (--reserved)->first + reserved->second || fake->mappings_.contains(ptr)) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    if (!PutAt(ptr, bytes, it->second.fd)) return CUDA_ERROR_UNKNOWN;
    ++it->second.references;
    fake->mappings_[ptr] = {bytes, handle, {}};
    return CUDA_SUCCESS;
  }
  static CUresult Unmap(CUdeviceptr ptr, size_t bytes) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemUnmap"); r != CUDA_SUCCESS) return r;
    // Holes do not matter, unless there is nothing else.
    auto it = fake->mappings_.lower_bound(ptr);
    if (it == fake->mappings_.end() || it->first >= ptr + bytes) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    while (it != fake->mappings_.end() && it->first < ptr + bytes) {
      const auto [at, mapping] = *it;
      if (at + mapping.bytes > ptr + bytes) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
      if (!PutAt(at, mapping.bytes, -1)) return CUDA_ERROR_UNKNOWN;
      it = fake->mappings_.erase(it);
      fake->Unreference(mapping.handle);
    }
    return CUDA_SUCCESS;
  }
  static CUresult SetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc* access,
                            size_t count) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemSetAccess"); r != CUDA_SUCCESS) return r;
    if (count == 0) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    for (Bytes at = 0; at < bytes;) {
      const auto it = fake->mappings_.find(ptr + at);
      if (it == fake->mappings_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
      FakeDriver::Mapping& mapping = it->second;
      bool reads = false, writes = false;
      for (size_t i = 0; i < count; ++i) mapping.access[access[i].location.id] = access[i].flags;
      for (const auto& [device, flags] : mapping.access) {
        reads |= flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        writes |= flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      }
      mprotect(Address(ptr + at), mapping.bytes,
               (reads ? PROT_READ : PROT_NONE) | (writes ? PROT_WRITE : PROT_NONE));
      at += mapping.bytes;
    }
    return CUDA_SUCCESS;
  }
};

void FillMemoryCalls(Driver& driver) {
  driver.mem_alloc = FakeMemoryCalls::MemAlloc;
  driver.mem_free = FakeMemoryCalls::MemFree;
  driver.mem_address_reserve = FakeMemoryCalls::AddressReserve;
  driver.mem_address_free = FakeMemoryCalls::AddressFree;
  driver.mem_get_allocation_granularity = FakeMemoryCalls::Granularity;
  driver.mem_get_allocation_properties = FakeMemoryCalls::Properties;
  driver.pointer_get_attribute = FakeMemoryCalls::PointerAttribute;
  driver.mem_create = FakeMemoryCalls::Create;
  driver.mem_release = FakeMemoryCalls::Release;
  driver.mem_export = FakeMemoryCalls::Export;
  driver.mem_import = FakeMemoryCalls::Import;
  driver.mem_map = FakeMemoryCalls::Map;
  driver.mem_unmap = FakeMemoryCalls::Unmap;
  driver.mem_set_access = FakeMemoryCalls::SetAccess;
}

}  // namespace parkade::shim
