// Evictor's blocks on their way: runs of neighbours, from HBM to the places where they stay.
#include <algorithm>
#include <utility>

#include "shim/pause/evictor.h"

namespace parkade::shim {
namespace {

// Large enough that a copy's launch and its wake-up cost nothing beside it.
constexpr Bytes kMostRun = 32_MiB;
constexpr uint64_t kPinMs = 60'000;

}  // namespace

Result<Evictor::Step> Evictor::StartNext() {
  if (to_move_.empty()) return Step::kNoMore;
  if (lane_.full()) return Step::kMustWait;
  auto started = At(to_move_.front()).file ? StartToDisk() : StartToHost();
  if (!started.ok()) return started.error();
  return *started ? Step::kStarted : Step::kMustWait;
}

uint32_t Evictor::RunLength(Bytes most) const {
  const BlockAt first = to_move_.front();
  const RangeBacking& backing = *backings_[first.move];
  Bytes sum = At(first).bytes;
  uint32_t count = 1;
  for (; count < to_move_.size(); ++count) {
    const BlockAt at = to_move_[count];
    if (at.move != first.move || at.block != first.block + count) break;
    sum += At(at).bytes;
    if (sum > most || !AreNeighbours(backing.blocks[at.block - 1], backing.blocks[at.block])) break;
  }
  return count;
}

Result<bool> Evictor::StartToHost() {
  const Bytes most = stages_host_ ? std::min(kMostRun, stage_.blocks->block_bytes()) : kMostRun;
  if (stages_host_ && !stage_.blocks->has_free()) return false;
  if (!At(to_move_.front()).host) {
    auto taken = TakeHost(most);
    if (!taken.ok()) return taken.error();
    if (!*taken) return StartToDisk();
  }
  if (!At(to_move_.front()).host.pinned() && !stages_host_ && stage_.OpenHost()) {
    stages_host_ = true;
    return StartToHost();
  }
  const bool staged = stages_host_ && !At(to_move_.front()).host.pinned();
  const uint32_t count = RunLength(staged ? stage_.blocks->block_bytes() : kMostRun);
  if (auto r = Launch(count, staged ? stage_.blocks->TakeBlock() : kNoBlock); !r.ok())
    return r.error();
  return true;
}

// Host memory in one piece for the first block to move and for its neighbours, as far as it goes.
// False: there is none, but a file has room.
Result<bool> Evictor::TakeHost(Bytes most) {
  const BlockAt first = to_move_.front();
  Bytes want = 0;
  uint32_t count = 0;
  for (; count < to_move_.size(); ++count) {
    const BlockAt at = to_move_[count];
    if (at.move != first.move || At(at).host || At(at).file) break;
    if (count != 0 && want + At(at).bytes > most) break;
    want += At(at).bytes;
  }
  auto taken =
      tools_.pool.Take(want, At(first).bytes, HostPool::For::kBackup, Deadline::InMs(kPinMs));
  if (!taken.ok()) {
    // The budget allowed it and the machine does not have it: `auto` has another place.
    if (moves_[first.move].policy != wire::Policy::kAuto || space_ == nullptr) return taken.error();
    auto part = space_->Take(At(first).bytes);
    if (!part.ok()) return part.error();
    if (part->bytes != At(first).bytes) return taken.error();
    At(first).file = *part;
    return false;
  }
  const uint32_t take = ++backings_[first.move]->last_take;
  for (uint32_t i = 0; i < count && At(to_move_[i]).bytes <= taken->bytes(); ++i) {
    Block& block = At(to_move_[i]);
    block.host = taken->Split(block.bytes);
    block.take = take;
    if (!*taken) break;
  }
  return true;
}

Result<bool> Evictor::StartToDisk() {
  if (auto r = stage_.OpenDisk(); !r.ok()) return r.error();
  writing_.resize(stage_.blocks->size());
  if (!stage_.blocks->has_free()) return false;
  const uint32_t count = RunLength(stage_.blocks->block_bytes());
  if (auto r = Launch(count, stage_.blocks->TakeBlock()); !r.ok()) return r.error();
  return true;
}

Result<void> Evictor::Launch(uint32_t count, uint32_t stage) {
  Job job{to_move_.front(), count, 0, stage, gpu_hash_ != nullptr, 0};
  RangeBacking& backing = *backings_[job.first.move];
  for (uint32_t i = 0; i < count; ++i) job.bytes += At(to_move_[i]).bytes;
  char* const memory =
      stage != kNoBlock ? stage_.blocks->memory(stage) : At(job.first).host.memory();
  const auto extents = Merged(backing, job.first.block, count);
  if (auto r = lane_.Queue(moves_[job.first.move].range->base, extents, memory); !r.ok()) return r;
  to_move_.erase(to_move_.begin(), to_move_.begin() + count);
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
  Job& job = jobs_[number];
  const bool to_file = At(job.first).file.has_value();
  const bool copies_on = !to_file && job.stage != kNoBlock;
  if (job.hashed && !copies_on) return Hashed(number);
  const char* from =
      job.stage != kNoBlock ? stage_.blocks->memory(job.stage) : At(job.first).host.memory();
  job.unhashed = job.count;
  for (uint32_t i = 0; i < job.count; ++i) {
    Block& block = At({job.first.move, job.first.block + i});
    char* const to = copies_on ? block.host.memory() : nullptr;
    hashes_.Start({from, to, block.bytes, &block.digest, nullptr, number});
    from += block.bytes;
  }
  return {};
}

Result<void> Evictor::FinishHashes(Patience patience) {
  while (const auto done = hashes_.Next(patience)) {
    patience = Patience::kLook;
    if (--jobs_[done->tag].unhashed != 0) continue;
    if (auto r = Hashed(uint32_t(done->tag)); !r.ok()) return r;
  }
  return {};
}

Result<void> Evictor::Hashed(uint32_t number) {
  const Job& job = jobs_[number];
  if (const auto& file = At(job.first).file) {
    writing_[job.stage] = number;
    return stage_.disk->Write(job.stage, {file->file, file->offset, job.bytes});
  }
  if (job.stage != kNoBlock) stage_.blocks->GiveBlock(job.stage);
  return Stored(job);
}

Result<void> Evictor::FinishWrites(Patience patience) {
  while (stage_.disk != nullptr) {
    auto done = stage_.disk->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    if (!(*done)->result.ok()) return (*done)->result;
    patience = Patience::kLook;
    stage_.blocks->GiveBlock((*done)->block);
    if (auto r = Stored(jobs_[writing_[(*done)->block]]); !r.ok()) return r;
  }
  return {};
}

Result<void> Evictor::Stored(const Job& job) {
  RangeBacking& backing = *backings_[job.first.move];
  tools_.ledger.AddMoved(job.bytes);
  (At(job.first).file ? moved_.disk : moved_.host) += job.bytes;
  for (uint32_t i = 0; i < job.count; ++i) {
    const BlockAt at{job.first.move, job.first.block + i};
    At(at).file ? backing.InFile(At(at)) : backing.InHost(At(at));
    if (auto r = Settle(at); !r.ok()) return r;
  }
  return {};
}

}  // namespace parkade::shim
