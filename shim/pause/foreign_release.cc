// Trims pools and graph memory, and prefetches managed memory to the host in parts.
#include "shim/pause/foreign_release.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "common/fd.h"
#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

// Asking for room again after each of these keeps a move to a full host from going far.
constexpr Bytes kPart = 256_MiB;
// What is left to everybody else on the host, whatever its size.
constexpr Bytes kReserve = 1_GiB;

size_t ReadSmallFile(const char* path, char* out, size_t size) {
  Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  const ssize_t n = read(fd.get(), out, size - 1);
  return n > 0 ? size_t(n) : 0;
}

// The number in a file that holds nothing else; `otherwise` when there is none ("max").
Bytes ReadNumber(const char* path, Bytes otherwise) {
  char text[64];
  const size_t n = ReadSmallFile(path, text, sizeof text);
  Bytes number = 0;
  const auto read = std::from_chars(text, text + n, number);
  return read.ec == std::errc() ? number : otherwise;
}

Bytes MemAvailable() {
  char text[4096];
  const std::string_view all(text, ReadSmallFile("/proc/meminfo", text, sizeof text));
  constexpr std::string_view kName = "MemAvailable:";
  const size_t at = all.find(kName);
  if (at == all.npos) return 0;
  const size_t digits = all.find_first_not_of(' ', at + kName.size());
  Bytes kib = 0;
  if (digits == all.npos) return 0;
  std::from_chars(all.data() + digits, all.data() + all.size(), kib);
  return kib << 10;
}

}  // namespace

Bytes HostRoomNow() {
  // In a container its own group is what the root of the file system shows.
  const Bytes limit = ReadNumber("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const Bytes used = ReadNumber("/sys/fs/cgroup/memory.current", 0);
  const Bytes room = std::min(MemAvailable(), limit > used ? limit - used : 0);
  return room > kReserve ? room - kReserve : 0;
}

ForeignRelease::ForeignRelease(const Driver& driver, const Contexts& contexts, Foreign& foreign,
                               LedgerWriter& ledger, HostRoom room)
    : driver_(driver), contexts_(contexts), foreign_(foreign), ledger_(ledger), room_(room) {}

void ForeignRelease::Run(const std::atomic<bool>& cancel) {
  ScopedRelaxedCapture relaxed(driver_);
  Warn(foreign_.TrimPools(), "trimming stream-ordered pools");
  std::set<int> devices;
  for (const Contexts::Entry& entry : contexts_.List()) devices.insert(entry.device);
  for (const int device : devices) {
    Warn(foreign_.TrimGraphs(device), "trimming the memory of graphs");
  }
  MoveManaged(cancel);
}

void ForeignRelease::MoveManaged(const std::atomic<bool>& cancel) {
  for (const Foreign::Managed& managed : foreign_.ListManaged()) {
    if (cancel.load(std::memory_order_acquire)) return;
    if (MoveOne(managed, cancel)) continue;
    ledger_.AddWarning(
        "managed memory was not all moved to the host by a pause: part of it may still be in HBM");
  }
}

bool ForeignRelease::MoveOne(const Foreign::Managed& managed, const std::atomic<bool>& cancel) {
  int concurrent = 0;
  ScopedContext current(driver_, managed.context);
  CUdevice device = 0;
  CUstream stream = nullptr;
  // Without concurrent access the driver moves managed memory as a whole, at each launch.
  if (current.status() != CUDA_SUCCESS || driver_.mem_prefetch_async == nullptr ||
      driver_.ctx_get_device(&device) != CUDA_SUCCESS ||
      driver_.device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                   device) != CUDA_SUCCESS ||
      concurrent == 0 || driver_.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    return false;
  }
  CUmemLocation host{};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  CUresult r = CUDA_SUCCESS;
  Bytes at = 0;
  while (at < managed.bytes && !cancel.load(std::memory_order_acquire)) {
    const Bytes part = std::min(kPart, managed.bytes - at);
    // A prefetch that finds no room on the host would push others out, or have the kernel kill.
    if (room_() < part) break;
    r = driver_.mem_prefetch_async(managed.base + at, part, host, 0, stream);
    if (r == CUDA_SUCCESS) r = driver_.stream_synchronize(stream);
    if (r != CUDA_SUCCESS) break;
    at += part;
  }
  driver_.stream_destroy(stream);
  Warn(r, "moving managed memory to the host");
  return at == managed.bytes;
}

void ForeignRelease::Warn(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) ledger_.AddWarning(CudaError(driver_, result, "%s", what).what);
}

}  // namespace parkade::shim
