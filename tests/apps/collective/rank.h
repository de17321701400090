// Rank: one rank of a job with tensor-parallel, data-parallel and world communicators.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <random>

#include "tests/apps/collective/board.h"

struct RankOptions {
  const char* board = nullptr;
  uint32_t rank = 0;
  uint32_t ranks = 4;
  uint32_t tensor_parallel = 2;  // divides `ranks`: that many neighbours share a layer
  uint64_t seed = 1;
};

// What another thread asks of the rank.
enum class Wish : int {
  kNone,
  kHoldKernel,  // launch a kernel that does not end
  kHoldHost,    // stop launching, in the middle of a step
};

// What a rank computes in a step depends on the seed alone, never on time, so that a run that was
// stopped anywhere must give the same values as one that was not. How long things take is random.
//
// A step launches a random number of kernels and has, for each of two layers, a tensor-parallel
// collective on the compute stream and a data-parallel one on a stream of its own, some ranks
// earlier and some later; then one of the world. Layer 1 is a graph in some steps, and that graph
// is captured anew now and then. A rank waits for its collectives in all the ways that programs do:
// in a blocking copy, in a wait for a stream, in a free.
class Rank {
 public:
  static constexpr int kStepsOfRound = 4;

  explicit Rank(const RankOptions& options);

  // Runs kStepsOfRound steps, agrees with the other ranks, and returns whether any rank wants to
  // stop. Between steps it does what `wish` says, and calls `held` when it has.
  bool Round(bool stop, Wish wish, void (*held)());

  // Of all that the steps until now have computed.
  uint64_t digest() const { return digest_; }

 private:
  static constexpr int kLayers = 2;
  static constexpr uint64_t kStateWords = 32 << 10;  // of 64 bits

  struct Layer {
    CUdeviceptr state;
    CUdeviceptr sums;      // of the tensor-parallel collective
    CUdeviceptr gradient;  // what the data-parallel one adds up
    CUdeviceptr gradient_sums;
    CUevent ready;   // the gradient is complete
    CUevent summed;  // its sums are
  };

  void MakeGroups(Board* board);
  void Step(Wish wish, void (*held)());
  void Plain(const Layer& layer);
  void TensorParallel(const Layer& layer, CUstream stream);
  void GradientReady(const Layer& layer);
  void DataParallel(const Layer& layer);
  void CaptureGraph();
  // A wait for what this rank has on its compute stream.
  void WaitForCompute();
  // A wait for all that it has on the GPU.
  void FreeSomething();
  bool Agree(bool stop);
  void Fold(CUdeviceptr from, uint64_t words);
  bool OneIn(uint32_t n) { return values_() % n == 0; }

  const RankOptions options_;
  std::mt19937_64 values_;  // decides what is computed
  std::mt19937_64 times_;   // decides how long it takes
  CUfunction meet_, mix_, hold_, add_words_, spin_ms_;
  CUstream compute_, data_parallel_, capturing_;
  CUgraphExec graph_ = nullptr;  // the tensor-parallel part of layer 1
  Layer layers_[kLayers];
  CUdeviceptr world_sums_, vote_, votes_;
  uint32_t tensor_group_, data_group_, world_group_, vote_group_;
  uint64_t digest_ = 0xcbf29ce484222325;
};
