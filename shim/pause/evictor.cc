// The pipeline out of HBM.
#include "shim/pause/evictor.h"

#include <algorithm>
#include <utility>

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"

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
      hashes_(tools.crew),
      lane_(tools.driver, CopyLane::Direction::kOut),
      backings_(moves_.size()),
      piece_left_(moves_.size()),
      releases_(tools.driver, tools.memory, &tools.ledger) {}

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
  disk_.reset();
  blocks_.reset();
  timeline_.Ended("close");
  timeline_.Log("a lane out");
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
      if (auto r = FinishHashes(Patience::kLook); !r.ok()) return r;
      if (auto r = FinishWrites(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (!hashes_.idle()) {
      if (auto r = FinishHashes(Patience::kWait); !r.ok()) return r;
      if (auto r = FinishWrites(Patience::kLook); !r.ok()) return r;
      continue;
    }
    if (disk_ != nullptr && !disk_->idle()) {
      if (auto r = FinishWrites(Patience::kWait); !r.ok()) return r;
      continue;
    }
    if (*step == Step::kNoMore) break;
  }
  if (disk_ != nullptr) {
    if (auto r = disk_->Flush(); !r.ok()) return r;
  }
  timeline_.Ended("queue");
  const Result<void> released = releases_.Finish();
  timeline_.Ended("last release");
  return released;
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
  auto backing = std::make_unique<RangeBacking>(tools_.ledger);
  backings_[next_] = backing.get();
  move.range->backing = std::move(backing);
  piece_left_[next_] = LiveBytesByPiece(*move.range);
  cutter_ = std::make_unique<ChunkCutter>(*move.range);
  host_left_ = move.host_bytes;
  for (size_t i = 0; i < move.range->pieces.size(); ++i) {
    if (piece_left_[next_][i] != 0) continue;
    if (auto r = releases_.Release(*move.range, move.range->pieces[i]); !r.ok()) return r;
  }
  return {};
}

Result<bool> Evictor::CutToHost() {
  Bytes want = std::min({cutter_->Next(), kMostChunk, host_left_});
  if (stages_host_) {
    if (!blocks_->has_free()) return false;
    want = std::min(want, blocks_->block_bytes());
  }
  auto block = tools_.pool.Take(want, kDirectAlign, HostPool::For::kBackup, Deadline::InMs(kPinMs));
  if (!block.ok()) {
    // The budget allowed it and the machine does not have it: `auto` has another place.
    if (moves_[next_].policy != wire::Policy::kAuto || space_ == nullptr) return block.error();
    host_left_ = 0;
    return CutToDisk();
  }
  if (!block->pinned() && !stages_host_ && StagesHost()) {
    *block = HostBlock();  // a smaller one will do
    stages_host_ = true;
    return CutToHost();
  }
  host_left_ -= block->bytes();
  const bool staged = stages_host_ && !block->pinned();
  RangeBacking& backing = *backings_[next_];
  cutter_->Cut(backing, block->bytes()).host = std::move(*block);
  const uint32_t through = staged ? blocks_->TakeBlock() : kNoBlock;
  if (auto r = Launch(uint32_t(backing.chunks.size() - 1), through); !r.ok()) return r.error();
  return true;
}

// Whether there is pinned memory for chunks on their way to memory that is not. Without it the
// driver copies straight there, through a stage of its own.
bool Evictor::StagesHost() {
  if (blocks_ == nullptr) {
    auto blocks = StageBlocks::Make(tools_.pool, std::min(stage_bytes_, kHostStage), {});
    if (!blocks.ok()) return false;
    blocks_ = std::move(*blocks);
  }
  return blocks_->pinned();
}

Result<bool> Evictor::CutToDisk() {
  if (auto r = OpenDisk(); !r.ok()) return r.error();
  if (!blocks_->has_free()) return false;
  auto part = space_->Take(std::min(cutter_->Next(), blocks_->block_bytes()));
  if (!part.ok()) return part.error();
  RangeBacking& backing = *backings_[next_];
  Chunk& chunk = cutter_->Cut(backing, part->bytes);
  chunk.file = part->file;
  chunk.offset = part->offset;
  const uint32_t number = uint32_t(backing.chunks.size() - 1);
  if (auto r = Launch(number, blocks_->TakeBlock()); !r.ok()) return r.error();
  return true;
}

Result<void> Evictor::OpenDisk() {
  if (disk_ != nullptr) return {};
  if (space_ == nullptr) {
    return MakeError(Code::kInternal, "NO_FILES", "bytes without a place to go to");
  }
  if (blocks_ == nullptr) {
    auto blocks = StageBlocks::Make(tools_.pool, stage_bytes_, {tools_.files.setting().block, 0});
    if (!blocks.ok()) return blocks.error();
    blocks_ = std::move(*blocks);
  }
  disk_ = std::make_unique<DiskStage>(*blocks_, tools_.files, tools_.lanes, tools_.make_engine,
                                      tools_.ledger);
  writing_.resize(blocks_->size());
  return {};
}

char* Evictor::MemoryOf(const Job& job) {
  return job.block != kNoBlock ? blocks_->memory(job.block) : ChunkOf(job).host.memory();
}

Result<void> Evictor::Launch(uint32_t number, uint32_t block) {
  const RangeBacking& backing = *backings_[next_];
  const Chunk& chunk = backing.chunks[number];
  const auto extents = backing.ExtentsOf(chunk);
  const CUdeviceptr base = moves_[next_].range->base;
  // What the crew copies to pageable memory it hashes as well.
  const bool crew = chunk.host && block != kNoBlock;
  const Job job{next_, number, block, gpu_hash_ && !crew && GpuHash::Takes(extents.size())};
  if (job.on_gpu) {
    if (auto r = gpu_hash_->Queue(base, extents, nullptr); !r.ok()) return r;
  }
  if (auto r = lane_.Queue(base, extents, MemoryOf(job)); !r.ok()) return r;
  copying_.push_back(uint32_t(jobs_.size()));
  jobs_.push_back(job);
  return {};
}

Result<void> Evictor::FinishCopy() {
  timeline_.Ended("queue");
  if (auto r = lane_.WaitOldest(); !r.ok()) return r;
  timeline_.Ended(moved_.host == 0 ? "first copy" : "copies");
  const uint32_t number = copying_.front();
  copying_.pop_front();
  const Job& job = jobs_[number];
  Chunk& chunk = ChunkOf(job);
  if (job.on_gpu) {
    // Behind every copy in the lane there is a kernel, which has ended long before it.
    const auto digests = gpu_hash_->WaitOldest();
    if (!digests.ok()) return digests.error();
    std::copy(digests->begin(), digests->end(), chunk.digests.begin());
    return Hashed(number);
  }
  char* const to = chunk.host && job.block != kNoBlock ? chunk.host.memory() : nullptr;
  hashes_.Start({MemoryOf(job), to, chunk.bytes, chunk.digests.data(), nullptr, number});
  return {};
}

Result<void> Evictor::FinishHashes(Patience patience) {
  while (const auto done = hashes_.Next(patience)) {
    patience = Patience::kLook;
    if (auto r = Hashed(uint32_t(done->tag)); !r.ok()) return r;
  }
  return {};
}

Result<void> Evictor::Hashed(uint32_t number) {
  const Job job = jobs_[number];
  const Chunk& chunk = ChunkOf(job);
  if (!chunk.host) {
    writing_[job.block] = number;
    return disk_->Write(job.block, {chunk.file, chunk.offset, chunk.bytes});
  }
  if (job.block != kNoBlock) blocks_->GiveBlock(job.block);
  return Stored(job);
}

Result<void> Evictor::FinishWrites(Patience patience) {
  while (disk_ != nullptr) {
    auto done = disk_->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    if (!(*done)->result.ok()) return (*done)->result;
    patience = Patience::kLook;
    blocks_->GiveBlock((*done)->block);
    if (auto r = Stored(jobs_[writing_[(*done)->block]]); !r.ok()) return r;
  }
  return {};
}

Result<void> Evictor::Stored(const Job& job) {
  Chunk& chunk = ChunkOf(job);
  backings_[job.move]->Stored(chunk);
  (chunk.host ? moved_.host : moved_.disk) += chunk.bytes;
  tools_.ledger.AddMoved(chunk.bytes);
  Range& range = *moves_[job.move].range;
  Bytes& left = piece_left_[job.move][chunk.piece];
  left -= chunk.bytes;
  return left == 0 ? releases_.Release(range, range.pieces[chunk.piece]) : Result<void>();
}

}  // namespace parkade::shim
