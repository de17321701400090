// Maps and touches the pool's memory.
#include "shim/pause/host_slice.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace parkade::shim {
namespace {

constexpr Bytes kHugePage = 2_MiB;
constexpr int kPreferred = 1;     // MPOL_PREFERRED of numaif.h, which libnuma brings
constexpr int kMostNodes = 1024;  // of which a kernel of today may have

}  // namespace

Result<char*> MapPages(Bytes bytes) {
  void* mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    Error e = OsError(errno, "mapping %llu MiB of host memory", (unsigned long long)bytes >> 20);
    e.code = Code::kResourceExhausted;
    e.reason = e.os_errno == EAGAIN ? "MEMLOCK" : "HOST_MEMORY";
    return e;
  }
  char* begin = static_cast<char*>(mapped);
  char* memory = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePage));
  const Bytes before = Bytes(memory - begin);
  if (before != 0) munmap(begin, before);
  if (before != kHugePage) munmap(memory + bytes, kHugePage - before);

  madvise(memory, bytes, MADV_HUGEPAGE);  // refused where huge pages are off: slower, not wrong
  madvise(memory, bytes, MADV_DONTFORK);
  return memory;
}

void UnmapPages(char* memory, Bytes bytes) { munmap(memory, bytes); }

Result<void> PreferNode(char* memory, Bytes bytes, int node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[kMostNodes / kBits] = {};
  if (node < 0 || node >= kMostNodes) {
    return OsError(EINVAL, "preferring memory of node %d", node);
  }
  nodes[node / kBits] = 1ul << (node % kBits);
  // One more than there are bits: the kernel takes the last one away.
  if (syscall(SYS_mbind, memory, bytes, kPreferred, nodes, kMostNodes + 1, 0) == 0) return {};
  return OsError(errno, "preferring memory of node %d", node);
}

void TouchPages(char* memory, Bytes bytes) {
  for (Bytes at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 0;
}

unsigned UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return unsigned(CPU_COUNT(&cores));
}

}  // namespace parkade::shim
