// The pipeline back into HBM.
#include "shim/pause/restorer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {

Restorer::Restorer(MoveTools& tools, CUcontext context, std::vector<RangeReturn*> returns,
                   Bytes stage_bytes)
    : tools_(tools),
      context_(context),
      returns_(std::move(returns)),
      stage_bytes_(stage_bytes),
      hashes_(tools.crew),
      lane_(tools.driver, CopyLane::Direction::kIn) {}

Result<void> Restorer::Run() {
  InShim ours;
  ScopedRelaxedCapture relaxed(tools_.driver);
  ScopedContext current(tools_.driver, context_);
  if (current.status() != CUDA_SUCCESS) {
    return CudaError(tools_.driver, current.status(), "entering the context to restore to");
  }
  Result<void> result = lane_.Open(tools_.shelves.lanes);
  timeline_.Ended("open lane");
  if (result.ok()) gpu_hash_ = OpenGpuHash(tools_);
  timeline_.Ended("open hash");
  if (result.ok()) result = RunUntilIdle();
  if (!result.ok()) tools_.stop.store(true, std::memory_order_relaxed);
  lane_.Drain();  // before what is mapped may be unmapped again
  timeline_.Ended("drain");
  if (result.ok()) {
    lane_.Keep(tools_.shelves.lanes);
    if (gpu_hash_ != nullptr) tools_.shelves.hashes.Keep(context_, std::move(gpu_hash_));
  }
  gpu_hash_.reset();
  timeline_.Ended("close hash");
  hashes_.Drain();
  disk_.reset();
  blocks_.reset();
  timeline_.Ended("close");
  timeline_.Log("a lane in");
  return result;
}

Result<void> Restorer::RunUntilIdle() {
  for (;;) {
    if (tools_.Stopping()) return MakeError(Code::kCancelled, "CANCELLED", "another GPU failed");
    // What is staged first: it holds the stage's memory.
    if (!ready_.empty() && !Full()) {
      const uint32_t job = ready_.front();
      ready_.pop_front();
      if (auto r = Launch(job); !r.ok()) return r;
      continue;
    }
    auto step = StartNext();
    if (!step.ok()) return step.error();
    if (*step == Step::kStarted) continue;
    if (!copying_.empty()) {
      if (auto r = FinishCopy(); !r.ok()) return r;
      if (auto r = FinishVerifying(Patience::kLook); !r.ok()) return r;
      if (auto r = FinishHashes(Patience::kLook); !r.ok()) return r;
      if (auto r = FinishReads(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (!hashes_.idle()) {
      if (auto r = FinishHashes(Patience::kWait); !r.ok()) return r;
      if (auto r = FinishReads(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (disk_ != nullptr && !disk_->idle()) {
      if (auto r = FinishReads(Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (!verifying_.empty()) {
      if (auto r = FinishVerifying(Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (*step == Step::kNoMore) return {};
    if (waiting_ == nullptr) continue;
    if (auto r = WaitForRoom(); !r.ok()) return r;
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
    if (Incoming* awaited = chunk != nullptr ? Awaited(*chunk) : nullptr) {
      auto step = BringPiece(*awaited);
      if (!step.ok() || *step == Step::kMustWait) return step;
    }
    if (chunk != nullptr) break;
    auto step = BringRest();
    if (!step.ok() || *step == Step::kMustWait) return step;
    ++next_return_;
    range_mapped_ = false;
  }
  if (Full()) return Step::kMustWait;
  if (!chunk->host) return StartRead(*chunk);
  if (StagesHost(*chunk)) return StartFromPageable(*chunk);
  const uint32_t job = AddJob(*chunk, kNoBlock);
  if (!jobs_[job].on_gpu) Verify(job, chunk->host.memory(), nullptr);
  if (auto r = Launch(job); !r.ok()) return r.error();
  return Step::kStarted;
}

Result<void> Restorer::MapRange(RangeReturn& returning) {
  timeline_.Ended("queue");
  Range& range = *returning.range;
  incoming_.assign(range.pieces.size(), false);
  for (Incoming& incoming : returning.pieces) {
    incoming_[incoming.piece] = true;
    if (incoming.handle == 0) continue;  // in turn: when its first chunk is to come
    if (auto r = Map(range, incoming); !r.ok()) return r;
  }
  if (tools_.room == nullptr) {
    if (const CUresult result = tools_.memory.SetAccess(range); result != CUDA_SUCCESS) {
      return CudaError(tools_.driver, result, "making 0x%llx accessible",
                       (unsigned long long)range.base);
    }
  }
  timeline_.Ended("map");
  range_mapped_ = true;
  next_chunk_ = 0;
  return {};
}

Result<void> Restorer::Map(const Range& range, Incoming& incoming) {
  const Piece& piece = range.pieces[incoming.piece];
  const CUresult result = tools_.memory.MapAt(range, piece, incoming.handle);
  if (result != CUDA_SUCCESS) {
    return CudaError(tools_.driver, result, "mapping 0x%llx",
                     (unsigned long long)(range.base + piece.offset));
  }
  incoming.mapped = true;
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
  if (auto r = OpenDisk(); !r.ok()) return r.error();
  if (!blocks_->has_free()) return Step::kMustWait;
  const uint32_t block = blocks_->TakeBlock();
  reading_[block] = AddJob(chunk, block);
  if (auto r = disk_->Read(block, {chunk.file, chunk.offset, chunk.bytes}); !r.ok()) {
    return r.error();
  }
  return Step::kStarted;
}

Result<Restorer::Step> Restorer::StartFromPageable(const Chunk& chunk) {
  if (!blocks_->has_free()) return Step::kMustWait;
  const uint32_t block = blocks_->TakeBlock();
  const uint32_t job = AddJob(chunk, block);
  jobs_[job].on_gpu = false;  // the crew touches every byte anyway
  Verify(job, chunk.host.memory(), blocks_->memory(block));
  return Step::kStarted;
}

Result<void> Restorer::OpenDisk() {
  if (disk_ != nullptr) return {};
  if (blocks_ == nullptr) {
    auto blocks = StageBlocks::Make(tools_.pool, stage_bytes_,
                                    {tools_.files.setting().block, LargestInFiles()});
    if (!blocks.ok()) return blocks.error();
    blocks_ = std::move(*blocks);
  }
  disk_ = std::make_unique<DiskStage>(*blocks_, tools_.files, tools_.lanes, tools_.make_engine,
                                      tools_.ledger);
  reading_.resize(blocks_->size());
  return {};
}

// A stage's blocks may be smaller now than they were when chunks left with fewer GPUs.
Bytes Restorer::LargestInFiles() const {
  Bytes largest = 0;
  for (const RangeReturn* returning : returns_) {
    const auto* backing = static_cast<const RangeBacking*>(returning->range->backing.get());
    if (backing == nullptr) continue;
    for (const Chunk& chunk : backing->chunks) {
      if (!chunk.host) largest = std::max(largest, chunk.bytes);
    }
  }
  return largest;
}

// Whether a chunk in host memory comes in through pinned memory, as Evictor::StagesHost.
bool Restorer::StagesHost(const Chunk& chunk) {
  if (chunk.host.pinned()) return false;
  if (blocks_ == nullptr) {
    const Bytes bytes = std::min(stage_bytes_, kHostStage);
    auto blocks = StageBlocks::Make(tools_.pool, bytes, {.least = LargestInFiles()});
    if (!blocks.ok()) return false;
    blocks_ = std::move(*blocks);
  }
  return blocks_->pinned() && chunk.bytes <= blocks_->block_bytes();
}

uint32_t Restorer::AddJob(const Chunk& chunk, uint32_t block) {
  const bool on_gpu = gpu_hash_ != nullptr && GpuHash::Takes(chunk.extent_count);
  jobs_.push_back({&chunk, returns_[next_return_]->range, block, on_gpu});
  ++next_chunk_;
  return uint32_t(jobs_.size() - 1);
}

void Restorer::Verify(uint32_t job, const char* from, char* to) {
  const Chunk& chunk = *jobs_[job].chunk;
  hashes_.Start({from, to, chunk.bytes, nullptr, chunk.digests.data(), job});
}

Result<void> Restorer::Launch(uint32_t number) {
  const Job& job = jobs_[number];
  const auto& backing = static_cast<const RangeBacking&>(*job.range->backing);
  char* const memory =
      job.block != kNoBlock ? blocks_->memory(job.block) : job.chunk->host.memory();
  const auto extents = backing.ExtentsOf(*job.chunk);
  if (auto r = lane_.Queue(job.range->base, extents, memory); !r.ok()) return r;
  copying_.push_back(number);
  if (!job.on_gpu) return {};
  if (auto r = gpu_hash_->Queue(job.range->base, extents, lane_.last()); !r.ok()) return r;
  verifying_.push_back(number);
  return {};
}

Result<void> Restorer::FinishCopy() {
  timeline_.Ended("queue");
  if (auto r = lane_.WaitOldest(); !r.ok()) return r;
  timeline_.Ended(moved_.host == 0 ? "first copy" : "copies");
  const Job& job = jobs_[copying_.front()];
  copying_.pop_front();
  (job.chunk->host ? moved_.host : moved_.disk) += job.chunk->bytes;
  tools_.ledger.AddMoved(job.chunk->bytes);
  if (job.block != kNoBlock) blocks_->GiveBlock(job.block);
  return {};
}

Result<void> Restorer::FinishHashes(Patience patience) {
  while (const auto done = hashes_.Next(patience)) {
    patience = Patience::kLook;
    const Job& job = jobs_[done->tag];
    if (done->wrong) return Corrupt(job, *done->wrong);
    if (job.block != kNoBlock) ready_.push_back(uint32_t(done->tag));
  }
  return {};
}

Result<void> Restorer::FinishReads(Patience patience) {
  while (disk_ != nullptr) {
    auto done = disk_->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    patience = Patience::kLook;
    const uint32_t block = (*done)->block;
    const uint32_t number = reading_[block];
    if (!(*done)->result.ok()) return Unread(jobs_[number], (*done)->result.error());
    if (jobs_[number].on_gpu) {
      ready_.push_back(number);
      continue;
    }
    Verify(number, blocks_->memory(block), nullptr);
  }
  return {};
}

Result<void> Restorer::FinishVerifying(Patience patience) {
  while (!verifying_.empty()) {
    if (patience == Patience::kLook && !gpu_hash_->OldestIsDone()) return {};
    patience = Patience::kLook;
    const auto digests = gpu_hash_->WaitOldest();
    if (!digests.ok()) return digests.error();
    const Job& job = jobs_[verifying_.front()];
    verifying_.pop_front();
    const auto [found, wanted] =
        std::mismatch(digests->begin(), digests->end(), job.chunk->digests.begin());
    if (found != digests->end()) return Corrupt(job, size_t(found - digests->begin()));
  }
  return {};
}

Error Restorer::Unread(const Job& job, const Error& cause) const {
  Error e = MakeError(cause.code, cause.reason, "the backup of 0x%llx on device %d: %s",
                      (unsigned long long)AddressOf(job, 0), job.range->device, cause.what);
  e.os_errno = cause.os_errno;
  return e;
}

Error Restorer::Corrupt(const Job& job, size_t block) const {
  const Bytes at = block * kHashBlock;
  const Bytes bytes = std::min(kHashBlock, job.chunk->bytes - at);
  char place[64] = "host memory";
  if (!job.chunk->host) {
    snprintf(place, sizeof place, "file %u at %llu", job.chunk->file,
             (unsigned long long)(job.chunk->offset + at));
  }
  return MakeError(Code::kDataLoss, "BACKUP_CORRUPT",
                   "the backup of 0x%llx on device %d is not what was stored: %llu bytes in %s",
                   (unsigned long long)AddressOf(job, at), job.range->device,
                   (unsigned long long)bytes, place);
}

CUdeviceptr Restorer::AddressOf(const Job& job, Bytes at) const {
  const auto& backing = static_cast<const RangeBacking&>(*job.range->backing);
  for (const Extent& extent : backing.ExtentsOf(*job.chunk)) {
    if (at < extent.bytes) return job.range->base + extent.offset + at;
    at -= extent.bytes;
  }
  return job.range->base;
}

}  // namespace parkade::shim
