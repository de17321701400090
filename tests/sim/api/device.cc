// cuDevice*: the simulated GPUs and what they say of themselves.
#include <cstdio>
#include <cstring>

#include "tests/sim/device_names.h"
#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

bool Known(CUdevice gpu) { return gpu >= 0 && gpu < Sim().settings.gpus; }

int Attribute(CUdevice_attribute attribute, CUdevice gpu) {
  switch (int(attribute)) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return gpu + 1;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
      return Sim().settings.mps ? 1 : 0;
    default:
      return 0;
  }
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  return Call<"cuDeviceGetCount">([&] {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = Sim().settings.gpus;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Call<"cuDeviceGet">([&] {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice gpu) {
  return Call<"cuDeviceGetName">([&] {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, size_t(length), "%s", kDeviceName);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice gpu) {
  return Call<"cuDeviceGetUuid">([&] {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    // Of the GPU that they are slices of.
    const auto bytes = DeviceUuid(Sim().settings.mig ? kMaxGpus : gpu);
    memcpy(uuid->bytes, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice gpu) {
  return Call<"cuDeviceGetUuid_v2">([&] {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    const auto bytes = DeviceUuid(gpu);
    memcpy(uuid->bytes, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice gpu) {
  return Call<"cuDeviceTotalMem_v2">([&] {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = 0;  // whatever comes
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = Sim().settings.gpu_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice gpu) {
  return Call<"cuDeviceGetAttribute">([&] {
    if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    *value = Attribute(attribute, gpu);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice gpu) {
  return Call<"cuDeviceComputeCapability">([&] {
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice gpu) {
  return Call<"cuDeviceGetPCIBusId">([&] {
    if (id == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, size_t(length), "0000:%02x:00.0", unsigned(gpu + 1));
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* gpu, const char* id) {
  return Call<"cuDeviceGetByPCIBusId">([&] {
    unsigned domain = 0, bus = 0;
    if (gpu == nullptr || id == nullptr || sscanf(id, "%x:%x:", &domain, &bus) != 2)
      return CUDA_ERROR_INVALID_VALUE;
    if (!Known(int(bus) - 1)) return CUDA_ERROR_INVALID_DEVICE;
    *gpu = int(bus) - 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice gpu, CUdevice peer) {
  return Call<"cuDeviceCanAccessPeer">([&] {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Known(gpu) || !Known(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = gpu != peer;
    return CUDA_SUCCESS;
  });
}
