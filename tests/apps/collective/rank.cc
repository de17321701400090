// What a rank launches, in which order.
#include "tests/apps/collective/rank.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/apps/collective/gpu.h"
#include "tests/apps/collective/kernels.h"

namespace {
constexpr uint64_t kVectorBytes = kWords * sizeof(uint64_t);
}

Rank::Rank(const RankOptions& options)
    : options_(options),
      values_(options.seed * kMaxRanks + options.rank),
      times_(std::random_device{}()) {
  Board* board = OpenBoard(options.board);
  if (board == nullptr) {
    perror("collective: the board");
    _Exit(2);
  }
  MakeGroups(board);
  UseGpu();
  CUmodule module;
  Must(cuModuleLoadData(&module, kKernels), "cuModuleLoadData");
  for (auto [name, kernel] : {std::pair{"meet", &meet_},
                              {"mix", &mix_},
                              {"hold", &hold_},
                              {"add_words", &add_words_},
                              {"spin_ms", &spin_ms_}}) {
    Must(cuModuleGetFunction(kernel, module, name), name);
  }
  // Blocking, so that a synchronous copy waits for it; the others do not hold such a copy up.
  compute_ = MakeStream(CU_STREAM_DEFAULT);
  data_parallel_ = MakeStream(CU_STREAM_NON_BLOCKING);
  capturing_ = MakeStream(CU_STREAM_NON_BLOCKING);
  for (Layer& layer : layers_) {
    layer = {Allocate(kStateWords * 8),
             Allocate(kVectorBytes),
             Allocate(kVectorBytes),
             Allocate(kVectorBytes),
             MakeEvent(),
             MakeEvent()};
    std::vector<uint64_t> first(kStateWords);
    for (uint64_t& word : first) word = values_();
    Must(cuMemcpyHtoD(layer.state, first.data(), kStateWords * 8), "cuMemcpyHtoD");
  }
  world_sums_ = Allocate(kVectorBytes);
  vote_ = Allocate(kVectorBytes);
  votes_ = Allocate(kVectorBytes);
  CaptureGraph();
}

void Rank::MakeGroups(Board* board) {
  Job job{board, options_.rank, {}};
  uint32_t next = 0;
  // Ranks `first`, `first + stride`, ... `size` of them: adds the communicator, says its number.
  const auto add = [&](uint32_t first, uint32_t stride, uint32_t size) {
    Group& group = job.groups[next] = {next, size, {}};
    for (uint32_t i = 0; i < size; ++i) group.ranks[i] = first + i * stride;
    return next++;
  };
  const uint32_t wide = options_.tensor_parallel, replicas = options_.ranks / wide;
  for (uint32_t i = 0; i < replicas; ++i) {
    const uint32_t group = add(i * wide, 1, wide);
    if (options_.rank / wide == i) tensor_group_ = group;
  }
  for (uint32_t i = 0; i < wide; ++i) {
    const uint32_t group = add(i, wide, replicas);
    if (options_.rank % wide == i) data_group_ = group;
  }
  world_group_ = add(0, 1, options_.ranks);
  vote_group_ = add(0, 1, options_.ranks);
  SetJob(job);
}

bool Rank::Round(bool stop, Wish wish, void (*held)()) {
  for (int step = 0; step < kStepsOfRound; ++step) {
    Step(step == 0 ? wish : Wish::kNone, held);
  }
  for (const Layer& layer : layers_) Fold(layer.state, kStateWords);
  return Agree(stop);
}

void Rank::Step(Wish wish, void (*held)()) {
  if (wish == Wish::kHoldKernel) {
    Launch(hold_, compute_);
    held();
  }
  const Layer &first = layers_[0], &second = layers_[1];
  Plain(first);
  TensorParallel(first, compute_);
  GradientReady(first);
  if (wish == Wish::kHoldHost) held();
  if (OneIn(3)) WaitForCompute();
  // The peers of this communicator decide for themselves: now, or after the next layer.
  const bool early = OneIn(2);
  if (early) DataParallel(first);
  Plain(second);
  if (OneIn(2)) {
    TensorParallel(second, compute_);
  } else {
    Must(cuGraphLaunch(graph_, compute_), "cuGraphLaunch");
  }
  GradientReady(second);
  if (OneIn(3)) WaitForCompute();
  if (!early) DataParallel(first);
  DataParallel(second);
  // Only here has every rank launched all that such a wait is for.
  if (OneIn(4)) FreeSomething();
  if (OneIn(8)) CaptureGraph();
  for (const Layer& layer : layers_) {
    Must(cuStreamWaitEvent(compute_, layer.summed, 0), "cuStreamWaitEvent");
    Launch(mix_, compute_, layer.state, kStateWords, layer.gradient_sums);
  }
  Launch(meet_, compute_, world_sums_, layers_[0].state, world_group_);
  Launch(mix_, compute_, layers_[0].state, kStateWords, world_sums_);
}

void Rank::Plain(const Layer& layer) {
  // So many that some ranks are far ahead of others.
  for (uint64_t n = values_() % 8; n > 0; --n) {
    const uint64_t words = kStateWords * 2;  // of 32 bits
    Launch(add_words_, compute_, layer.state, words, uint32_t(values_()));
  }
  if (times_() % 8 == 0) Launch(spin_ms_, compute_, uint32_t(1));
}

void Rank::TensorParallel(const Layer& layer, CUstream stream) {
  Launch(meet_, stream, layer.sums, layer.state, tensor_group_);
  Launch(mix_, stream, layer.state, kStateWords, layer.sums);
}

void Rank::GradientReady(const Layer& layer) {
  Must(cuMemcpyDtoDAsync(layer.gradient, layer.state, kVectorBytes, compute_), "cuMemcpyDtoDAsync");
  Must(cuEventRecord(layer.ready, compute_), "cuEventRecord");
}

void Rank::DataParallel(const Layer& layer) {
  Must(cuStreamWaitEvent(data_parallel_, layer.ready, 0), "cuStreamWaitEvent");
  Launch(meet_, data_parallel_, layer.gradient_sums, layer.gradient, data_group_);
  Must(cuEventRecord(layer.summed, data_parallel_), "cuEventRecord");
}

void Rank::CaptureGraph() {
  CUgraph graph;
  // Of this thread alone: others go on with calls that a global capture forbids.
  Must(cuStreamBeginCapture(capturing_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
       "cuStreamBeginCapture");
  TensorParallel(layers_[1], capturing_);
  Must(cuStreamEndCapture(capturing_, &graph), "cuStreamEndCapture");
  // Launches of the old one may still be on their way; the driver keeps what they need.
  if (graph_ != nullptr) Must(cuGraphExecDestroy(graph_), "cuGraphExecDestroy");
  Must(cuGraphInstantiate(&graph_, graph, 0), "cuGraphInstantiate");
  Must(cuGraphDestroy(graph), "cuGraphDestroy");
}

void Rank::WaitForCompute() {
  if (OneIn(2)) {
    Fold(layers_[0].sums, kWords);
  } else {
    Must(cuStreamSynchronize(compute_), "cuStreamSynchronize");
  }
}

void Rank::FreeSomething() {
  const size_t bytes = values_() % (4 << 20) + 1;
  const CUdeviceptr at = Allocate(bytes);
  Must(cuMemsetD8Async(at, 1, bytes, compute_), "cuMemsetD8Async");
  Must(cuMemFree(at), "cuMemFree");
}

bool Rank::Agree(bool stop) {
  const uint64_t vote[kWords] = {stop};
  uint64_t votes[kWords];
  Must(cuMemcpyHtoD(vote_, vote, kVectorBytes), "cuMemcpyHtoD");
  Launch(meet_, compute_, votes_, vote_, vote_group_);
  Must(cuMemcpyDtoH(votes, votes_, kVectorBytes), "cuMemcpyDtoH");
  return votes[0] != 0;
}

void Rank::Fold(CUdeviceptr from, uint64_t words) {
  std::vector<uint64_t> found(words);
  Must(cuMemcpyDtoH(found.data(), from, words * 8), "cuMemcpyDtoH");
  for (const uint64_t word : found) digest_ = (digest_ ^ word) * 0x100000001b3;
}
