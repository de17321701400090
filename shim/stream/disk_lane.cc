// Moves parts through blocks. A wait for a copy is short, since nothing is queued that waits for
// the application; so a lane looks after its copies first, which keeps the disk busy.
#include "shim/stream/disk_lane.h"

#include <algorithm>
#include <utility>

namespace parkade::shim {

Result<void> DiskLane::Open() {
  if (copies_ == nullptr) {
    copies_ = std::make_unique<CopyLane>(tools_.driver, direction_);
    if (auto r = copies_->Open(tools_.shelf); !r.ok()) {
      copies_.reset();
      return r;
    }
  }
  if (tools_.files.size() == 0) return {};  // all is in host memory
  if (blocks_ == nullptr) {
    auto made = StageBlocks::Make(tools_.pool, tools_.lane_bytes,
                                  {.most = tools_.files.setting().block, .least = kDirectAlign});
    if (!made.ok()) return made.error();
    blocks_ = std::move(*made);
    parts_.resize(blocks_->size());
  }
  if (disk_ == nullptr) {
    disk_ =
        std::make_unique<DiskStage>(*blocks_, tools_.files, 2, tools_.make_engine, tools_.ledger);
  }
  return {};
}

void DiskLane::Close() {
  if (copies_ != nullptr) copies_->Drain();
  copying_.clear();
  disk_.reset();  // before the blocks, and before copies could use them again
  blocks_.reset();
  copies_.reset();
  copied_.clear();
  written_.clear();
}

Result<void> DiskLane::Begin(const Part& part) {
  const uint32_t block = blocks_->TakeBlock();
  parts_[block] = part;
  if (direction_ == Direction::kIn) return disk_->Read(block, part.file);
  const Extent extent{0, part.file.bytes};
  if (auto r = copies_->Queue(part.device, {&extent, 1}, blocks_->memory(block)); !r.ok()) return r;
  copying_.push_back(block);
  return {};
}

Result<void> DiskLane::Advance() {
  if (copying_.empty()) return EndRequest();
  // Reads: a free block is worth more than a copy's end. Writes: the disk waits for the copy.
  const bool reads = direction_ == Direction::kIn && disk_ != nullptr && !disk_->idle();
  if (reads && blocks_->has_free() && !copies_->full()) return EndRequest();
  return EndOldestCopy();
}

Result<void> DiskLane::EndOldestCopy() {
  if (auto r = copies_->WaitOldest(); !r.ok()) return r;
  const uint32_t block = copying_.front();
  copying_.pop_front();
  if (block == kNoBlock) return {};
  if (direction_ == Direction::kIn) {
    blocks_->GiveBlock(block);
    return {};
  }
  copied_.push_back(parts_[block].owner);
  return disk_->Write(block, parts_[block].file);
}

Result<void> DiskLane::EndRequest() {
  auto done = disk_->Next(Patience::kWait);
  if (!done.ok()) return done.error();
  if (!*done) return {};
  const uint32_t block = (*done)->block;
  if (!(*done)->result.ok()) return (*done)->result.error();
  const Part& part = parts_[block];
  if (direction_ == Direction::kOut) {
    written_.push_back(part.owner);
    blocks_->GiveBlock(block);
    return {};
  }
  if (auto r = MakeRoom(); !r.ok()) return r;
  const Extent extent{0, part.file.bytes};
  if (auto r = copies_->Queue(part.device, {&extent, 1}, blocks_->memory(block)); !r.ok()) return r;
  copying_.push_back(block);
  copied_.push_back(part.owner);
  return {};
}

Result<void> DiskLane::MakeRoom() {
  while (copies_->full()) {
    if (auto r = EndOldestCopy(); !r.ok()) return r;
  }
  return {};
}

Result<void> DiskLane::StartCopy(CUdeviceptr device, char* host, Bytes bytes) {
  if (auto r = MakeRoom(); !r.ok()) return r;
  const Extent extent{0, bytes};
  if (auto r = copies_->Queue(device, {&extent, 1}, host); !r.ok()) return r;
  copying_.push_back(kNoBlock);
  return {};
}

Result<void> DiskLane::StartHostBucket(const StreamJob& job, Bytes end) {
  const StreamSlot& slot = tools_.slots[job.slot];
  const Bytes ties = tools_.bucket(job.bucket).ties.offset;
  Bytes at = 0;
  for (const HostBlock& block : tools_.in_host[job.bucket]) {
    const Bytes behind = at + block.bytes();
    // A block may hold the segments' end, and the ties behind it.
    const Bytes segments = std::min(behind, end);
    if (segments > at) {
      if (auto r = StartCopy(slot.base + at, block.memory(), segments - at); !r.ok()) return r;
    }
    if (slot.ties != 0 && behind > ties) {
      const Bytes from = std::max(at, ties);
      auto r = StartCopy(slot.ties + (from - ties), block.memory() + (from - at), behind - from);
      if (!r.ok()) return r;
    }
    at = behind;
  }
  return {};
}

Result<void> DiskLane::StartZero(CUdeviceptr device, Bytes bytes) {
  if (bytes == 0) return {};
  if (auto r = MakeRoom(); !r.ok()) return r;
  const Extent extent{0, bytes};
  const uint64_t zero[2] = {};
  if (auto r = copies_->QueueFill(device, {&extent, 1}, zero); !r.ok()) return r;
  copying_.push_back(kNoBlock);
  return {};
}

Result<void> DiskLane::WaitCopies() {
  while (!copying_.empty()) {
    if (auto r = EndOldestCopy(); !r.ok()) return r;
  }
  return {};
}

Result<void> DiskLane::CopyNow(CUdeviceptr device, char* host, Bytes bytes) {
  if (auto r = StartCopy(device, host, bytes); !r.ok()) return r;
  return WaitCopies();
}

}  // namespace parkade::shim
