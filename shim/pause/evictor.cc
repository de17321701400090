// The pipeline out of HBM: what stays, what moves, and when a piece may go. What happens to blocks
// on their way stands in evictor_runs.cc.
#include "shim/pause/evictor.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

// The first batch is small, so that the first copy need not wait long; the later ones are wide
// enough for every processor of the GPU.
constexpr size_t kFirstBatch = 16;

}  // namespace

Evictor::Evictor(MoveTools& tools, FileSpace* space, CUcontext context,
                 std::vector<RangeMove> moves, Bytes stage_bytes)
    : tools_(tools),
      space_(space),
      context_(context),
      moves_(std::move(moves)),
      stage_(tools.StageOf(stage_bytes)),
      hashes_(tools.crew),
      lane_(tools.driver, CopyLane::Direction::kOut),
      survey_blocks_(kFirstBatch),
      releases_(tools.driver, tools.memory, &tools.ledger) {
  for (const RangeMove& move : moves_) {
    backings_.push_back(static_cast<RangeBacking*>(move.range->backing.get()));
    piece_left_.push_back(LiveBytesByPiece(*move.range));
  }
}

Result<void> Evictor::Run() {
  InShim ours;
  ScopedRelaxedCapture relaxed(tools_.driver);
  ScopedContext current(tools_.driver, context_);
  if (current.status() != CUDA_SUCCESS) {
    return CudaError(tools_.driver, current.status(), "entering the context to evict from");
  }
  Result<void> result = lane_.Open(tools_.shelves.lanes);
  timeline_.Ended("open lane");
  if (result.ok()) gpu_hash_ = OpenGpuHash(tools_);
  timeline_.Ended("open hash");
  if (result.ok()) result = RunUntilIdle();
  // What is still in flight goes to memory that the undo gives back.
  if (!result.ok()) tools_.stop.store(true, std::memory_order_relaxed);
  releases_.Stop();
  lane_.Drain();
  timeline_.Ended("drain");
  if (result.ok()) {
    lane_.Keep(tools_.shelves.lanes);
    if (gpu_hash_ != nullptr) tools_.shelves.hashes.Keep(context_, std::move(gpu_hash_));
  }
  gpu_hash_.reset();
  timeline_.Ended("close hash");
  hashes_.Drain();
  stage_.Close();
  timeline_.Ended("close");
  timeline_.Log("a lane out");
  return result;
}

Result<void> Evictor::RunUntilIdle() {
  for (;;) {
    if (tools_.Stopping()) return MakeError(Code::kCancelled, "CANCELLED", "the pause was undone");
    if (auto r = Survey(); !r.ok()) return r;
    auto step = StartNext();
    if (!step.ok()) return step.error();
    if (*step == Step::kStarted) continue;
    if (auto r = FinishSurveys(Patience::kLook); !r.ok()) return r;
    if (!copying_.empty()) {
      if (auto r = FinishCopy(); !r.ok()) return r;
      if (auto r = FinishHashes(Patience::kLook); !r.ok()) return r;
      if (auto r = FinishWrites(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (!hashes_.idle()) {
      if (auto r = FinishHashes(Patience::kWait); !r.ok()) return r;
      if (auto r = FinishWrites(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (stage_.disk_works()) {
      if (auto r = FinishWrites(Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (!surveys_.empty()) {
      if (auto r = FinishSurveys(Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (surveyed_.move == moves_.size() && to_move_.empty()) break;
  }
  if (stage_.disk != nullptr) {
    if (auto r = stage_.disk->Flush(); !r.ok()) return r;
  }
  timeline_.Ended("queue");
  const Result<void> released = releases_.Finish();
  timeline_.Ended("last release");
  return released;
}

Result<void> Evictor::Survey() {
  if (gpu_hash_ == nullptr) return TakeNextAsNew();
  while (surveyed_.move != moves_.size() && !gpu_hash_->full()) {
    auto batch = NextBatch();
    if (!batch.ok()) return batch.error();
    if (batch->empty()) continue;
    std::vector<GpuHash::Block> blocks;
    for (const BlockAt at : *batch) blocks.push_back(InHbm(at));
    if (auto r = gpu_hash_->Queue(blocks, nullptr); !r.ok()) return r;
    surveys_.push_back(std::move(*batch));
    survey_blocks_ = std::min(2 * survey_blocks_, GpuHash::kMostBlocks);
  }
  return {};
}

// What nobody can look at in HBM is all to move, range by range.
Result<void> Evictor::TakeNextAsNew() {
  for (; surveyed_.move != moves_.size() && to_move_.empty(); ++surveyed_.move) {
    if (auto r = ReleaseEmptyPieces(surveyed_.move); !r.ok()) return r;
    RangeBacking& backing = *backings_[surveyed_.move];
    for (uint32_t i = 0; i < backing.blocks.size(); ++i) TakeAsNew({surveyed_.move, i});
  }
  return {};
}

void Evictor::TakeAsNew(BlockAt at) {
  Block& block = At(at);
  backings_[at.move]->Forget(block);
  if (block.to_host) block.file.reset();
  to_move_.push_back(at);
}

// Of as many ranges as it takes: a small one alone would leave most of the GPU idle.
Result<std::vector<Evictor::BlockAt>> Evictor::NextBatch() {
  std::vector<BlockAt> batch;
  size_t parts = 0;
  while (surveyed_.move != moves_.size() && batch.size() < survey_blocks_) {
    if (surveyed_.block == 0) {
      if (auto r = ReleaseEmptyPieces(surveyed_.move); !r.ok()) return r.error();
    }
    if (surveyed_.block == backings_[surveyed_.move]->blocks.size()) {
      surveyed_ = {surveyed_.move + 1, 0};
      continue;
    }
    parts += At(surveyed_).extent_count;
    if (parts > GpuHash::kMostParts) break;
    batch.push_back(surveyed_);
    ++surveyed_.block;
  }
  return batch;
}

Result<void> Evictor::FinishSurveys(Patience patience) {
  while (!surveys_.empty()) {
    if (patience == Patience::kLook && !gpu_hash_->OldestIsDone()) return {};
    patience = Patience::kLook;
    timeline_.Ended("queue");
    auto found = gpu_hash_->WaitOldest();
    if (!found.ok()) return found.error();
    timeline_.Ended("hashes");
    const std::vector<BlockAt> batch = std::move(surveys_.front());
    surveys_.pop_front();
    if (auto r = Sort(batch, *found); !r.ok()) return r;
  }
  return {};
}

// Decides of each block of a batch whether it has to move.
Result<void> Evictor::Sort(const std::vector<BlockAt>& batch, std::span<const HashedBlock> found) {
  std::vector<Guess> guesses(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const Block& block = At(batch[i]);
    if (tools_.elision == wire::Elision::kOff) continue;
    const bool equal = block.stored() && block.digest == DigestOf(found[i]);
    if (equal && !block.filled) guesses[i] = Guess::kUnchanged;
    if (found[i].repeats != 0 && (!equal || block.filled)) guesses[i] = Guess::kPattern;
  }
  if (tools_.elision == wire::Elision::kBytes) {
    if (auto r = Confirm(batch, found, guesses); !r.ok()) return r;
  }
  Bytes elided = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    RangeBacking& backing = *backings_[batch[i].move];
    Block& block = At(batch[i]);
    block.digest = DigestOf(found[i]);
    if (guesses[i] == Guess::kNew) {
      TakeAsNew(batch[i]);
      continue;
    }
    if (guesses[i] == Guess::kPattern) backing.Fill(block, found[i].pattern);
    elided += block.bytes;
    if (auto r = Settle(batch[i]); !r.ok()) return r;
  }
  moved_.elided += elided;
  tools_.ledger.AddMoved(elided);
  return {};
}

// Takes back what the bytes themselves do not bear out, or what the GPU cannot compare.
Result<void> Evictor::Confirm(const std::vector<BlockAt>& batch, std::span<const HashedBlock> found,
                              std::vector<Guess>& guesses) {
  std::vector<GpuHash::Twin> twins;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Block& block = At(batch[i]);
    const bool readable = block.in_host && block.host.pinned();
    if (guesses[i] == Guess::kUnchanged && !readable) guesses[i] = Guess::kNew;
    if (guesses[i] == Guess::kNew) continue;
    const char* bytes = guesses[i] == Guess::kPattern ? nullptr : block.host.memory();
    twins.push_back({InHbm(batch[i]), bytes, found[i].pattern});
    numbers.push_back(i);
  }
  const auto equal = gpu_hash_->Compare(twins);
  if (!equal.ok()) return equal.error();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!(*equal)[i]) guesses[numbers[i]] = Guess::kNew;
  }
  return {};
}

Result<void> Evictor::Settle(BlockAt at) {
  Range& range = *moves_[at.move].range;
  const Block& block = At(at);
  Bytes& left = piece_left_[at.move][block.piece];
  left -= block.bytes;
  return left == 0 ? releases_.Release(range, range.pieces[block.piece]) : Result<void>();
}

Result<void> Evictor::ReleaseEmptyPieces(uint32_t move) {
  if (move < emptied_) return {};
  emptied_ = move + 1;
  Range& range = *moves_[move].range;
  for (size_t i = 0; i < range.pieces.size(); ++i) {
    if (piece_left_[move][i] != 0) continue;
    if (auto r = releases_.Release(range, range.pieces[i]); !r.ok()) return r;
  }
  return {};
}

GpuHash::Block Evictor::InHbm(BlockAt at) const {
  return {moves_[at.move].range->base, backings_[at.move]->ExtentsOf(At(at))};
}

}  // namespace parkade::shim
