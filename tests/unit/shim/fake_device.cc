// FakeDriver's contexts and devices.
#include <cstring>
#include <utility>

#include "tests/unit/shim/fake_state.h"

namespace parkade::shim {

struct FakeDeviceCalls {
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
};

void FillDeviceCalls(Driver& driver) {
  driver.get_error_name = FakeDeviceCalls::GetErrorName;
  driver.device_get_count = FakeDeviceCalls::DeviceGetCount;
  driver.device_get_attribute = FakeDeviceCalls::DeviceGetAttribute;
  driver.device_get_uuid = FakeDeviceCalls::DeviceGetUuid;
  driver.device_total_mem = FakeDeviceCalls::DeviceTotalMem;
  driver.ctx_get_current = FakeDeviceCalls::CtxGetCurrent;
  driver.ctx_set_current = FakeDeviceCalls::CtxSetCurrent;
  driver.ctx_push_current = FakeDeviceCalls::CtxPushCurrent;
  driver.ctx_pop_current = FakeDeviceCalls::CtxPopCurrent;
  driver.ctx_get_device = FakeDeviceCalls::CtxGetDevice;
  driver.ctx_synchronize = FakeDeviceCalls::CtxSynchronize;
  driver.capture_mode_exchange = FakeDeviceCalls::CaptureModeExchange;
  driver.mem_get_info = FakeDeviceCalls::MemGetInfo;
}

}  // namespace parkade::shim
