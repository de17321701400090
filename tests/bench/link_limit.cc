// Measures the link.
#include "tests/bench/link_limit.h"

#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/bench/measure.h"

namespace parkade::bench {
namespace {

template <typename Copy>
double BestGbps(size_t bytes, Copy copy) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double begin = Now();
    Check(copy(), "copy");
    Check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
    best = std::max(best, static_cast<double>(bytes) / (Now() - begin) * 1e-9);
  }
  return best;
}

// Memory on both sides of the link.
struct Ends {
  char* host;
  CUdeviceptr device;
  size_t bytes;

  explicit Ends(size_t size) : bytes(size) {
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) Fail("mmap", strerror(errno));
    host = static_cast<char*>(mapped);
    madvise(host, bytes, MADV_HUGEPAGE);
    memset(host, 1, bytes);
    Check(cuMemHostRegister(host, bytes, 0), "cuMemHostRegister");
    Check(cuMemAlloc(&device, bytes), "cuMemAlloc");
  }
  ~Ends() {
    cuMemFree(device);
    cuMemHostUnregister(host);
    munmap(host, bytes);
  }
};

// Queues everything and waits for the end: what is lost is lost between the chunks.
CUresult CopyInChunks(const Ends& ends, bool out, size_t chunk, CUstream* streams, int count,
                      CUevent event) {
  int turn = 0;
  for (size_t at = 0; at < ends.bytes; at += chunk, ++turn) {
    const CUstream stream = streams[turn % count];
    const size_t part = std::min(chunk, ends.bytes - at);
    Check(out ? cuMemcpyDtoHAsync(ends.host + at, ends.device + at, part, stream)
              : cuMemcpyHtoDAsync(ends.device + at, ends.host + at, part, stream),
          "copy");
    Check(cuEventRecord(event, stream), "cuEventRecord");
  }
  for (int i = 0; i < count; ++i) Check(cuStreamSynchronize(streams[i]), "cuStreamSynchronize");
  return CUDA_SUCCESS;
}

}  // namespace

void PrintChunkedLink(size_t bytes) {
  const Ends ends(bytes);
  CUstream streams[2];
  CUevent event;
  for (CUstream& s : streams) {
    Check(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  Check(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  for (const bool out : {true, false}) {
    for (const size_t mib : {4, 16, 32, 64, 128, 512}) {
      for (const int count : {1, 2}) {
        printf("chunks_%s_%zu_%d %.2f\n", out ? "out" : "in", mib, count, BestGbps(bytes, [&] {
                 return CopyInChunks(ends, out, mib << 20, streams, count, event);
               }));
      }
    }
  }
}

void ServeLink(size_t bytes) {
  if (bytes == 0) Fail("link", "BYTES must be more than 0");
  const Ends out(bytes), in(bytes);
  CUstream streams[2];
  for (CUstream& s : streams) {
    Check(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  for (char line[32]; fgets(line, sizeof line, stdin) != nullptr;) {
    const bool both = strcmp(line, "both\n") == 0;
    const bool goes_out = both || strcmp(line, "out\n") == 0;
    const bool comes_in = both || strcmp(line, "in\n") == 0;
    if (!goes_out && !comes_in) Fail(line, "is none of out, in, both");
    const double begin = Now();
    if (goes_out) Check(cuMemcpyDtoHAsync(out.host, out.device, bytes, streams[0]), "copy out");
    if (comes_in) Check(cuMemcpyHtoDAsync(in.device, in.host, bytes, streams[1]), "copy in");
    for (const CUstream stream : streams) Check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    Answer(double(both ? 2 * bytes : bytes) / (Now() - begin) * 1e-9);
  }
}

}  // namespace parkade::bench
