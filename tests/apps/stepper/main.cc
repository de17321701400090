// stepper: an ordinary CUDA driver program that knows nothing of Parkade. It keeps buffers of given
// sizes on the GPU; each step verifies every byte of them and advances them to the next pattern. It
// prints one line a step and ends with an error at the first wrong byte.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/apps/stepper/driver.h"
#include "tests/apps/stepper/options.h"
#include "tests/apps/stepper/pattern.h"

namespace {

constexpr size_t kChunk = 16 << 20;

volatile sig_atomic_t stop_asked = 0;

// A step's failure has been printed; the program ends with this exit code.
enum Outcome { kOk = 0, kWrongBytes = 1, kCudaFailed = 2 };

class Stepper {
 public:
  Stepper(const Driver& driver, const Options& options) : driver_(driver), options_(options) {}

  // Allocates the buffers and writes their patterns of step 0.
  Outcome Start();

  // Verifies the patterns of `step` and advances them to `step + 1`.
  Outcome Step(uint64_t step);

  uint64_t bytes() const { return bytes_; }

 private:
  struct Buffer {
    CUdeviceptr base;
    Pattern pattern;
  };

  Outcome OpenDevice();
  Outcome WriteAll(const Buffer& b, uint64_t step);
  Outcome Verify(size_t index, uint64_t step);
  Outcome AdvanceTo(const Buffer& b, uint64_t step);
  bool Failed(const char* call, CUresult result) const;

  const Driver& driver_;
  const Options& options_;
  std::vector<Buffer> buffers_;
  std::vector<uint8_t> expected_ = std::vector<uint8_t>(kChunk);
  std::vector<uint8_t> found_ = std::vector<uint8_t>(kChunk);
  uint64_t bytes_ = 0;
  CUstream stream_ = nullptr;
  CUfunction add_words_ = nullptr;
};

bool Stepper::Failed(const char* call, CUresult result) const {
  if (result == CUDA_SUCCESS) return false;
  const char* name = "unknown error";
  driver_.error_name(result, &name);
  fprintf(stderr, "stepper: %s: %s (%d)\n", call, name, result);
  return true;
}

Outcome Stepper::OpenDevice() {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  if (Failed("cuInit", driver_.init(0)) ||
      Failed("cuDeviceGet", driver_.device_get(&device, options_.device)) ||
      Failed("cuDevicePrimaryCtxRetain", driver_.primary_ctx_retain(&context, device)) ||
      Failed("cuCtxSetCurrent", driver_.ctx_set_current(context)) ||
      Failed("cuStreamCreate", driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING)) ||
      Failed("cuModuleLoadData", driver_.module_load(&module, kAddWordsPtx)) ||
      Failed("cuModuleGetFunction",
             driver_.module_get_function(&add_words_, module, "add_words"))) {
    return kCudaFailed;
  }
  return kOk;
}

Outcome Stepper::Start() {
  if (Outcome o = OpenDevice(); o != kOk) return o;
  for (size_t i = 0; i < options_.buffers; ++i) {
    Buffer b{0,
             {static_cast<Advance>(i % 3), options_.seed + (i + 1) * 0x9e3779b97f4a7c15,
              options_.sizes[i % options_.sizes.size()]}};
    if (Failed("cuMemAlloc", driver_.mem_alloc(&b.base, b.pattern.length))) return kCudaFailed;
    bytes_ += b.pattern.length;
    buffers_.push_back(b);
    if (Outcome o = WriteAll(b, 0); o != kOk) return o;
  }
  return kOk;
}

Outcome Stepper::WriteAll(const Buffer& b, uint64_t step) {
  for (uint64_t at = 0; at < b.pattern.length; at += kChunk) {
    const size_t count = std::min<uint64_t>(kChunk, b.pattern.length - at);
    b.pattern.Fill(step, at, expected_.data(), count);
    if (Failed("cuMemcpyHtoDAsync",
               driver_.copy_in(b.base + at, expected_.data(), count, stream_)) ||
        Failed("cuStreamSynchronize", driver_.stream_synchronize(stream_))) {
      return kCudaFailed;
    }
  }
  return kOk;
}

Outcome Stepper::Verify(size_t index, uint64_t step) {
  const Buffer& b = buffers_[index];
  for (uint64_t at = 0; at < b.pattern.length; at += kChunk) {
    const size_t count = std::min<uint64_t>(kChunk, b.pattern.length - at);
    if (Failed("cuMemcpyDtoHAsync", driver_.copy_out(found_.data(), b.base + at, count, stream_))) {
      return kCudaFailed;
    }
    b.pattern.Fill(step, at, expected_.data(), count);
    if (Failed("cuStreamSynchronize", driver_.stream_synchronize(stream_))) return kCudaFailed;
    if (memcmp(expected_.data(), found_.data(), count) == 0) continue;
    size_t wrong = 0;
    while (expected_[wrong] == found_[wrong]) ++wrong;
    fprintf(stderr,
            "stepper: step %" PRIu64 ": buffer %zu of %" PRIu64 " bytes at 0x%llx: byte %" PRIu64
            " is 0x%02x and must be 0x%02x\n",
            step, index, b.pattern.length, b.base, at + wrong, found_[wrong], expected_[wrong]);
    return kWrongBytes;
  }
  return kOk;
}

Outcome Stepper::AdvanceTo(const Buffer& b, uint64_t step) {
  switch (b.pattern.advance) {
    case Advance::kCopy:
      return WriteAll(b, step);
    case Advance::kMemset:
      return Failed("cuMemsetD8Async", driver_.set_bytes(b.base, b.pattern.MemsetByte(step),
                                                         b.pattern.length, stream_))
                 ? kCudaFailed
                 : kOk;
    case Advance::kKernel:
      break;
  }
  CUdeviceptr base = b.base;
  uint64_t words = b.pattern.length / 4;
  uint32_t delta = kKernelDelta;
  void* arguments[] = {&base, &words, &delta};
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(words / 256 + 1, 4096));
  return Failed("cuLaunchKernel",
                driver_.launch(add_words_, blocks, 1, 1, 256, 1, 1, 0, stream_, arguments, nullptr))
             ? kCudaFailed
             : kOk;
}

Outcome Stepper::Step(uint64_t step) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (Outcome o = Verify(i, step); o != kOk) return o;
  }
  for (const Buffer& b : buffers_) {
    if (Outcome o = AdvanceTo(b, step + 1); o != kOk) return o;
  }
  return kOk;
}

// Waits for what lets the next step begin; false when there is none.
bool NextStep(const Options& options, uint64_t step) {
  if (stop_asked || (options.steps != 0 && step == options.steps)) return false;
  if (options.on_input) {
    int c = getchar();
    while (c != '\n' && c != EOF) c = getchar();
    return c == '\n';
  }
  if (options.step_ms != 0) usleep(options.step_ms * 1000);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ReadOptions(argc, argv, &options)) return 64;
  signal(SIGTERM, [](int) { stop_asked = 1; });
  setvbuf(stdout, nullptr, _IOLBF, 0);

  Driver driver;
  if (const char* missing = OpenDriver(options.door, &driver)) {
    fprintf(stderr, "stepper: %s not found\n", missing);
    return kCudaFailed;
  }
  Stepper stepper(driver, options);
  if (Outcome o = stepper.Start(); o != kOk) return o;
  printf("stepper pid %d ready: %zu buffers, %" PRIu64 " bytes\n", getpid(), options.buffers,
         stepper.bytes());
  uint64_t step = 0;
  for (; NextStep(options, step); ++step) {
    if (Outcome o = stepper.Step(step); o != kOk) return o;
    printf("step %" PRIu64 " ok bytes=%" PRIu64 "\n", step, stepper.bytes());
  }
  printf("done after %" PRIu64 " steps, every byte right\n", step);
  return kOk;
}
