// Reserves, creates, maps and undoes, in the order that the driver needs.
#include "shim/heap/device_memory.h"

#include <algorithm>

#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

CUmemAllocationProp Properties(int device, bool posix_fd, bool rdma) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  if (posix_fd) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.allocFlags.gpuDirectRDMACapable = rdma;
  return prop;
}

// Whether the driver refused the kind of handle rather than the memory.
bool Refused(CUresult r) {
  return r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_NOT_PERMITTED ||
         r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

DeviceMemory::DeviceMemory(const Driver& driver, bool rdma) : driver_(driver), rdma_(rdma) {}

CUresult DeviceMemory::Describe(int device, Device* out) {
  {
    MutexLock lock(mu_);
    if (const auto it = devices_.find(device); it != devices_.end()) {
      *out = it->second;
      return CUDA_SUCCESS;
    }
  }
  // An attribute that an older driver does not know is one that the device does not have.
  auto has = [&](CUdevice_attribute attribute) {
    int value = 0;
    return driver_.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
  };
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Device found{};
  found.posix_fd = has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  found.rdma = rdma_ && has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  found.rdma_memory = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  found.decompressor = has(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK);
  const CUmemAllocationProp prop = Properties(device, found.posix_fd, found.rdma);
  size_t granularity = 0, total = 0;
  CUresult r =
      driver_.mem_get_allocation_granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (r != CUDA_SUCCESS) return r;
  if (r = driver_.device_total_mem(&total, device); r != CUDA_SUCCESS) return r;
  CUuuid uuid{};
  if (r = driver_.device_get_uuid(&uuid, device); r != CUDA_SUCCESS) return r;
  std::copy_n(reinterpret_cast<const unsigned char*>(uuid.bytes), sizeof found.uuid, found.uuid);
  found.granularity = granularity;
  found.total = total;
  MutexLock lock(mu_);
  *out = devices_.emplace(device, found).first->second;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::Create(int device, Bytes bytes, CUmemGenericAllocationHandle* out) {
  Device d;
  if (auto r = Describe(device, &d); r != CUDA_SUCCESS) return r;
  // Containers and MIG slices refuse kinds of handles that the attributes promise.
  for (;;) {
    const CUmemAllocationProp prop = Properties(device, d.posix_fd, d.rdma);
    const CUresult r = driver_.mem_create(out, bytes, &prop, 0);
    if (r == CUDA_SUCCESS) Remember(device, d.posix_fd, d.rdma);
    if (!Refused(r) || (!d.posix_fd && !d.rdma)) return r;
    if (d.rdma) {
      d.rdma = false;
    } else {
      d.posix_fd = false;
    }
  }
}

void DeviceMemory::Remember(int device, bool posix_fd, bool rdma) {
  MutexLock lock(mu_);
  Device& d = devices_[device];
  d.posix_fd = posix_fd;
  d.rdma = rdma;
}

bool DeviceMemory::SetPeer(int owner, int user, Peer why, bool allowed) {
  MutexLock lock(mu_);
  uint8_t& reasons = peers_[{owner, user}];
  const bool before = reasons != 0;
  reasons = uint8_t(allowed ? reasons | uint8_t(why) : reasons & ~uint8_t(why));
  if (before == (reasons != 0)) return false;
  peer_changes_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

bool DeviceMemory::MayUse(int owner, int user) {
  MutexLock lock(mu_);
  const auto found = peers_.find({owner, user});
  return found != peers_.end() && found->second != 0;
}

CUresult DeviceMemory::SetAccess(CUdeviceptr at, Bytes bytes, int device) {
  std::vector<int> users{device};
  {
    MutexLock lock(mu_);
    for (const auto& [pair, reasons] : peers_) {
      if (pair.first == device && reasons != 0) users.push_back(pair.second);
    }
  }
  std::vector<CUmemAccessDesc> access;
  for (const int user : users) {
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {user}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  return driver_.mem_set_access(at, bytes, access.data(), access.size());
}

CUresult DeviceMemory::SetAccess(const Range& range) {
  if (range.adopted == nullptr) return SetAccess(range.base, range.bytes, range.device);
  for (const Mapping& mapping : range.adopted->mappings) {
    if (mapping.access.empty()) continue;
    const CUresult r = driver_.mem_set_access(mapping.at, range.bytes, mapping.access.data(),
                                              mapping.access.size());
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::SetAccess(const Range& range, const Piece& piece) {
  if (range.adopted != nullptr) return SetAccess(range);
  return SetAccess(range.base + piece.offset, piece.bytes, range.device);
}

CUresult DeviceMemory::CreateAgain(const Range& range, Bytes bytes,
                                   CUmemGenericAllocationHandle* out) {
  if (range.adopted == nullptr) return Create(range.device, bytes, out);
  return driver_.mem_create(out, bytes, &range.adopted->prop, range.adopted->flags);
}

std::vector<CUdeviceptr> DeviceMemory::PlacesOf(const Range& range, const Piece& piece) {
  if (range.adopted == nullptr) return {range.base + piece.offset};
  std::vector<CUdeviceptr> places;
  for (const Mapping& mapping : range.adopted->mappings) places.push_back(mapping.at);
  return places;
}

CUresult DeviceMemory::MapAt(const Range& range, const Piece& piece,
                             CUmemGenericAllocationHandle handle, size_t count) {
  const auto places = PlacesOf(range, piece);
  for (size_t i = 0; i < std::min(count, places.size()); ++i) {
    const CUresult r = driver_.mem_map(places[i], piece.bytes, 0, handle, 0);
    if (r == CUDA_SUCCESS) continue;
    while (i > 0) driver_.mem_unmap(places[--i], piece.bytes);
    return r;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::Unmap(const Range& range, const Piece& piece, size_t* count) {
  *count = 0;
  for (const CUdeviceptr at : PlacesOf(range, piece)) {
    if (auto r = driver_.mem_unmap(at, piece.bytes); r != CUDA_SUCCESS) return r;
    ++*count;
  }
  return CUDA_SUCCESS;
}

void DeviceMemory::UnmapAll(const Range& range, const Piece& piece) {
  for (const CUdeviceptr at : PlacesOf(range, piece)) driver_.mem_unmap(at, piece.bytes);
}

CUresult DeviceMemory::Build(Range& range) {
  ScopedRelaxedCapture relaxed(driver_);
  CUresult r = driver_.mem_address_reserve(&range.base, range.bytes, 0, 0, 0);
  if (r != CUDA_SUCCESS) {
    range.base = 0;
    return r;
  }
  r = MapPieces(range);                         // undo: UnmapPieces
  if (r == CUDA_SUCCESS) r = SetAccess(range);  // ends with the mappings
  if (r != CUDA_SUCCESS) Destroy(range);
  return r;
}

CUresult DeviceMemory::MapPieces(Range& range) {
  for (Bytes at = 0; at < range.bytes; at += range.pieces.back().bytes) {
    Piece piece{at, std::min(range.bytes - at, kMaxPiece), 0};
    CUresult r = Create(range.device, piece.bytes, &piece.handle);
    if (r != CUDA_SUCCESS) return r;
    r = driver_.mem_map(range.base + at, piece.bytes, 0, piece.handle, 0);
    if (r != CUDA_SUCCESS) {
      driver_.mem_release(piece.handle);
      return r;
    }
    range.pieces.push_back(piece);
  }
  return CUDA_SUCCESS;
}

void DeviceMemory::Destroy(Range& range) {
  ScopedRelaxedCapture relaxed(driver_);
  UnmapPieces(range);
  driver_.mem_address_free(range.base, range.bytes);
  range.base = 0;
}

void DeviceMemory::UnmapPieces(Range& range) {
  for (const Piece& piece : range.pieces) {
    if (piece.handle == 0) continue;
    driver_.mem_unmap(range.base + piece.offset, piece.bytes);
    driver_.mem_release(piece.handle);
  }
  range.pieces.clear();
}

}  // namespace parkade::shim
