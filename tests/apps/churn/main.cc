// churn: a CUDA driver program that allocates and frees at random, and checks every byte of what it
// holds. Knows nothing of Parkade. Does one thing for each line of its input, and answers it:
//
//   allocate N   N more buffers of random sizes; their bytes are written by the next step
//   free N       frees N at random, or all when there are fewer
//   step         checks every byte of every buffer and makes the next ones
#include <cuda.h>
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "tests/apps/stepper/pattern.h"

namespace {

constexpr uint64_t kLargest = 512 << 10;
// Above what shares a slab: such a buffer has an address range of its own.
constexpr uint64_t kOwnRange = 33 << 20;
constexpr uint64_t kOneInSoManyIsLarge = 500;

enum ExitCode { kWrongBytes = 1, kCudaFailed = 2, kUsage = 64 };

void Must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown error";
  cuGetErrorName(result, &name);
  fprintf(stderr, "churn: %s: %s (%d)\n", call, name, result);
  exit(kCudaFailed);
}

class Churn {
 public:
  explicit Churn(uint64_t seed) : random_(seed) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    Must(cuInit(0), "cuInit");
    Must(cuDeviceGet(&device, 0), "cuDeviceGet");
    Must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    Must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    Must(cuModuleLoadData(&module, kAddWordsPtx), "cuModuleLoadData");
    Must(cuModuleGetFunction(&add_words_, module, "add_words"), "add_words");
    Must(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  size_t buffers() const { return buffers_.size(); }

  void Allocate(uint64_t count) {
    for (; count > 0; --count) {
      Buffer b{0, {Advance(random_() % 3), random_(), RandomSize()}, 0, false};
      Must(cuMemAlloc(&b.base, b.pattern.length), "cuMemAlloc");
      buffers_.push_back(b);
    }
  }

  void Free(uint64_t count) {
    for (; count > 0 && !buffers_.empty(); --count) {
      std::swap(buffers_[random_() % buffers_.size()], buffers_.back());
      Must(cuMemFree(buffers_.back().base), "cuMemFree");
      buffers_.pop_back();
    }
  }

  // False, and the reason on stderr, at the first wrong byte.
  bool Step() {
    for (Buffer& b : buffers_) {
      if (b.written && !IsRight(b)) return false;
      b.step += b.written ? 1 : 0;
      Write(b);
    }
    return true;
  }

 private:
  struct Buffer {
    CUdeviceptr base;
    Pattern pattern;
    uint64_t step;
    bool written;
  };

  // As many small as large ones by order of magnitude.
  uint64_t RandomSize() {
    if (random_() % kOneInSoManyIsLarge == 0) return kOwnRange + random_() % kLargest;
    const uint64_t scale = kLargest >> random_() % 20;
    return random_() % scale + 1;
  }

  bool IsRight(const Buffer& b) {
    expected_.resize(b.pattern.length);
    found_.resize(b.pattern.length);
    b.pattern.Fill(b.step, 0, expected_.data(), b.pattern.length);
    Must(cuMemcpyDtoHAsync(found_.data(), b.base, b.pattern.length, stream_), "cuMemcpyDtoHAsync");
    Must(cuStreamSynchronize(stream_), "cuStreamSynchronize");
    if (memcmp(expected_.data(), found_.data(), b.pattern.length) == 0) return true;
    const auto wrong = std::mismatch(expected_.begin(), expected_.end(), found_.begin()).first;
    fprintf(stderr, "churn: buffer of %" PRIu64 " bytes at 0x%llx: byte %td is wrong\n",
            b.pattern.length, b.base, wrong - expected_.begin());
    return false;
  }

  // Brings the buffer from its step before to `step`, each kind in its own way.
  void Write(Buffer& b) {
    const uint64_t length = b.pattern.length;
    if (b.written && b.pattern.advance == Advance::kKernel) {
      CUdeviceptr base = b.base;
      uint64_t words = length / 4;
      uint32_t delta = kKernelDelta;
      void* parameters[] = {&base, &words, &delta};
      Must(cuLaunchKernel(add_words_, 64, 1, 1, 256, 1, 1, 0, stream_, parameters, nullptr),
           "cuLaunchKernel");
    } else if (b.pattern.advance == Advance::kMemset) {
      Must(cuMemsetD8Async(b.base, b.pattern.MemsetByte(b.step), length, stream_),
           "cuMemsetD8Async");
    } else {
      expected_.resize(length);
      b.pattern.Fill(b.step, 0, expected_.data(), length);
      Must(cuMemcpyHtoDAsync(b.base, expected_.data(), length, stream_), "cuMemcpyHtoDAsync");
      Must(cuStreamSynchronize(stream_), "cuStreamSynchronize");
    }
    b.written = true;
  }

  std::mt19937_64 random_;
  CUstream stream_;
  CUfunction add_words_;
  std::vector<Buffer> buffers_;
  // As large and as much in use as they ever will be: whoever watches what this program holds is
  // not to see it grow.
  std::vector<uint8_t> expected_ = std::vector<uint8_t>(kOwnRange + kLargest);
  std::vector<uint8_t> found_ = expected_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("usage: churn SEED\n", stderr);
    return kUsage;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Churn churn(strtoull(argv[1], nullptr, 10));
  printf("churn pid %d ready: 0 buffers, 0 bytes\n", getpid());
  char verb[16];
  uint64_t count;
  for (char line[64]; fgets(line, sizeof line, stdin) != nullptr;) {
    count = 0;
    if (sscanf(line, "%15s %" SCNu64, verb, &count) < 1) return kUsage;
    if (strcmp(verb, "allocate") == 0) churn.Allocate(count);
    if (strcmp(verb, "free") == 0) churn.Free(count);
    if (strcmp(verb, "step") == 0 && !churn.Step()) return kWrongBytes;
    printf("%s ok buffers=%zu\n", verb, churn.buffers());
  }
}
