// store_trainer: trains a toy model whose optimizer state streams through a store, and beside it
// the same model with all state in memory; the weights must be the same bits after every step. It
// does what the lines of its standard input say, and answers each by one line.
//
//   step        one step by the built-in AdamW          hold    a step, until half of its buckets
//   callback    one step, its update by a callback      go      the rest of that step
//   stats       bytes that the store has moved          end     closes the store
#include <cuda.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shim/include/parkade/parkade.h"
#include "shim/kernels/store_quads.h"

namespace {

using parkade::Adam;
using parkade::StoreAdamGroup;

constexpr parkade_store_adam kHyper = {sizeof kHyper, 0, 0.01, 0.9, 0.999, 1e-8, 0.1, UINT64_MAX};
// What the store makes of these, without bias correction.
constexpr StoreAdamGroup kGroup = {0.9f, float(1 - 0.9), 0.999f, float(1 - 0.999),     0.01f,
                                   1.0f, 1e-8f,          0.0f,   float(1 - 0.01 * 0.1)};

[[noreturn]] void Fail(const char* what, int code) {
  fprintf(stderr, "store_trainer: %s: %d\n", what, code);
  exit(2);
}
void Check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) Fail(what, result);
}

struct Tensor {
  std::string name;
  std::vector<float> main, first, second, gradient;  // resident
  CUdeviceptr weight = 0, gradient_on_gpu = 0;       // bf16, fp32
};

class Trainer {
 public:
  Trainer(const std::string& directory, const std::string& encoding, uint64_t host_bytes) {
    Check(cuInit(0), "cuInit");
    CUdevice device;
    CUcontext context;
    Check(cuDeviceGet(&device, 0), "cuDeviceGet");
    Check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    Check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (const size_t numel : {700'001, 31, 262'144, 1}) {
      Tensor t;
      t.name = "layer" + std::to_string(tensors_.size());
      t.main.resize(numel);
      t.first.resize(numel);
      t.second.resize(numel);
      t.gradient.resize(numel);
      std::vector<uint16_t> weights(numel);
      for (size_t i = 0; i < numel; ++i) {
        weights[i] = parkade::store::ToBf16(float(i % 1013) / 1013.0f - 0.5f);
        t.main[i] = parkade::store::FromBf16(weights[i]);
      }
      Check(cuMemAlloc(&t.weight, numel * 2), "cuMemAlloc");
      Check(cuMemAlloc(&t.gradient_on_gpu, numel * 4), "cuMemAlloc");
      CopyIn(t.weight, weights.data(), numel * 2);
      tensors_.push_back(std::move(t));
    }
    Open(directory, encoding, host_bytes);
  }

  // The gradients of the next step, from the weights of this one.
  void Differentiate() {
    ++step_;
    for (Tensor& t : tensors_) {
      std::vector<uint16_t> weights(t.main.size());
      CopyOut(weights.data(), t.weight, weights.size() * 2);
      for (size_t i = 0; i < weights.size(); ++i) {
        const float w = parkade::store::FromBf16(weights[i]);
        t.gradient[i] = w * 0.125f + float((i * 7 + step_ * 13) % 101) / 1010.0f - 0.05f;
      }
      CopyIn(t.gradient_on_gpu, t.gradient.data(), t.gradient.size() * 4);
    }
  }
  void StepResident() {
    for (Tensor& t : tensors_) {
      for (size_t i = 0; i < t.main.size(); ++i) {
        Adam(kGroup, t.gradient[i], &t.main[i], &t.first[i], &t.second[i]);
      }
    }
  }
  // Whether the weights are those of the resident run.
  bool Same() {
    for (const Tensor& t : tensors_) {
      std::vector<uint16_t> weights(t.main.size());
      CopyOut(weights.data(), t.weight, weights.size() * 2);
      for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] != parkade::store::ToBf16(t.main[i])) return false;
      }
    }
    return true;
  }

  void Step() {
    Differentiate();
    Must(parkade_store_step_adam(store_, step_, stream_, &kHyper, 1, 1.0f, 1), "step_adam");
    StepResident();
  }
  void Callback() {
    Differentiate();
    Must(parkade_store_step_run(
             store_, step_, stream_,
             [](const parkade_store_bucket* b, void* self) {
               return static_cast<Trainer*>(self)->Update(*b);
             },
             this),
         "step_run");
    StepResident();
  }
  // Begins a step and does half of it.
  void Hold() {
    Differentiate();
    Must(parkade_store_step_begin(store_, step_, stream_), "step_begin");
    parkade_store_bucket bucket = {};
    bucket.struct_size = sizeof bucket;
    do {
      if (parkade_store_acquire(store_, &bucket, -1) != 1) Fail("acquire", 0);
      Update(bucket);
      Must(parkade_store_submit(store_, bucket.bucket), "submit");
    } while (bucket.bucket + 1 < bucket.bucket_count / 2);
  }
  void Go() {
    parkade_store_bucket bucket = {};
    bucket.struct_size = sizeof bucket;
    int got;
    while ((got = parkade_store_acquire(store_, &bucket, -1)) == 1) {
      Update(bucket);
      Must(parkade_store_submit(store_, bucket.bucket), "submit");
    }
    Must(got, "acquire");
    Must(parkade_store_step_end(store_), "step_end");
    StepResident();
  }
  void PrintStats() {
    parkade_store_stats stats = {};
    stats.struct_size = sizeof stats;
    Must(parkade_store_stats_get(store_, &stats), "stats");
    printf("stats read=%" PRIu64 " written=%" PRIu64 " device=%" PRIu64 " buckets=%u\n",
           stats.read_bytes, stats.written_bytes, stats.device_bytes, stats.buckets);
  }
  void Close() {
    Must(parkade_store_drain(store_, -1), "drain");
    Must(parkade_store_close(store_, 0), "close");
  }
  uint64_t step() const { return step_; }

 private:
  void Open(const std::string& directory, const std::string& encoding, uint64_t host_bytes) {
    std::vector<parkade_store_entry> entries;
    std::vector<uint64_t> shapes(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      shapes[i] = tensors_[i].main.size();
      parkade_store_entry entry = {};
      entry.struct_size = sizeof entry;
      entry.axes = 1;
      entry.name = tensors_[i].name.c_str();
      entry.global_shape = &shapes[i];
      entry.tp_axis = -1;
      entry.weight = reinterpret_cast<void*>(tensors_[i].weight);
      entry.weight_type = PARKADE_STORE_BF16;
      entry.gradient = reinterpret_cast<void*>(tensors_[i].gradient_on_gpu);
      entry.gradient_type = PARKADE_STORE_F32;
      entries.push_back(entry);
    }
    const parkade_store_segment segments[] = {{sizeof *segments, 0, "main", encoding.c_str()},
                                              {sizeof *segments, 0, "exp_avg", "fp32"},
                                              {sizeof *segments, 0, "exp_avg_sq", "fp32"}};
    const char* const directories[] = {directory.c_str()};
    parkade_store_options options = {};
    options.struct_size = sizeof options;
    options.flags = PARKADE_STORE_IN_MEMORY;
    options.name = "trainer";
    options.directories = directories;
    options.directory_count = 1;
    options.bucket_elements = 1 << 16;
    options.chunk_bytes = 64 << 10;
    options.staging_bytes = 1 << 20;
    options.host_bytes = host_bytes;
    options.segments = segments;
    options.segment_count = 3;
    if (const int code = parkade_store_open(&options, entries.data(), entries.size(), &store_)) {
      char text[256] = "";
      parkade_store_last_error(nullptr, text, sizeof text);
      fprintf(stderr, "store_trainer: %s\n", text);
      Fail("open", code);
    }
    Must(parkade_store_fill(store_, 0, stream_, nullptr, nullptr), "fill");
  }
  // The same update as the built-in one, on the host.
  int Update(const parkade_store_bucket& b) {
    std::vector<float> values[3];
    for (int s = 0; s < 3; ++s) {
      values[s].resize(b.elements);
      CopyOut(values[s].data(), CUdeviceptr(b.segments[s]), b.elements * 4);
    }
    for (uint32_t p = 0; p < b.piece_count; ++p) {
      const parkade_store_piece& piece = b.pieces[p];
      const Tensor& t = tensors_[piece.entry];
      for (uint64_t i = 0; i < piece.elements; ++i) {
        const uint64_t at = piece.offset + i;
        Adam(kGroup, t.gradient[piece.param_begin + i], &values[0][at], &values[1][at],
             &values[2][at]);
      }
    }
    for (int s = 0; s < 3; ++s)
      CopyIn(CUdeviceptr(b.segments[s]), values[s].data(), b.elements * 4);
    return 0;
  }
  void Must(int code, const char* what) {
    if (code >= 0) return;
    char text[256] = "";
    parkade_store_last_error(store_, text, sizeof text);
    fprintf(stderr, "store_trainer: %s\n", text);
    Fail(what, code);
  }
  void CopyIn(CUdeviceptr to, const void* from, size_t bytes) {
    Check(cuMemcpyHtoDAsync(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
    Check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }
  void CopyOut(void* to, CUdeviceptr from, size_t bytes) {
    Check(cuMemcpyDtoHAsync(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
    Check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }

  CUstream stream_ = nullptr;
  std::vector<Tensor> tensors_;
  parkade_store* store_ = nullptr;
  uint64_t step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: store_trainer DIRECTORY ENCODING_OF_MAIN HOST_BYTES\n");
    return 64;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Trainer trainer(argv[1], argv[2], strtoull(argv[3], nullptr, 10));
  printf("ready\n");
  char line[64];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    const std::string word(line, strcspn(line, "\n"));
    if (word == "stats") {
      trainer.PrintStats();
      continue;
    }
    if (word == "hold") {
      trainer.Hold();
      printf("held\n");
      continue;
    }
    if (word == "end") break;
    if (word == "step") trainer.Step();
    if (word == "callback") trainer.Callback();
    if (word == "go") trainer.Go();
    printf("step %" PRIu64 " %s\n", trainer.step(), trainer.Same() ? "same" : "DIFFERENT");
  }
  trainer.Close();
  printf("closed\n");
  return 0;
}
