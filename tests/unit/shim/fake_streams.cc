// FakeDriver's copies, streams and events; all is done when the call returns.
#include <algorithm>
#include <cstring>

#include "tests/unit/shim/fake_state.h"

namespace parkade::shim {

struct FakeStreamCalls {
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

  static CUresult MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuMemcpyDtoDAsync"); r != CUDA_SUCCESS) return r;
    }
    memcpy(Address(to), Address(from), bytes);
    return CUDA_SUCCESS;
  }
  static CUresult MemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream) {
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuMemsetD32Async"); r != CUDA_SUCCESS) return r;
    }
    std::fill_n(static_cast<unsigned*>(Address(to)), count, value);
    return CUDA_SUCCESS;
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
  static CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
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
};

void FillStreamCalls(Driver& driver) {
  driver.mem_host_register = FakeStreamCalls::HostRegister;
  driver.mem_host_unregister = FakeStreamCalls::HostUnregister;
  driver.memcpy_dtoh = FakeStreamCalls::MemcpyDtoH;
  driver.memcpy_htod = FakeStreamCalls::MemcpyHtoD;
  driver.memcpy_dtoh_async = FakeStreamCalls::MemcpyDtoHAsync;
  driver.memcpy_htod_async = FakeStreamCalls::MemcpyHtoDAsync;
  driver.memcpy_dtod_async = FakeStreamCalls::MemcpyDtoDAsync;
  driver.memset_d32_async = FakeStreamCalls::MemsetD32Async;
  driver.stream_create = FakeStreamCalls::StreamCreate;
  driver.stream_destroy = FakeStreamCalls::StreamDestroy;
  driver.stream_synchronize = FakeStreamCalls::StreamSynchronize;
  driver.stream_is_capturing = FakeStreamCalls::StreamIsCapturing;
  driver.stream_query = FakeStreamCalls::StreamQuery;
  driver.stream_wait_event = FakeStreamCalls::StreamWaitEvent;
  driver.event_create = FakeStreamCalls::EventCreate;
  driver.event_destroy = FakeStreamCalls::EventDestroy;
  driver.event_record = FakeStreamCalls::EventRecord;
  driver.event_synchronize = FakeStreamCalls::EventSynchronize;
  driver.event_query = FakeStreamCalls::EventQuery;
}

}  // namespace parkade::shim
