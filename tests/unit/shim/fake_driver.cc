// The driver's functions over memfds, real reservations and one account.
#include "tests/unit/shim/fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iterator>

namespace parkade::shim {
namespace {

constexpr Bytes kGranularity = 2_MiB;

FakeDriver* fake = nullptr;
thread_local std::vector<CUcontext> current_contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Contexts are numbers: device 0 is 0x1000, device 1 0x1001.
constexpr uintptr_t kFirstContext = 0x1000;
int DeviceOf(CUcontext context) {
  return int(reinterpret_cast<uintptr_t>(context) - kFirstContext);
}

void* Address(CUdeviceptr ptr) { return reinterpret_cast<void*>(ptr); }

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

}  // namespace

struct FakeCalls {
  static CUresult CtxGetCurrent(CUcontext* out) {
    *out = current_contexts.empty() ? nullptr : current_contexts.back();
    return CUDA_SUCCESS;
  }
  static CUresult CtxPushCurrent(CUcontext context) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuCtxPushCurrent"); r != CUDA_SUCCESS) return r;
    current_contexts.push_back(context);
    return CUDA_SUCCESS;
  }
  static CUresult CtxPopCurrent(CUcontext* out) {
    if (current_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *out = current_contexts.back();
    current_contexts.pop_back();
    return CUDA_SUCCESS;
  }
  static CUresult CtxSetCurrent(CUcontext context) {
    FakeDriver::MakeCurrent(context);
    return CUDA_SUCCESS;
  }
  static CUresult CtxGetDevice(CUdevice* out) {
    if (current_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *out = DeviceOf(current_contexts.back());
    return CUDA_SUCCESS;
  }
  static CUresult CtxSynchronize() {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuCtxSynchronize");
  }
  static CUresult CaptureModeExchange(CUstreamCaptureMode* mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  }
  static CUresult GetErrorName(CUresult code, const char** name) {
    *name = code == CUDA_SUCCESS               ? "CUDA_SUCCESS"
            : code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                               : "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
  }

  static CUresult DeviceGetCount(int* out) {
    *out = fake->options_.devices;
    return CUDA_SUCCESS;
  }
  static CUresult DeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice) {
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *out = fake->options_.vmm;
        return CUDA_SUCCESS;
      case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *out = fake->options_.posix_fd;
        return CUDA_SUCCESS;
      case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        *out = fake->options_.rdma;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  static CUresult DeviceGetUuid(CUuuid* out, CUdevice device) {
    memset(out->bytes, 0x40 + device, sizeof out->bytes);
    return CUDA_SUCCESS;
  }
  static CUresult DeviceTotalMem(size_t* out, CUdevice) {
    *out = fake->options_.memory;
    return CUDA_SUCCESS;
  }
  static CUresult MemGetInfo(size_t* free, size_t* total) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemGetInfo"); r != CUDA_SUCCESS) return r;
    if (current_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *total = fake->options_.memory;
    *free = *total - fake->used_[DeviceOf(current_contexts.back())];
    return CUDA_SUCCESS;
  }

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
    mmap(Address(ptr), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, it->second.fd, 0);
    ++it->second.references;
    fake->mappings_[ptr] = {bytes, handle, false};
    return CUDA_SUCCESS;
  }
  static CUresult Unmap(CUdeviceptr ptr, size_t bytes) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemUnmap"); r != CUDA_SUCCESS) return r;
    for (Bytes at = 0; at < bytes;) {
      const auto it = fake->mappings_.find(ptr + at);
      if (it == fake->mappings_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
      const Mapping mapping = it->second;
      mmap(Address(ptr + at), mapping.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      fake->mappings_.erase(it);
      fake->Unreference(mapping.handle);
      at += mapping.bytes;
    }
    return CUDA_SUCCESS;
  }
  static CUresult SetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc* access,
                            size_t count) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemSetAccess"); r != CUDA_SUCCESS) return r;
    if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    }
    for (Bytes at = 0; at < bytes;) {
      const auto it = fake->mappings_.find(ptr + at);
      if (it == fake->mappings_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
      mprotect(Address(ptr + at), it->second.bytes, PROT_READ | PROT_WRITE);
      it->second.accessible = true;
      at += it->second.bytes;
    }
    return CUDA_SUCCESS;
  }

  static CUresult HostRegister(void* host, size_t bytes, unsigned) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemHostRegister"); r != CUDA_SUCCESS) return r;
    return fake->host_.emplace(host, bytes).second
               ? CUDA_SUCCESS
               : fake->Mistake(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  }
  static CUresult HostUnregister(void* host) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemHostUnregister"); r != CUDA_SUCCESS) return r;
    return fake->host_.erase(host) == 1 ? CUDA_SUCCESS
                                        : fake->Mistake(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  }
  // Copies happen outside the lock; what is not mapped faults, as on the device.
  static CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream) {
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuMemcpyDtoHAsync"); r != CUDA_SUCCESS) return r;
    }
    memcpy(to, Address(from), bytes);
    return CUDA_SUCCESS;
  }
  static CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuMemcpyHtoDAsync"); r != CUDA_SUCCESS) return r;
    }
    memcpy(Address(to), from, bytes);
    return CUDA_SUCCESS;
  }
  static CUresult MemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
    return MemcpyDtoHAsync(to, from, bytes, nullptr);
  }
  static CUresult MemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
    return MemcpyHtoDAsync(to, from, bytes, nullptr);
  }

  static CUresult StreamCreate(CUstream* out, unsigned) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuStreamCreate"); r != CUDA_SUCCESS) return r;
    *out = reinterpret_cast<CUstream>(++fake->last_object_);
    fake->streams_.insert(*out);
    return CUDA_SUCCESS;
  }
  static CUresult StreamDestroy(CUstream stream) {
    MutexLock lock(fake->mu_);
    return fake->streams_.erase(stream) == 1 ? CUDA_SUCCESS
                                             : fake->Mistake(CUDA_ERROR_INVALID_HANDLE);
  }
  static CUresult StreamSynchronize(CUstream) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuStreamSynchronize");
  }
  static CUresult StreamQuery(CUstream) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuStreamQuery");
  }
  static CUresult StreamWaitEvent(CUstream, CUevent, unsigned) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuStreamWaitEvent");
  }
  static CUresult EventCreate(CUevent* out, unsigned) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuEventCreate"); r != CUDA_SUCCESS) return r;
    *out = reinterpret_cast<CUevent>(++fake->last_object_);
    fake->events_.insert(*out);
    return CUDA_SUCCESS;
  }
  static CUresult EventDestroy(CUevent event) {
    MutexLock lock(fake->mu_);
    return fake->events_.erase(event) == 1 ? CUDA_SUCCESS
                                           : fake->Mistake(CUDA_ERROR_INVALID_HANDLE);
  }
  static CUresult EventRecord(CUevent, CUstream) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuEventRecord");
  }
  static CUresult EventSynchronize(CUevent) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuEventSynchronize");
  }
  static CUresult EventQuery(CUevent) {
    MutexLock lock(fake->mu_);
    return fake->Begin("cuEventQuery");
  }

  using Mapping = FakeDriver::Mapping;
};

FakeDriver::FakeDriver(const Options& options) : options_(options) {
  fake = this;
  driver_.get_error_name = FakeCalls::GetErrorName;
  driver_.device_get_count = FakeCalls::DeviceGetCount;
  driver_.device_get_attribute = FakeCalls::DeviceGetAttribute;
  driver_.device_get_uuid = FakeCalls::DeviceGetUuid;
  driver_.device_total_mem = FakeCalls::DeviceTotalMem;
  driver_.ctx_get_current = FakeCalls::CtxGetCurrent;
  driver_.ctx_set_current = FakeCalls::CtxSetCurrent;
  driver_.ctx_push_current = FakeCalls::CtxPushCurrent;
  driver_.ctx_pop_current = FakeCalls::CtxPopCurrent;
  driver_.ctx_get_device = FakeCalls::CtxGetDevice;
  driver_.ctx_synchronize = FakeCalls::CtxSynchronize;
  driver_.capture_mode_exchange = FakeCalls::CaptureModeExchange;
  driver_.mem_get_info = FakeCalls::MemGetInfo;
  driver_.mem_alloc = FakeCalls::MemAlloc;
  driver_.mem_free = FakeCalls::MemFree;
  driver_.mem_address_reserve = FakeCalls::AddressReserve;
  driver_.mem_address_free = FakeCalls::AddressFree;
  driver_.mem_get_allocation_granularity = FakeCalls::Granularity;
  driver_.mem_create = FakeCalls::Create;
  driver_.mem_release = FakeCalls::Release;
  driver_.mem_map = FakeCalls::Map;
  driver_.mem_unmap = FakeCalls::Unmap;
  driver_.mem_set_access = FakeCalls::SetAccess;
  driver_.mem_host_register = FakeCalls::HostRegister;
  driver_.mem_host_unregister = FakeCalls::HostUnregister;
  driver_.memcpy_dtoh = FakeCalls::MemcpyDtoH;
  driver_.memcpy_htod = FakeCalls::MemcpyHtoD;
  driver_.memcpy_dtoh_async = FakeCalls::MemcpyDtoHAsync;
  driver_.memcpy_htod_async = FakeCalls::MemcpyHtoDAsync;
  driver_.stream_create = FakeCalls::StreamCreate;
  driver_.stream_destroy = FakeCalls::StreamDestroy;
  driver_.stream_synchronize = FakeCalls::StreamSynchronize;
  driver_.stream_query = FakeCalls::StreamQuery;
  driver_.stream_wait_event = FakeCalls::StreamWaitEvent;
  driver_.event_create = FakeCalls::EventCreate;
  driver_.event_destroy = FakeCalls::EventDestroy;
  driver_.event_record = FakeCalls::EventRecord;
  driver_.event_synchronize = FakeCalls::EventSynchronize;
  driver_.event_query = FakeCalls::EventQuery;
}

FakeDriver::~FakeDriver() {
  fake = nullptr;
  current_contexts.clear();
  MutexLock lock(mu_);
  for (const auto& [base, bytes] : reservations_) munmap(Address(base), bytes);
  for (const auto& [ptr, native] : native_) munmap(Address(ptr), native.bytes);
  for (const auto& [number, handle] : handles_) close(handle.fd);
}

CUcontext FakeDriver::Context(int device) const {
  return reinterpret_cast<CUcontext>(kFirstContext + uintptr_t(device));
}

void FakeDriver::MakeCurrent(CUcontext context) {
  current_contexts.clear();
  if (context != nullptr) current_contexts.push_back(context);
}

void FakeDriver::DestroyContext(CUcontext context) {
  MutexLock lock(mu_);
  for (auto it = native_.begin(); it != native_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    munmap(Address(it->first), it->second.bytes);
    used_[DeviceOf(context)] -= it->second.bytes;
    it = native_.erase(it);
  }
}

void FakeDriver::Fail(const std::string& name, int n, CUresult code, int times) {
  MutexLock lock(mu_);
  faults_[name] = {n - 1, times, code};
}

bool FakeDriver::FaultPending(const std::string& name) {
  MutexLock lock(mu_);
  return faults_.erase(name) == 1;
}

int FakeDriver::Calls(const std::string& name) const {
  MutexLock lock(mu_);
  const auto it = calls_.find(name);
  return it == calls_.end() ? 0 : it->second;
}

FakeDriver::Held FakeDriver::held() const {
  MutexLock lock(mu_);
  return {reservations_.size(), handles_.size(), mappings_.size(), native_.size(),
          host_.size(),         streams_.size(), events_.size()};
}

Bytes FakeDriver::used(int device) const {
  MutexLock lock(mu_);
  const auto it = used_.find(device);
  return it == used_.end() ? 0 : it->second;
}

Bytes FakeDriver::handle_bytes() const {
  MutexLock lock(mu_);
  Bytes bytes = 0;
  for (const auto& [number, handle] : handles_) bytes += handle.bytes;
  return bytes;
}

std::vector<CUmemAllocationProp> FakeDriver::handle_properties() const {
  MutexLock lock(mu_);
  std::vector<CUmemAllocationProp> properties;
  for (const auto& [number, handle] : handles_) properties.push_back(handle.prop);
  return properties;
}

int FakeDriver::mistakes() const {
  MutexLock lock(mu_);
  return mistakes_;
}

void FakeDriver::OnNativeFree(void (*call)(void*), void* arg) {
  MutexLock lock(mu_);
  on_native_free_ = call;
  on_native_free_arg_ = arg;
}

CUresult FakeDriver::Begin(const char* name) {
  ++calls_[name];
  const auto it = faults_.find(name);
  if (it == faults_.end()) return CUDA_SUCCESS;
  if (it->second.after-- > 0) return CUDA_SUCCESS;
  const CUresult code = it->second.code;
  if (--it->second.times == 0) faults_.erase(it);
  return code;
}

void FakeDriver::Unreference(CUmemGenericAllocationHandle number) {
  const auto it = handles_.find(number);
  if (--it->second.references > 0) return;
  close(it->second.fd);
  used_[it->second.prop.location.id] -= it->second.bytes;
  handles_.erase(it);
}

CUresult FakeDriver::Mistake(CUresult code) {
  ++mistakes_;
  return code;
}

bool FakeDriver::Room(int device, Bytes bytes) const {
  const auto it = used_.find(device);
  return (it == used_.end() ? 0 : it->second) + bytes <= options_.memory;
}

}  // namespace parkade::shim
