// The pipeline back into HBM.
#include "shim/pause/restorer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

constexpr Bytes kMostRun = 32_MiB;
constexpr Bytes kMostFill = GpuHash::kMostBlocks * kHashBlock;

}  // namespace

Restorer::Restorer(MoveTools& tools, CUcontext context, std::vector<RangeReturn*> returns,
                   Bytes stage_bytes)
    : tools_(tools),
      context_(context),
      returns_(std::move(returns)),
      stage_(tools.StageOf(stage_bytes)),
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
  hashed_on_gpu_ = gpu_hash_ != nullptr;
  timeline_.Ended("open hash");
  if (result.ok()) result = RunUntilIdle();
  if (result.ok() && tools_.poisons) result = Poison();
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
  stage_.Close();
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
    if (stage_.disk_works()) {
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

Result<void> Restorer::Poison() {
  constexpr uint64_t kPoison[2] = {0xCBCBCBCBCBCBCBCB, 0xCBCBCBCBCBCBCBCB};
  for (const RangeReturn* returning : returns_) {
    const Range& range = *returning->range;
    if (PlaceOf(range) != wire::Place::kDiscarded || range.base == 0) continue;
    const Extent whole{0, range.bytes};
    if (auto r = lane_.QueueFill(range.base, {&whole, 1}, kPoison); !r.ok()) return r;
    if (auto r = lane_.WaitOldest(); !r.ok()) return r;
    tools_.ledger.AddWarning("what a pause discards comes back full of 0xCB (PARKADE_POISON)");
  }
  return {};
}

Result<Restorer::Step> Restorer::StartNext() {
  const Block* block = nullptr;
  while (block == nullptr) {
    if (next_return_ == returns_.size()) return Step::kNoMore;
    if (!range_mapped_) {
      if (auto r = MapRange(*returns_[next_return_]); !r.ok()) return r.error();
    }
    block = NextBlock();
    if (Incoming* awaited = block != nullptr ? Awaited(*block) : nullptr) {
      auto step = BringPiece(*awaited);
      if (!step.ok() || *step == Step::kMustWait) return step;
    }
    if (block != nullptr) break;
    auto step = BringRest();
    if (!step.ok() || *step == Step::kMustWait) return step;
    ++next_return_;
    range_mapped_ = false;
  }
  if (Full()) return Step::kMustWait;
  if (block->filled) {
    if (auto r = StartFill(); !r.ok()) return r.error();
    return Step::kStarted;
  }
  if (!block->in_host) return StartRead();
  if (!block->host.pinned() && stage_.OpenHost()) return StartFromPageable();
  const char* const memory = block->host.memory();
  const uint32_t job = AddJob(kMostRun, kNoBlock);
  if (!jobs_[job].on_gpu) Verify(job, memory, nullptr);
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
  next_block_ = 0;
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

const Block* Restorer::NextBlock() {
  const auto* backing =
      static_cast<const RangeBacking*>(returns_[next_return_]->range->backing.get());
  if (backing == nullptr) return nullptr;
  for (; next_block_ < backing->blocks.size(); ++next_block_) {
    const Block& block = backing->blocks[next_block_];
    if (incoming_[block.piece]) return &block;
  }
  return nullptr;
}

const RangeBacking& Restorer::BackingOf(const Job& job) {
  return static_cast<const RangeBacking&>(*job.range->backing);
}

uint32_t Restorer::AddJob(Bytes most, uint32_t stage) {
  Job job{returns_[next_return_]->range, next_block_, 0, 0, stage, gpu_hash_ != nullptr, 0};
  const std::vector<Block>& blocks = BackingOf(job).blocks;
  size_t parts = 0;
  for (size_t i = next_block_; i < blocks.size() && job.count < GpuHash::kMostBlocks; ++i) {
    parts += blocks[i].extent_count;
    if (job.count != 0 && (job.bytes + blocks[i].bytes > most || parts > GpuHash::kMostParts ||
                           !AreNeighbours(blocks[i - 1], blocks[i]))) {
      break;
    }
    job.bytes += blocks[i].bytes;
    ++job.count;
  }
  next_block_ += job.count;
  jobs_.push_back(job);
  return uint32_t(jobs_.size() - 1);
}

// Without a kernel nothing verifies a fill: nothing but its 16 bytes was stored.
Result<void> Restorer::StartFill() {
  const uint32_t number = AddJob(kMostFill, kNoBlock);
  const Job& job = jobs_[number];
  const auto extents = Merged(BackingOf(job), job.first, job.count);
  if (auto r = lane_.QueueFill(job.range->base, extents, FirstOf(job).pattern); !r.ok()) return r;
  copying_.push_back(number);
  return VerifyOnGpu(number);
}

Result<Restorer::Step> Restorer::StartRead() {
  if (auto r = stage_.OpenDisk(); !r.ok()) return r.error();
  reading_.resize(stage_.blocks->size());
  if (!stage_.blocks->has_free()) return Step::kMustWait;
  const uint32_t stage = stage_.blocks->TakeBlock();
  const Job& job = jobs_[reading_[stage] = AddJob(stage_.blocks->block_bytes(), stage)];
  const FileSpace::Part& file = *FirstOf(job).file;
  if (auto r = stage_.disk->Read(stage, {file.file, file.offset, job.bytes}); !r.ok())
    return r.error();
  return Step::kStarted;
}

Result<Restorer::Step> Restorer::StartFromPageable() {
  if (!stage_.blocks->has_free()) return Step::kMustWait;
  const uint32_t stage = stage_.blocks->TakeBlock();
  const uint32_t job = AddJob(stage_.blocks->block_bytes(), stage);
  jobs_[job].on_gpu = false;  // the crew touches every byte anyway
  Verify(job, FirstOf(jobs_[job]).host.memory(), stage_.blocks->memory(stage));
  return Step::kStarted;
}

void Restorer::Verify(uint32_t number, const char* from, char* to) {
  Job& job = jobs_[number];
  job.unverified = job.count;
  for (uint32_t i = 0; i < job.count; ++i) {
    const Block& block = BackingOf(job).blocks[job.first + i];
    const uint64_t tag = uint64_t(number) << 32 | i;
    hashes_.Start({from, to, block.bytes, nullptr, &block.digest, tag});
    from += block.bytes;
    if (to != nullptr) to += block.bytes;
  }
}

Result<void> Restorer::Launch(uint32_t number) {
  const Job& job = jobs_[number];
  const char* const memory =
      job.stage != kNoBlock ? stage_.blocks->memory(job.stage) : FirstOf(job).host.memory();
  const auto extents = Merged(BackingOf(job), job.first, job.count);
  if (auto r = lane_.Queue(job.range->base, extents, const_cast<char*>(memory)); !r.ok()) return r;
  copying_.push_back(number);
  return job.on_gpu ? VerifyOnGpu(number) : Result<void>();
}

// Once what is queued last in the lane has come in.
Result<void> Restorer::VerifyOnGpu(uint32_t number) {
  const Job& job = jobs_[number];
  if (!job.on_gpu) return {};
  const RangeBacking& backing = BackingOf(job);
  std::vector<GpuHash::Block> blocks;
  for (uint32_t i = 0; i < job.count; ++i) {
    blocks.push_back({job.range->base, backing.ExtentsOf(backing.blocks[job.first + i])});
  }
  if (auto r = gpu_hash_->Queue(blocks, lane_.last()); !r.ok()) return r;
  verifying_.push_back(number);
  return {};
}

Result<void> Restorer::FinishCopy() {
  timeline_.Ended("queue");
  if (auto r = lane_.WaitOldest(); !r.ok()) return r;
  timeline_.Ended(moved_.host == 0 ? "first copy" : "copies");
  const Job& job = jobs_[copying_.front()];
  copying_.pop_front();
  const Block& first = FirstOf(job);
  (first.filled ? moved_.elided : first.in_host ? moved_.host : moved_.disk) += job.bytes;
  tools_.ledger.AddMoved(job.bytes);
  if (job.stage != kNoBlock) stage_.blocks->GiveBlock(job.stage);
  return {};
}

Result<void> Restorer::FinishHashes(Patience patience) {
  while (const auto done = hashes_.Next(patience)) {
    patience = Patience::kLook;
    const auto number = uint32_t(done->tag >> 32);
    Job& job = jobs_[number];
    if (done->wrong) return Corrupt(job, uint32_t(done->tag));
    if (--job.unverified == 0 && job.stage != kNoBlock) ready_.push_back(number);
  }
  return {};
}

Result<void> Restorer::FinishReads(Patience patience) {
  while (stage_.disk != nullptr) {
    auto done = stage_.disk->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    patience = Patience::kLook;
    const uint32_t stage = (*done)->block;
    const uint32_t number = reading_[stage];
    if (!(*done)->result.ok()) return Unread(jobs_[number], (*done)->result.error());
    if (jobs_[number].on_gpu) {
      ready_.push_back(number);
      continue;
    }
    Verify(number, stage_.blocks->memory(stage), nullptr);
  }
  return {};
}

Result<void> Restorer::FinishVerifying(Patience patience) {
  while (!verifying_.empty()) {
    if (patience == Patience::kLook && !gpu_hash_->OldestIsDone()) return {};
    patience = Patience::kLook;
    const auto found = gpu_hash_->WaitOldest();
    if (!found.ok()) return found.error();
    const Job& job = jobs_[verifying_.front()];
    verifying_.pop_front();
    for (size_t i = 0; i < found->size(); ++i) {
      const Digest& wanted = BackingOf(job).blocks[job.first + i].digest;
      if (DigestOf((*found)[i]) != wanted) return Corrupt(job, i);
    }
  }
  return {};
}

Error Restorer::Unread(const Job& job, const Error& cause) const {
  Error e = MakeError(cause.code, cause.reason, "the backup of 0x%llx on device %d: %s",
                      (unsigned long long)AddressOf(job, 0), job.range->device, cause.what);
  e.os_errno = cause.os_errno;
  return e;
}

Error Restorer::Corrupt(const Job& job, size_t index) const {
  const Block& block = BackingOf(job).blocks[job.first + index];
  char place[64] = "host memory";
  if (!block.in_host && block.file) {
    snprintf(place, sizeof place, "file %u at %llu", block.file->file,
             (unsigned long long)block.file->offset);
  }
  return MakeError(Code::kDataLoss, "BACKUP_CORRUPT",
                   "the backup of 0x%llx on device %d is not what was stored: %llu bytes in %s",
                   (unsigned long long)AddressOf(job, index), job.range->device,
                   (unsigned long long)block.bytes, place);
}

CUdeviceptr Restorer::AddressOf(const Job& job, size_t index) {
  const RangeBacking& backing = BackingOf(job);
  return job.range->base + backing.ExtentsOf(backing.blocks[job.first + index]).front().offset;
}

}  // namespace parkade::shim
