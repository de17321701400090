// Peer access to the heap's memory: what is there already, and what will come.
#include "shim/cuda/scoped_context.h"
#include "shim/heap/heap.h"

namespace parkade::shim {

bool Heap::OpenForCopies(int owner, int user) {
  MutexLock opening(opening_mu_);
  if (ChangePeer(owner, user, DeviceMemory::Peer::kCopies, true) == CUDA_SUCCESS) return true;
  (void)ChangePeer(owner, user, DeviceMemory::Peer::kCopies, false);
  return false;
}

CUresult Heap::SetPeer(int owner, int user, DeviceMemory::Peer why, bool allowed) {
  MutexLock opening(opening_mu_);
  return ChangePeer(owner, user, why, allowed);
}

void Heap::OpenAgain(CUdeviceptr base, Bytes bytes, int device) {
  MutexLock opening(opening_mu_);
  ScopedRelaxedCapture relaxed(driver_);
  memory_.SetAccess(base, bytes, device);
}

CUresult Heap::ChangePeer(int owner, int user, DeviceMemory::Peer why, bool allowed) {
  // First what comes: memory made meanwhile is then either here, or made with it, or opened again
  // by who has made it.
  if (!memory_.SetPeer(owner, user, why, allowed)) return CUDA_SUCCESS;
  struct Span {
    CUdeviceptr base;
    Bytes bytes;
  };
  std::vector<Span> spans;
  {
    MutexLock lock(mu_);
    for (const auto& [base, range] : ranges_) {
      // What is out gets it when it comes back.
      if (range->device == owner && range->state == RangeState::kResident) {
        spans.push_back({base, range->bytes});
      }
    }
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = user;
  access.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  ScopedRelaxedCapture relaxed(driver_);
  CUresult result = CUDA_SUCCESS;
  for (const Span& span : spans) {
    const CUresult r = driver_.mem_set_access(span.base, span.bytes, &access, 1);
    // INVALID_VALUE: freed meanwhile, as native memory might have been.
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE) result = r;
  }
  return result;
}

}  // namespace parkade::shim
