// PointerAnswers: what the driver says of an address, kept for the time in which it knows nothing
// there.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "shim/cuda/driver.h"

namespace parkade::shim {

class PointerAnswers {
 public:
  struct Answer {
    CUresult result;
    uint8_t width;  // bytes that the driver writes
    unsigned char value[8];
  };

  // Asks for every attribute that is the same for all addresses of a mapping. Wants a context that
  // is current; blocks on nothing.
  PointerAnswers(const Driver& driver, CUdeviceptr at);

  // Nothing for attributes that differ from address to address, or that it does not know.
  std::optional<Answer> Find(CUpointer_attribute attribute) const;

 private:
  static constexpr CUpointer_attribute kAttributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT,
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_MAPPED,
      CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
      CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
      CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
      CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
      CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
      CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
      CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
  };
  std::array<Answer, std::size(kAttributes)> answers_;
};

}  // namespace parkade::shim
