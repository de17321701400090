// Copies of memory of one device while another one's context is current. The driver lets native
// memory be copied so, peer access or not; virtual memory it refuses with INVALID_VALUE (580) until
// the current device may use it.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace parkade::shim {

// The device addresses among a copy's arguments.
class CopyEnds {
 public:
  void Add(CUdeviceptr at) {
    if (count_ < 2) at_[count_++] = at;
  }
  void Add(const CUDA_MEMCPY2D* copy) { AddFields(copy); }
  void Add(const CUDA_MEMCPY3D* copy) { AddFields(copy); }
  template <typename Other>
  void Add(Other) {}

  const CUdeviceptr* begin() const { return at_; }
  const CUdeviceptr* end() const { return at_ + count_; }

 private:
  template <typename Copy>
  void AddFields(const Copy* copy) {
    if (copy == nullptr) return;
    if (IsDevice(copy->srcMemoryType)) Add(copy->srcDevice);
    if (IsDevice(copy->dstMemoryType)) Add(copy->dstDevice);
  }
  static bool IsDevice(CUmemorytype type) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
  }

  CUdeviceptr at_[2];
  size_t count_ = 0;
};

// Lets every device with a context that can use the ends' memory use it from now on, and all other
// memory of the heap's on the same device. True: some of it is another device's than one of those,
// so that the copy is worth another try. Application threads, gate entered.
bool OpenToDevices(const void* caller, const CopyEnds& ends);

}  // namespace parkade::shim
