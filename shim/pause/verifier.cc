// Blocks in memory go to the crew as they lie, those in files by way of a stage.
#include "shim/pause/verifier.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/mover.h"

namespace parkade::shim {
namespace {

using How = WrongBlocks::How;

// Blocks that the crew may have at once: enough for each of its threads to have the next one.
constexpr size_t kMostJobs = 64;

}  // namespace

Result<void> Verifier::Run(std::span<Range* const> ranges, VerifyReport* report) {
  InShim ours;
  report_ = report;
  HashCrew crew(BytesOut(ranges));
  HashLane hashes(crew);
  Result<void> result = ReadAll(ranges, hashes);
  while (result.ok() && jobs_.size() != free_.size()) result = Finish(hashes);
  hashes.Drain();
  stage_.Close();
  if (!result.ok()) return result;
  return report_->wrong.first;
}

Result<void> Verifier::ReadAll(std::span<Range* const> ranges, HashLane& hashes) {
  for (const Range* range : ranges) {
    const auto* backing = static_cast<const RangeBacking*>(range->backing.get());
    if (backing == nullptr) continue;
    for (const Block& block : backing->blocks) {
      if (range->pieces[block.piece].handle != 0) continue;  // it is in HBM
      if (auto r = Start(*range, block, hashes); !r.ok()) return r;
    }
  }
  return {};
}

Result<void> Verifier::Start(const Range& range, const Block& block, HashLane& hashes) {
  if (stop_.load(std::memory_order_acquire)) {
    return MakeError(Code::kCancelled, "CANCELLED", "something else is to be done");
  }
  if (block.filled) {
    const Job job{&range, &block, kNoStage};
    Count(job);
    if (!IsPattern(block)) report_->wrong.Add(range, block, How::kChanged);
    return {};
  }
  if (!block.in_host) {
    if (stage_.disk == nullptr) {
      if (auto r = OpenDisk(range); !r.ok()) return r;
    }
  }
  while (jobs_.size() - free_.size() >= kMostJobs ||
         (!block.in_host && !stage_.blocks->has_free())) {
    if (auto r = Finish(hashes); !r.ok()) return r;
  }
  if (free_.empty()) {
    free_.push_back(uint32_t(jobs_.size()));
    jobs_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  jobs_[number] = {&range, &block, kNoStage};
  if (block.in_host) {
    StartHash(number, block.host.memory(), hashes);
    return {};
  }
  const uint32_t stage = jobs_[number].stage = stage_.blocks->TakeBlock();
  reading_[stage] = number;
  return stage_.disk->Read(stage, {block.file->file, block.file->offset, block.bytes});
}

Result<void> Verifier::OpenDisk(const Range& range) {
  ScopedContext current(driver_, range.context);  // for memory that the pool has to pin
  if (auto r = stage_.OpenDisk(); !r.ok()) return r;
  reading_.resize(stage_.blocks->size());
  return {};
}

Result<void> Verifier::Finish(HashLane& hashes) {
  if (!hashes.idle()) {
    FinishHashes(hashes, Patience::kWait);
    return FinishReads(hashes, Patience::kLook);
  }
  return FinishReads(hashes, Patience::kWait);
}

void Verifier::FinishHashes(HashLane& hashes, Patience patience) {
  while (const auto done = hashes.Next(patience)) {
    patience = Patience::kLook;
    const auto number = uint32_t(done->tag);
    const Job job = jobs_[number];
    if (job.stage != kNoStage) stage_.blocks->GiveBlock(job.stage);
    free_.push_back(number);
    Count(job);
    if (done->wrong) report_->wrong.Add(*job.range, *job.block, How::kChanged);
  }
}

Result<void> Verifier::FinishReads(HashLane& hashes, Patience patience) {
  while (stage_.disk_works()) {
    auto done = stage_.disk->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    patience = Patience::kLook;
    const uint32_t number = reading_[(*done)->block];
    const Result<void>& result = (*done)->result;
    if (result.ok()) {
      StartHash(number, stage_.blocks->memory((*done)->block), hashes);
      continue;
    }
    if (std::string_view(result.error().reason) != "BACKUP_MISSING") return result;
    stage_.blocks->GiveBlock((*done)->block);
    free_.push_back(number);
    report_->wrong.Add(*jobs_[number].range, *jobs_[number].block, How::kMissing);
  }
  return {};
}

void Verifier::StartHash(uint32_t number, const char* memory, HashLane& hashes) {
  const Block& block = *jobs_[number].block;
  hashes.Start({memory, nullptr, block.bytes, nullptr, &block.digest, number});
}

bool Verifier::IsPattern(const Block& block) {
  const bool known = filled_.size() == block.bytes &&
                     std::equal(filled_pattern_, filled_pattern_ + 2, block.pattern);
  if (!known) {
    filled_.resize(block.bytes);
    std::copy_n(block.pattern, 2, filled_pattern_);
    for (Bytes at = 0; at < block.bytes; at += sizeof filled_pattern_) {
      memcpy(filled_.data() + at, filled_pattern_, sizeof filled_pattern_);
    }
    filled_digest_ = HashBlock(filled_.data(), block.bytes);
  }
  return filled_digest_ == block.digest;
}

void Verifier::Count(const Job& job) {
  const Block& block = *job.block;
  (block.filled    ? report_->read.elided
   : block.in_host ? report_->read.host
                   : report_->read.disk) += block.bytes;
  stage_.ledger.AddMoved(block.bytes);
}

Result<void> Mover::Verify(std::span<Range* const> ranges, const DirectFiles& files,
                           Bytes stage_bytes, const std::atomic<bool>& stop, VerifyReport* report) {
  // More would not read faster, and is host memory that others can use.
  constexpr Bytes kMostStage = 64_MiB;
  Stage stage{pool_, files, make_engine_, ledger_, 1, std::min(stage_bytes, kMostStage)};
  return Verifier(driver_, std::move(stage), stop).Run(ranges, report);
}

}  // namespace parkade::shim
