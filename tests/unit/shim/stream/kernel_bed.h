// KernelBed: a ProcessorStore's bucket in the memory of a GPU, and the kernels of stores to launch
// on it. The driver is whichever libcuda the process has: a card's or the simulated one.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <memory>

#include "shim/cuda/driver.h"
#include "shim/kernels/images.h"
#include "tests/unit/shim/stream/processor_store.h"
#include "tests/unit/sim/gpu.h"

namespace parkade::shim {

// Device memory that begins as garbage, so that what is not written is seen.
class CardMemory {
 public:
  explicit CardMemory(Bytes bytes) : bytes_(bytes), buffer_(bytes == 0 ? 16 : bytes) {
    REQUIRE(cuMemsetD8(buffer_.at(), 0xa5, bytes == 0 ? 16 : bytes) == CUDA_SUCCESS);
  }
  template <typename T>
  void Put(const std::vector<T>& from) {
    REQUIRE(from.size() * sizeof(T) == bytes_);
    REQUIRE(cuMemcpyHtoD(buffer_.at(), from.data(), bytes_) == CUDA_SUCCESS);
  }
  template <typename T>
  std::vector<T> Get() const {
    std::vector<T> all(bytes_ / sizeof(T));
    REQUIRE(cuMemcpyDtoH(all.data(), buffer_.at(), bytes_) == CUDA_SUCCESS);
    return all;
  }
  CUdeviceptr at() const { return buffer_.at(); }

 private:
  const Bytes bytes_;
  const sim::Buffer buffer_;
};

// The first byte that differs, or the size where none does.
template <typename T>
size_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  const auto* const x = reinterpret_cast<const uint8_t*>(a.data());
  const auto* const y = reinterpret_cast<const uint8_t*>(b.data());
  const size_t bytes = a.size() * sizeof(T);
  if (memcmp(x, y, bytes) == 0) return bytes;
  size_t at = 0;
  while (x[at] == y[at]) ++at;
  return at;
}

template <typename T>
void RequireEqual(const char* what, const std::vector<T>& found, const std::vector<T>& wanted) {
  const size_t at = FirstDifference(found, wanted);
  if (at != wanted.size() * sizeof(T)) {
    INFO(what << " differ from byte " << at << " of " << wanted.size() * sizeof(T)
              << " on: element " << at / sizeof(T));
    FAIL();
  }
}

class KernelBed {
 public:
  explicit KernelBed(ProcessorStore& processor)
      : store(processor),
        pieces(processor.bucket().pieces.size() * sizeof(StorePiece)),
        weights(processor.weights.size()),
        gradients(processor.gradients.size()),
        ties(processor.ties.size() * 4),
        findings(sizeof(StoreFindings)) {
    for (const auto& bytes : store.encoded) {
      encoded.push_back(std::make_unique<CardMemory>(bytes.size()));
      views.push_back(std::make_unique<CardMemory>(store.bucket().numel * sizeof(float)));
    }
    PutPieces();
    REQUIRE(StoreFatbin() != nullptr);
    if (cuModuleLoadData(&module_, StoreFatbin()) != CUDA_SUCCESS) {
      REQUIRE(cuModuleLoadData(&module_, StorePtx()) == CUDA_SUCCESS);
    }
  }
  ~KernelBed() { cuModuleUnload(module_); }

  // What the processor has, all of it.
  void PutState() {
    for (size_t i = 0; i < encoded.size(); ++i) encoded[i]->Put(store.encoded[i]);
    ties.Put(store.ties);
    PutTensors();
  }
  void PutTensors() {
    weights.Put(store.weights);
    gradients.Put(store.gradients);
  }
  // Launches the kernel on the bucket; waits. What it has found.
  StoreFindings Run(const char* kernel, uint64_t step, void* second = nullptr) {
    REQUIRE(cuMemsetD8(findings.at(), 0, sizeof(StoreFindings)) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    Launch(kernel, step, second, nullptr);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    return findings.Get<StoreFindings>()[0];
  }
  void Launch(const char* kernel, uint64_t step, void* second, CUstream stream) {
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module_, kernel) == CUDA_SUCCESS);
    StoreBucketArgs args = Args(step);
    void* arguments[] = {&args, second};
    constexpr uint64_t kGroupsPerBlock = PARKADE_STORE_THREADS / PARKADE_STORE_TEAM;
    const auto blocks = unsigned((args.groups + kGroupsPerBlock - 1) / kGroupsPerBlock);
    REQUIRE(cuLaunchKernel(function, blocks, 1, 1, PARKADE_STORE_THREADS, 1, 1, 0, stream,
                           arguments, nullptr) == CUDA_SUCCESS);
  }
  // Encoded bytes, tie map and weights are the processor's bits.
  void RequireSame() const {
    for (uint32_t i = 0; i < encoded.size(); ++i) {
      INFO("segment " << store.layout.segments()[i].name << ", scales from byte "
                      << store::ScalesAt(store.layout.segments()[i], store.bucket().numel));
      RequireEqual("encoded bytes", encoded[i]->Get<uint8_t>(), store.encoded[i]);
    }
    if (store.layout.lo16() >= 0) RequireEqual("ties", ties.Get<uint32_t>(), store.ties);
    RequireEqual("weights", weights.Get<uint8_t>(), store.weights);
    RequireEqual("gradients", gradients.Get<uint8_t>(), store.gradients);
  }

  ProcessorStore& store;
  CardMemory pieces, weights, gradients, ties, findings;
  std::vector<std::unique_ptr<CardMemory>> encoded, views;

 private:
  void PutPieces() {
    std::vector<StorePiece> made;
    for (const store::Piece& piece : store.bucket().pieces) {
      const StoreTensor& t = store.tensors[piece.entry];
      made.push_back({piece.position, piece.numel(), piece.counter, store.Key(piece),
                      weights.at() + t.weight_at, gradients.at() + t.gradient_at, t.weight_type,
                      t.gradient_type, t.entry.group, 0});
    }
    pieces.Put(made);
  }
  StoreBucketArgs Args(uint64_t step) const {
    StoreBucketArgs args = {};
    args.pieces = pieces.at();
    args.ties = ties.at();
    args.findings = findings.at();
    args.groups = store.bucket().numel / store::kGroup;
    args.step = step;
    args.piece_count = uint32_t(store.bucket().pieces.size());
    args.segment_count = uint32_t(encoded.size());
    args.nearest = store.nearest ? 1 : 0;
    for (uint32_t i = 0; i < encoded.size(); ++i) {
      const store::Segment& segment = store.layout.segments()[i];
      args.segments[i].bytes = encoded[i]->at();
      args.segments[i].scales = encoded[i]->at() + store::ScalesAt(segment, store.bucket().numel);
      args.segments[i].encoding = uint32_t(segment.encoding);
      if (segment.encoding != store::Encoding::kRaw) args.segments[i].view = views[i]->at();
    }
    return args;
  }

  CUmodule module_ = nullptr;
};

}  // namespace parkade::shim
