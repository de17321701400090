// The pipeline out of HBM.
#include "shim/pause/evictor.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/release_piece.h"

namespace parkade::shim {
namespace {

// Large enough that a copy's launch and its wake-up cost nothing beside it.
constexpr Bytes kMostChunk = 32_MiB;
constexpr uint64_t kPinMs = 60'000;

}  // namespace

Evictor::Evictor(MoveTools& tools, FileSpace* space, CUcontext context,
                 std::vector<RangeMove> moves, Bytes stage_bytes)
    : tools_(tools),
      space_(space),
      context_(context),
      moves_(std::move(moves)),
      stage_bytes_(stage_bytes),
      lane_(tools.driver, CopyLane::Direction::kOut),
      backings_(moves_.size()),
      piece_left_(moves_.size()) {}

Result<void> Evictor::Run() {
  InShim ours;
  ScopedRelaxedCapture relaxed(tools_.driver);
  ScopedContext current(tools_.driver, context_);
  if (current.status() != CUDA_SUCCESS) {
    return CudaError(tools_.driver, current.status(), "entering the context to evict from");
  }
  Result<void> result = lane_.Open();
  if (result.ok()) result = RunUntilIdle();
  // What is still in flight goes to memory that the undo gives back.
  if (!result.ok()) tools_.stop.store(true, std::memory_order_relaxed);
  lane_.Drain();
  stage_.reset();
  return result;
}

Result<void> Evictor::RunUntilIdle() {
  for (;;) {
    if (tools_.Stopping()) return MakeError(Code::kCancelled, "CANCELLED", "the pause was undone");
    auto step = StartNext();
    if (!step.ok()) return step.error();
    if (*step == Step::kStarted) continue;
    if (!copying_.empty()) {
      if (auto r = FinishCopy(); !r.ok()) return r;
      if (auto r = FinishWrites(DiskStage::Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (stage_ != nullptr && !stage_->idle()) {
      if (auto r = FinishWrites(DiskStage::Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (*step == Step::kNoMore) break;
  }
  return stage_ != nullptr ? stage_->Flush() : Result<void>();
}

Result<Evictor::Step> Evictor::StartNext() {
  for (;;) {
    if (next_ == moves_.size()) return Step::kNoMore;
    if (cutter_ == nullptr) {
      if (auto r = BeginRange(); !r.ok()) return r.error();
    }
    if (!cutter_->done()) break;
    cutter_.reset();
    ++next_;
  }
  if (lane_.full()) return Step::kMustWait;
  auto started = host_left_ != 0 ? CutToHost() : CutToDisk();
  if (!started.ok()) return started.error();
  return *started ? Step::kStarted : Step::kMustWait;
}

Result<void> Evictor::BeginRange() {
  const RangeMove& move = moves_[next_];
  auto backing = std::make_unique<RangeBacking>();
  backings_[next_] = backing.get();
  move.range->backing = std::move(backing);
  piece_left_[next_] = LiveBytesByPiece(*move.range);
  cutter_ = std::make_unique<ChunkCutter>(*move.range);
  host_left_ = move.host_bytes;
  for (size_t i = 0; i < move.range->pieces.size(); ++i) {
    if (piece_left_[next_][i] != 0) continue;
    if (auto r = Release(*move.range, move.range->pieces[i]); !r.ok()) return r;
  }
  return {};
}

Result<bool> Evictor::CutToHost() {
  const Bytes want = std::min({cutter_->Next(), kMostChunk, host_left_});
  auto block = tools_.pool.Take(want, kDirectAlign, Deadline::InMs(kPinMs));
  if (!block.ok()) {
    // The budget allowed it and the machine does not have it: `auto` has another place.
    if (moves_[next_].policy != wire::Policy::kAuto || space_ == nullptr) return block.error();
    host_left_ = 0;
    return CutToDisk();
  }
  host_left_ -= block->bytes();
  RangeBacking& backing = BackingOf(next_);
  Chunk& chunk = cutter_->Cut(backing, block->bytes());
  chunk.host = std::move(*block);
  if (auto r = Launch({next_, uint32_t(backing.chunks.size() - 1), kNoBlock}, chunk.host.memory());
      !r.ok()) {
    return r.error();
  }
  return true;
}

Result<bool> Evictor::CutToDisk() {
  if (stage_ == nullptr) {
    if (space_ == nullptr) {
      return MakeError(Code::kInternal, "NO_FILES", "bytes without a place to go to");
    }
    auto stage = OpenStage(tools_, stage_bytes_);
    if (!stage.ok()) return stage.error();
    stage_ = std::move(*stage);
  }
  if (!stage_->has_free()) return false;
  auto part = space_->Take(std::min(cutter_->Next(), stage_->block_bytes()));
  if (!part.ok()) return part.error();
  RangeBacking& backing = BackingOf(next_);
  Chunk& chunk = cutter_->Cut(backing, part->bytes);
  chunk.file = part->file;
  chunk.offset = part->offset;
  const uint32_t block = stage_->TakeBlock();
  if (writing_.size() <= block) writing_.resize(block + 1);
  const Job job{next_, uint32_t(backing.chunks.size() - 1), block};
  if (auto r = Launch(job, stage_->memory(block)); !r.ok()) return r.error();
  return true;
}

Result<void> Evictor::Launch(Job job, char* memory) {
  const RangeBacking& backing = BackingOf(job.move);
  const Chunk& chunk = backing.chunks[job.chunk];
  if (auto r = lane_.Queue(moves_[job.move].range->base, backing.ExtentsOf(chunk), memory);
      !r.ok()) {
    return r;
  }
  copying_.push_back(job);
  return {};
}

Result<void> Evictor::FinishCopy() {
  if (auto r = lane_.WaitOldest(); !r.ok()) return r;
  const Job job = copying_.front();
  copying_.pop_front();
  if (job.block == kNoBlock) return Stored(job);
  const Chunk& chunk = BackingOf(job.move).chunks[job.chunk];
  writing_[job.block] = job;
  return stage_->Write(job.block, {chunk.file, chunk.offset, chunk.bytes});
}

Result<void> Evictor::FinishWrites(DiskStage::Patience patience) {
  while (stage_ != nullptr) {
    auto done = stage_->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    if (!(*done)->result.ok()) return (*done)->result;
    stage_->GiveBlock((*done)->block);
    if (auto r = Stored(writing_[(*done)->block]); !r.ok()) return r;
    patience = DiskStage::Patience::kLook;
  }
  return {};
}

Result<void> Evictor::Stored(const Job& job) {
  Chunk& chunk = BackingOf(job.move).chunks[job.chunk];
  chunk.stored = true;
  (job.block == kNoBlock ? moved_.host : moved_.disk) += chunk.bytes;
  tools_.ledger.AddMoved(chunk.bytes);
  Range& range = *moves_[job.move].range;
  Bytes& left = piece_left_[job.move][chunk.piece];
  left -= chunk.bytes;
  return left == 0 ? Release(range, range.pieces[chunk.piece]) : Result<void>();
}

Result<void> Evictor::Release(Range& range, Piece& piece) {
  auto released = ReleasePiece(tools_.driver, range, piece);
  if (released.ok()) released_bytes_ += piece.bytes;
  return released;
}

}  // namespace parkade::shim
