// Asks for attributes and puts them into words.
#include "tests/apps/edge_calls/attribute.h"

#include <cstdio>
#include <cstring>

namespace {

using Kind = Attribute::Kind;

const Attribute kAttributes[] = {
    {"context", CU_POINTER_ATTRIBUTE_CONTEXT, Kind::kContext},
    {"memory_type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Kind::kNumber},
    {"device_pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Kind::kAddress},
    {"host_pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, Kind::kAddress},
    {"p2p_tokens", CU_POINTER_ATTRIBUTE_P2P_TOKENS, Kind::kTokens},
    {"sync_memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, Kind::kNumber},
    {"buffer_id", CU_POINTER_ATTRIBUTE_BUFFER_ID, Kind::kIdentity},
    {"is_managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, Kind::kNumber},
    {"device_ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Kind::kNumber},
    {"is_legacy_cuda_ipc_capable", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, Kind::kNumber},
    {"range_start_addr", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, Kind::kAddress},
    {"range_size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, Kind::kNumber},
    {"mapped", CU_POINTER_ATTRIBUTE_MAPPED, Kind::kNumber},
    {"allowed_handle_types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, Kind::kNumber},
    {"is_gpu_direct_rdma_capable", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, Kind::kNumber},
    {"access_flags", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, Kind::kNumber},
    {"mempool_handle", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, Kind::kIdentity},
    {"mapping_size", CU_POINTER_ATTRIBUTE_MAPPING_SIZE, Kind::kNumber},
    {"mapping_base_addr", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, Kind::kAddress},
    {"memory_block_id", CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, Kind::kIdentity},
    {"is_hw_decompress_capable", CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, Kind::kNumber},
};

std::string ContextName(uint64_t value) {
  if (value == 0) return "null";
  return value == reinterpret_cast<uint64_t>(PrimaryContext()) ? "primary" : "other";
}

}  // namespace

std::span<const Attribute> Attributes() { return kAttributes; }

std::string Describe(const Attribute& attribute, CUdeviceptr at, CUdeviceptr base, bool exact) {
  uint64_t value[4] = {0, 0, 0, 0};  // room for the largest attribute
  const CUresult result = cuPointerGetAttribute(value, attribute.id, at);
  if (result != CUDA_SUCCESS) return Name(result);
  switch (attribute.kind) {
    case Kind::kAddress:
      return From(base, value[0]);
    case Kind::kContext:
      return ContextName(value[0]);
    case Kind::kTokens:
      return "some";
    case Kind::kIdentity:
      if (!exact) return value[0] == 0 ? "none" : "some";
      [[fallthrough]];
    case Kind::kNumber:
      return std::to_string(value[0]);
  }
  return "?";
}

uint64_t ValueOf(CUpointer_attribute attribute, CUdeviceptr at) {
  uint64_t value[4] = {0, 0, 0, 0};
  return cuPointerGetAttribute(value, attribute, at) == CUDA_SUCCESS ? value[0] : 0;
}
