// verifier: a CUDA driver program whose bytes are made and checked by kernels, so that gigabytes
// take milliseconds on a card. Knows nothing of Parkade. Speaks as stepper does: an empty line of
// input is a step, which checks every word and makes the next ones; `change PERCENT` has later
// steps make new words in so many of the buffers alone, the same ones each time; `spin MS` starts a
// kernel of that length on each of two non-blocking streams.
#include <cuda.h>
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/bytes.h"
#include "tests/apps/verifier/kernels.h"

namespace {

enum ExitCode { kWrongBytes = 1, kCudaFailed = 2, kUsage = 64 };

void Must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown error";
  cuGetErrorName(result, &name);
  fprintf(stderr, "verifier: %s: %s (%d)\n", call, name, result);
  exit(kCudaFailed);
}

class Verifier {
 public:
  // Allocates so many buffers of `bytes` each on GPU `ordinal`, and makes the words of step 0.
  Verifier(int ordinal, size_t buffers, uint64_t bytes) : words_(bytes / 4) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    Must(cuInit(0), "cuInit");
    Must(cuDeviceGet(&device, ordinal), "cuDeviceGet");
    Must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    Must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    Must(cuModuleLoadData(&module, kVerifierPtx), "cuModuleLoadData");
    Must(cuModuleGetFunction(&fill_, module, "fill_words"), "fill_words");
    Must(cuModuleGetFunction(&verify_, module, "verify_words"), "verify_words");
    Must(cuModuleGetFunction(&spin_, module, "spin_ms"), "spin_ms");
    for (CUstream& stream : streams_) {
      Must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }
    Must(cuMemAlloc(&mismatches_, sizeof(uint64_t)), "cuMemAlloc");
    buffers_.resize(buffers);
    steps_.resize(buffers);
    for (CUdeviceptr& at : buffers_) Must(cuMemAlloc(&at, bytes), "cuMemAlloc");
    Fill(100);
  }

  uint64_t bytes() const { return buffers_.size() * words_ * 4; }

  // Checks all words, then makes new ones in `percent` of the buffers. Returns how many were wrong.
  uint64_t Step(unsigned percent) {
    Must(cuMemsetD8Async(mismatches_, 0, sizeof(uint64_t), streams_[0]), "cuMemsetD8Async");
    for (size_t i = 0; i < buffers_.size(); ++i) {
      CUdeviceptr at = buffers_[i];
      uint64_t words = words_;
      uint32_t seed = Seed(i);
      void* parameters[] = {&at, &words, &seed, &mismatches_};
      Launch(verify_, Blocks(), 256, streams_[0], parameters);
    }
    uint64_t wrong = 0;
    Must(cuMemcpyDtoHAsync(&wrong, mismatches_, sizeof wrong, streams_[0]), "cuMemcpyDtoHAsync");
    Must(cuStreamSynchronize(streams_[0]), "cuStreamSynchronize");
    if (wrong == 0) Fill(percent);
    return wrong;
  }

  // Starts kernels of that length on both streams, and does not wait for them.
  void Spin(uint32_t ms) {
    void* parameters[] = {&ms};
    for (CUstream stream : streams_) Launch(spin_, 1, 1, stream, parameters);
  }

 private:
  uint32_t Seed(size_t buffer) const {
    return static_cast<uint32_t>(buffer * 0x01000193 + steps_[buffer] * 0x9e3779b1);
  }

  unsigned Blocks() const {
    return static_cast<unsigned>(std::min<uint64_t>(words_ / 256 + 1, 4096));
  }

  void Fill(unsigned percent) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (i * percent / 100 == (i + 1) * percent / 100) continue;
      ++steps_[i];
      CUdeviceptr at = buffers_[i];
      uint64_t words = words_;
      uint32_t seed = Seed(i);
      void* parameters[] = {&at, &words, &seed};
      Launch(fill_, Blocks(), 256, streams_[0], parameters);
    }
    Must(cuStreamSynchronize(streams_[0]), "cuStreamSynchronize");
  }

  static void Launch(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream,
                     void** parameters) {
    Must(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
         "cuLaunchKernel");
  }

  const uint64_t words_;
  CUfunction fill_, verify_, spin_;
  CUstream streams_[2];
  CUdeviceptr mismatches_;
  std::vector<CUdeviceptr> buffers_;
  std::vector<uint64_t> steps_;  // how often each buffer got new words
};

struct Options {
  int device = 0;
  size_t buffers = 4;
  uint64_t bytes = 4 << 20;
};

bool ReadOptions(int argc, char** argv, Options* options) {
  static const option kLong[] = {{"device", required_argument, nullptr, 'd'},
                                 {"buffers", required_argument, nullptr, 'n'},
                                 {"bytes", required_argument, nullptr, 'b'},
                                 {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argc, argv, "", kLong, nullptr)) != -1;) {
    if (c == 'b') {
      const auto size = parkade::ParseBytes(optarg);
      if (!size.ok()) return false;
      options->bytes = *size;
    } else if (c == 'd') {
      char* end = nullptr;
      options->device = static_cast<int>(strtoul(optarg, &end, 10));
      if (end == optarg || *end != '\0') return false;
    } else if (c == 'n') {
      char* end = nullptr;
      options->buffers = strtoull(optarg, &end, 10);
      if (*end != '\0' || options->buffers == 0) return false;
    } else {
      return false;
    }
  }
  return optind == argc;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ReadOptions(argc, argv, &options)) {
    fputs("usage: verifier [--device N] [--buffers N] [--bytes SIZE]\n", stderr);
    return kUsage;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Verifier verifier(options.device, options.buffers, options.bytes);
  printf("verifier pid %d ready: %zu buffers, %" PRIu64 " bytes\n", getpid(), options.buffers,
         verifier.bytes());
  uint64_t step = 0;
  unsigned percent = 100;
  for (char line[64]; fgets(line, sizeof line, stdin) != nullptr;) {
    if (strncmp(line, "spin ", 5) == 0) {
      verifier.Spin(static_cast<uint32_t>(strtoul(line + 5, nullptr, 10)));
      puts("spinning");
      continue;
    }
    if (strncmp(line, "change ", 7) == 0) {
      percent = static_cast<unsigned>(std::min(strtoul(line + 7, nullptr, 10), 100ul));
      continue;
    }
    if (const uint64_t wrong = verifier.Step(percent); wrong != 0) {
      fprintf(stderr, "verifier: step %" PRIu64 ": %" PRIu64 " wrong words\n", step, wrong);
      return kWrongBytes;
    }
    printf("step %" PRIu64 " ok bytes=%" PRIu64 "\n", step, verifier.bytes());
    ++step;
  }
  printf("done after %" PRIu64 " steps, every byte right\n", step);
}
