// The pipeline back into HBM.
#include "shim/pause/restorer.h"

#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

Restorer::Restorer(MoveTools& tools, DeviceMemory& memory, CUcontext context,
                   std::vector<RangeReturn*> returns, Bytes stage_bytes)
    : tools_(tools),
      memory_(memory),
      context_(context),
      returns_(std::move(returns)),
      stage_bytes_(stage_bytes),
      lane_(tools.driver, CopyLane::Direction::kIn) {}

Result<void> Restorer::Run() {
  InShim ours;
  ScopedRelaxedCapture relaxed(tools_.driver);
  ScopedContext current(tools_.driver, context_);
  if (current.status() != CUDA_SUCCESS) {
    return CudaError(tools_.driver, current.status(), "entering the context to restore to");
  }
  Result<void> result = lane_.Open();
  if (result.ok()) result = RunUntilIdle();
  if (!result.ok()) tools_.stop.store(true, std::memory_order_relaxed);
  lane_.Drain();  // before what is mapped may be unmapped again
  stage_.reset();
  return result;
}

Result<void> Restorer::RunUntilIdle() {
  for (;;) {
    if (tools_.Stopping()) return MakeError(Code::kCancelled, "CANCELLED", "another GPU failed");
    // Blocks from the disk first: they hold staging memory.
    if (!read_.empty() && !lane_.full()) {
      const uint32_t block = read_.front();
      read_.pop_front();
      if (auto r = Launch(staged_[block], stage_->memory(block)); !r.ok()) return r;
      continue;
    }
    auto step = StartNext();
    if (!step.ok()) return step.error();
    if (*step == Step::kStarted) continue;
    if (!copying_.empty()) {
      if (auto r = FinishCopy(); !r.ok()) return r;
      if (auto r = FinishReads(DiskStage::Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (stage_ != nullptr && !stage_->idle()) {
      if (auto r = FinishReads(DiskStage::Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (*step == Step::kNoMore) return {};
  }
}

Result<Restorer::Step> Restorer::StartNext() {
  const Chunk* chunk = nullptr;
  while (chunk == nullptr) {
    if (next_return_ == returns_.size()) return Step::kNoMore;
    if (!range_mapped_) {
      if (auto r = MapRange(*returns_[next_return_]); !r.ok()) return r.error();
    }
    chunk = NextChunk();
    if (chunk != nullptr) break;
    ++next_return_;
    range_mapped_ = false;
  }
  if (lane_.full()) return Step::kMustWait;
  if (!chunk->host) return StartRead(*chunk);
  ++next_chunk_;
  const Job job{chunk, returns_[next_return_]->range, kNoBlock};
  if (auto r = Launch(job, chunk->host.memory()); !r.ok()) return r.error();
  return Step::kStarted;
}

Result<void> Restorer::MapRange(RangeReturn& returning) {
  Range& range = *returning.range;
  incoming_.assign(range.pieces.size(), false);
  for (Incoming& incoming : returning.pieces) {
    const Piece& piece = range.pieces[incoming.piece];
    const CUdeviceptr at = range.base + piece.offset;
    const CUresult result = tools_.driver.mem_map(at, piece.bytes, 0, incoming.handle, 0);
    if (result != CUDA_SUCCESS) {
      return CudaError(tools_.driver, result, "mapping 0x%llx", (unsigned long long)at);
    }
    incoming.mapped = true;
    incoming_[incoming.piece] = true;
  }
  if (const CUresult result = memory_.SetAccess(range); result != CUDA_SUCCESS) {
    return CudaError(tools_.driver, result, "making 0x%llx accessible",
                     (unsigned long long)range.base);
  }
  range_mapped_ = true;
  next_chunk_ = 0;
  return {};
}

// The next chunk of the present range whose piece is coming back; stays there until it is started.
const Chunk* Restorer::NextChunk() {
  const auto* backing =
      static_cast<const RangeBacking*>(returns_[next_return_]->range->backing.get());
  if (backing == nullptr) return nullptr;
  for (; next_chunk_ < backing->chunks.size(); ++next_chunk_) {
    const Chunk& chunk = backing->chunks[next_chunk_];
    if (incoming_[chunk.piece]) return &chunk;
  }
  return nullptr;
}

Result<Restorer::Step> Restorer::StartRead(const Chunk& chunk) {
  if (stage_ == nullptr) {
    auto stage = OpenStage(tools_, stage_bytes_);
    if (!stage.ok()) return stage.error();
    stage_ = std::move(*stage);
  }
  if (!stage_->has_free()) return Step::kMustWait;
  const uint32_t block = stage_->TakeBlock();
  if (staged_.size() <= block) staged_.resize(block + 1);
  staged_[block] = {&chunk, returns_[next_return_]->range, block};
  ++next_chunk_;
  if (auto r = stage_->Read(block, {chunk.file, chunk.offset, chunk.bytes}); !r.ok()) {
    return r.error();
  }
  return Step::kStarted;
}

Result<void> Restorer::Launch(const Job& job, char* memory) {
  const auto& backing = static_cast<const RangeBacking&>(*job.range->backing);
  if (auto r = lane_.Queue(job.range->base, backing.ExtentsOf(*job.chunk), memory); !r.ok()) {
    return r;
  }
  copying_.push_back(job);
  return {};
}

Result<void> Restorer::FinishCopy() {
  if (auto r = lane_.WaitOldest(); !r.ok()) return r;
  const Job job = copying_.front();
  copying_.pop_front();
  (job.block == kNoBlock ? moved_.host : moved_.disk) += job.chunk->bytes;
  tools_.ledger.AddMoved(job.chunk->bytes);
  if (job.block != kNoBlock) stage_->GiveBlock(job.block);
  return {};
}

Result<void> Restorer::FinishReads(DiskStage::Patience patience) {
  while (stage_ != nullptr) {
    auto done = stage_->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    if (!(*done)->result.ok()) return (*done)->result;
    read_.push_back((*done)->block);
    patience = DiskStage::Patience::kLook;
  }
  return {};
}

}  // namespace parkade::shim
