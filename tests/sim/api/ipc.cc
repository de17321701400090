// Legacy IPC of native memory, and descriptors of address ranges. Memory of cuMemCreate has no IPC
// handle, as on a card.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "tests/sim/driver.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// What is in the 64 bytes of a CUipcMemHandle. The exporter's descriptor is reached through /proc,
// which the same user may do.
struct Token {
  char magic[8];
  int32_t pid;
  int32_t fd;
  uint64_t inode;
};
static_assert(sizeof(Token) <= sizeof(CUipcMemHandle));
constexpr char kMagic[8] = {'S', 'I', 'M', 'I', 'P', 'C', '0', '1'};

// Memory opened here, by its inode: a second open gives the same address.
struct Opened {
  Address base = 0;
  int users = 0;
};
Mutex opened_mutex;
std::map<uint64_t, Opened>& AllOpened() {
  static auto* const opened = new std::map<uint64_t, Opened>;
  return *opened;
}

CUresult OpenToken(Context& context, const Token& token, Address* base) {
  if (memcmp(token.magic, kMagic, sizeof kMagic) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (token.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  MutexLock lock(opened_mutex);
  Opened& opened = AllOpened()[token.inode];
  if (opened.users == 0) {
    const std::string path =
        "/proc/" + std::to_string(token.pid) + "/fd/" + std::to_string(token.fd);
    const Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    Range range;
    range.kind = RangeKind::kImported;
    range.context = context.handle;
    if (!fd) return CUDA_ERROR_INVALID_VALUE;
    if (Physical::Import(Sim().account, fd.get(), &range.memory) != CUDA_SUCCESS ||
        range.memory->inode() != token.inode)
      return CUDA_ERROR_INVALID_VALUE;
    range.gpu = range.memory->gpu();
    range.bytes = range.memory->bytes();
    if (auto r = Sim().addresses.Place(std::move(range), &opened.base); r != CUDA_SUCCESS) return r;
  }
  ++opened.users;
  *base = opened.base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr at) {
  return CallIn<"cuIpcGetMemHandle">([&](Context&) {
    const auto found = Sim().addresses.Find(at);
    if (handle == nullptr || !found || found->range.kind != RangeKind::kNative ||
        found->range.pool != nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    Physical& memory = *found->range.memory;
    const Fd shared(memory.Export());  // counted as shared from here on
    if (!shared) return CUDA_ERROR_OPERATING_SYSTEM;
    Token token = {};
    memcpy(token.magic, kMagic, sizeof kMagic);
    token.pid = getpid();
    token.fd = memory.fd();
    token.inode = memory.inode();
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &token, sizeof token);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return CallIn<"cuIpcOpenMemHandle_v2">([&](Context& context) {
    if (out == nullptr || (flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    Token token;
    memcpy(&token, &handle, sizeof token);
    Address base = 0;
    const CUresult result = OpenToken(context, token, &base);
    if (result == CUDA_SUCCESS) *out = base;
    return result;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr base) {
  return CallIn<"cuIpcCloseMemHandle">([&](Context& context) {
    if (auto r = Sim().captures.RefuseUnsafe(); r != CUDA_SUCCESS) return r;
    bool known = false, last = false;
    {
      MutexLock lock(opened_mutex);
      for (auto& [inode, opened] : AllOpened()) {
        if (opened.users == 0 || opened.base != base) continue;
        known = true;
        last = --opened.users == 0;
      }
    }
    if (!last) return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const CUresult result = context.Drain();
    Sim().addresses.Remove(base, RangeKind::kImported);
    return result;
  });
}

// A descriptor that keeps the memory, as a dma-buf does; nothing can be imported from it.
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr at, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  return CallIn<"cuMemGetHandleForAddressRange">([&](Context&) {
    // Addresses and lengths are of whole host pages, as cuda.h says.
    if (out == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || bytes == 0 ||
        at % 4_KiB != 0 || bytes % 4_KiB != 0 || at == 0 || at + bytes < at ||
        (flags & ~uint64_t(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    AddressSpace& addresses = Sim().addresses;
    const auto found = addresses.Find(at);
    // The last page of the GPU counts whole.
    const Bytes left =
        found ? found->range.base + RoundUp(found->range.bytes, kGranularity) - at : 0;
    if (!found || bytes > left ||
        (found->mapping && addresses.Check(at, bytes, false) != AddressSpace::Touch::kFine)) {
      *static_cast<int*>(out) = -1;
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto& memory = found->mapping ? found->mapping->memory : found->range.memory;
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const int fd = memory->Export();
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
  });
}
