// PointerAnswers: what the driver says of an address, kept for the time in which it knows nothing
// there.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <iterator>
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
  // Width 0: the header does not say how many bytes a boolean has.
  struct Question {
    CUpointer_attribute attribute;
    uint8_t width;
  };
  static constexpr Question kQuestions[] = {
      {CU_POINTER_ATTRIBUTE_CONTEXT, 8},
      {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4},
      {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0},
      {CU_POINTER_ATTRIBUTE_IS_MANAGED, 0},
      {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 4},
      {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 0},
      {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 8},
      {CU_POINTER_ATTRIBUTE_RANGE_SIZE, 8},
      {CU_POINTER_ATTRIBUTE_MAPPED, 0},
      {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 8},
      {CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 0},
      {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4},
      {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 8},
      {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 8},
      {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 8},
      {CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, 0},
  };
  std::array<Answer, std::size(kQuestions)> answers_;
};

}  // namespace parkade::shim
