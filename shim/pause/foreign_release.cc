// Trims pools and graph memory, and prefetches managed memory to the host in parts.
#include "shim/pause/foreign_release.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>
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

// The numbers behind the given words in a file of one such pair a line, added up.
Bytes ReadTable(const char* path, std::initializer_list<std::string_view> names) {
  char text[8192];
  const std::string_view all(text, ReadSmallFile(path, text, sizeof text));
  Bytes sum = 0;
  for (const std::string_view name : names) {
    const size_t at = all.find(name);
    const size_t digits = at == all.npos ? at : all.find_first_not_of(' ', at + name.size());
    Bytes number = 0;
    if (digits == all.npos) continue;
    std::from_chars(all.data() + digits, all.data() + all.size(), number);
    sum += number;
  }
  return sum;
}

}  // namespace

Bytes HostRoomNow() {
  // In a container its own group is what the root of the file system shows.
  const Bytes limit = ReadNumber("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const Bytes current = ReadNumber("/sys/fs/cgroup/memory.current", 0);
  // Pages of files go when somebody needs the memory.
  const Bytes files =
      ReadTable("/sys/fs/cgroup/memory.stat", {"\ninactive_file ", "\nactive_file "});
  const Bytes used = current - std::min(current, files);
  const Bytes available = ReadTable("/proc/meminfo", {"\nMemAvailable:"}) << 10;
  const Bytes room = std::min(available, limit > used ? limit - used : 0);
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
