// Files and host memory meet in a stage: what is read is copied on by the crew that verifies it,
// and what is to be written comes there in the same way.
#include "shim/pause/shifter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "shim/cuda/in_shim.h"
#include "shim/cuda/scoped_context.h"
#include "shim/pause/mover.h"

namespace parkade::shim {
namespace {

constexpr Bytes kMostTake = 32_MiB;  // of host memory in one piece; as much as a copy takes
constexpr uint64_t kPinMs = 60'000;
// What has been written leaves host memory in steps of so much.
constexpr Bytes kFlushStep = 64_MiB;

}  // namespace

RangeBacking* Shifter::BackingOf(const Range& range) {
  return static_cast<RangeBacking*>(range.backing.get());
}

bool Shifter::IsToMove(To to, const Range& range, const Block& block) {
  if (range.pieces[block.piece].handle != 0) return false;  // it is in HBM
  if (to == To::kHost) return block.in_file && !block.in_host;
  return block.in_host && BackingOf(range)->moves_on;
}

Bytes Shifter::BytesToMove(To to, std::span<Range* const> ranges) {
  Bytes sum = 0;
  for (const Range* range : ranges) {
    if (range->backing == nullptr) continue;
    for (const Block& block : BackingOf(*range)->blocks) {
      if (IsToMove(to, *range, block)) sum += block.bytes;
    }
  }
  return sum;
}

Shifter::Shifter(const Driver& driver, Stage stage, To to, std::span<Range* const> ranges,
                 const std::atomic<bool>& stop)
    : driver_(driver),
      stage_(std::move(stage)),
      to_(to),
      ranges_(ranges),
      stop_(stop),
      crew_(BytesToMove(to, ranges)),
      hashes_(crew_) {}

Result<void> Shifter::ToHost(Bytes grant, ShiftReport* report) {
  report_ = report;
  grant_left_ = grant;
  return Run();
}

Result<void> Shifter::ToFiles(FileSpace& space, ShiftReport* report) {
  report_ = report;
  Result<void> placed;
  for (Range* range : ranges_) {
    if (placed.ok() && range->backing != nullptr) placed = Place(*range, space);
  }
  const Result<void> moved = Run();
  return placed.ok() ? moved : placed;
}

Result<void> Shifter::Place(Range& range, FileSpace& space) {
  RangeBacking& backing = *BackingOf(range);
  for (uint32_t i = 0; i < backing.blocks.size(); ++i) {
    if (!IsToMove(to_, range, backing.blocks[i])) continue;
    if (backing.blocks[i].in_file) {  // it came from there
      report_->moved.elided += backing.blocks[i].bytes;
      stage_.ledger.AddMoved(backing.blocks[i].bytes);
      backing.LeaveHost(backing.blocks[i]);
      continue;
    }
    if (space_.bytes == 0) {
      // What one request should carry belongs together.
      auto part = space.Take(RoundUp(stage_.files.setting().block, kHashBlock));
      if (!part.ok()) return part.error();
      space_ = *part;
    }
    if (space_.bytes < backing.blocks[i].bytes && !Cut(range, i, space_.bytes)) continue;
    const Bytes bytes = backing.blocks[i].bytes;
    backing.blocks[i].file = FilePart{space_.file, space_.offset, bytes};
    space_.offset += bytes;
    space_.bytes -= bytes;
  }
  return {};
}

// Each part gets a digest of its own, once the old one has vouched for both.
bool Shifter::Cut(Range& range, uint32_t block, Bytes bytes) {
  RangeBacking& backing = *BackingOf(range);
  Block& whole = backing.blocks[block];
  if (HashBlock(whole.host.memory(), whole.bytes) != whole.digest) {
    report_->wrong.Add(range, whole, WrongBlocks::How::kChanged);
    return false;
  }
  backing.Forget(whole);
  HostBlock host = std::move(whole.host);
  const uint32_t take = whole.take;
  SplitBlock(backing, block, bytes);
  for (Block* part : {&backing.blocks[block], &backing.blocks[block + 1]}) {
    part->host = host.Split(part->bytes);
    part->take = take;
    part->digest = HashBlock(part->host.memory(), part->bytes);
    backing.InHost(*part);
  }
  return true;
}

Result<void> Shifter::Run() {
  InShim ours;
  Result<void> result = MoveAll();
  Result<void> ended;
  if (result.ok() || result.error().code == Code::kCancelled) {
    while (ended.ok() && (!hashes_.idle() || stage_.disk_works())) ended = Finish();
    if (ended.ok()) ended = Flush();
  }
  hashes_.Drain();
  stage_.Close();
  Unplace();
  report_->left = BytesToMove(to_, ranges_);
  if (!ended.ok()) return ended;
  return result.ok() ? report_->wrong.first : result;
}

Result<void> Shifter::MoveAll() {
  for (Range* range : ranges_) {
    if (range->backing == nullptr) continue;
    const std::vector<Block>& blocks = BackingOf(*range)->blocks;
    for (uint32_t i = 0; i < blocks.size(); ++i) {
      if (!IsToMove(to_, *range, blocks[i])) continue;
      if (to_ == To::kFiles && !blocks[i].file) continue;  // there was no place for it
      if (stop_.load(std::memory_order_acquire)) {
        return MakeError(Code::kCancelled, "CANCELLED", "something else is to be done");
      }
      if (to_ == To::kHost) {
        auto taken = TakeHost(*range, i);
        if (!taken.ok()) return taken.error();
        if (!*taken) return {};
      }
      if (auto r = Start({range, i}); !r.ok()) return r;
    }
  }
  return {};
}

// Host memory in one piece for this block and those behind it, as far as it goes. False: the grant
// does not.
Result<bool> Shifter::TakeHost(Range& range, uint32_t first) {
  RangeBacking& backing = *BackingOf(range);
  std::vector<Block>& blocks = backing.blocks;
  if (blocks[first].host) return true;
  const Bytes most = std::min(std::max(kMostTake, blocks[first].bytes), grant_left_);
  Bytes want = 0;
  uint32_t end = first;
  for (; end < blocks.size() && IsToMove(to_, range, blocks[end]); ++end) {
    if (want + blocks[end].bytes > most) break;
    want += blocks[end].bytes;
  }
  if (end == first) return false;
  ScopedContext current(driver_, range.context);
  auto taken =
      stage_.pool.Take(want, blocks[first].bytes, HostPool::For::kBackup, Deadline::InMs(kPinMs));
  if (!taken.ok()) return taken.error();
  const uint32_t take = ++backing.last_take;
  for (uint32_t i = first; i < end && blocks[i].bytes <= taken->bytes(); ++i) {
    blocks[i].host = taken->Split(blocks[i].bytes);
    blocks[i].take = take;
    grant_left_ -= blocks[i].bytes;
    if (!*taken) break;
  }
  return true;
}

Result<void> Shifter::Start(BlockAt at) {
  if (stage_.disk == nullptr) {
    ScopedContext current(driver_, at.range->context);  // for memory that the pool has to pin
    if (auto r = stage_.OpenDisk(); !r.ok()) return r;
    moving_.resize(stage_.blocks->size());
  }
  while (!stage_.blocks->has_free()) {
    if (auto r = Finish(); !r.ok()) return r;
  }
  const uint32_t stage = stage_.blocks->TakeBlock();
  moving_[stage] = at;
  if (to_ == To::kHost) return stage_.disk->Read(stage, *At(at).file);
  Copy(stage);
  return {};
}

void Shifter::Copy(uint32_t stage) {
  const Block& block = At(moving_[stage]);
  char* const staged = stage_.blocks->memory(stage);
  char* const host = block.host.memory();
  const bool in = to_ == To::kHost;
  hashes_.Start({in ? staged : host, in ? host : staged, block.bytes, nullptr, &block.digest,
                 uint64_t(stage)});
}

Result<void> Shifter::Finish() {
  if (hashes_.idle()) return FinishTransfers(Patience::kWait);
  if (auto r = FinishCopies(Patience::kWait); !r.ok()) return r;
  return FinishTransfers(Patience::kLook);
}

Result<void> Shifter::FinishCopies(Patience patience) {
  while (const auto done = hashes_.Next(patience)) {
    patience = Patience::kLook;
    const auto stage = uint32_t(done->tag);
    const BlockAt at = moving_[stage];
    Block& block = At(at);
    if (done->wrong) report_->wrong.Add(*at.range, block, WrongBlocks::How::kChanged);
    if (!done->wrong && to_ == To::kFiles) {
      if (auto r = stage_.disk->Write(stage, *block.file); !r.ok()) return r;
      continue;
    }
    stage_.blocks->GiveBlock(stage);
    if (done->wrong) continue;
    BackingOf(*at.range)->InHost(block);
    report_->moved.host += block.bytes;
    stage_.ledger.AddMoved(block.bytes);
  }
  return {};
}

Result<void> Shifter::FinishTransfers(Patience patience) {
  while (stage_.disk_works()) {
    auto done = stage_.disk->Next(patience);
    if (!done.ok()) return done.error();
    if (!done->has_value()) return {};
    patience = Patience::kLook;
    const uint32_t stage = (*done)->block;
    const BlockAt at = moving_[stage];
    const Result<void>& result = (*done)->result;
    if (result.ok() && to_ == To::kHost) {
      Copy(stage);
      continue;
    }
    stage_.blocks->GiveBlock(stage);
    if (result.ok()) {
      if (auto r = Written(at); !r.ok()) return r;
      continue;
    }
    if (std::string_view(result.error().reason) != "BACKUP_MISSING") return result;
    report_->wrong.Add(*at.range, At(at), WrongBlocks::How::kMissing);
  }
  return {};
}

Result<void> Shifter::Written(BlockAt at) {
  Block& block = At(at);
  BackingOf(*at.range)->InFile(block);
  stage_.ledger.AddMoved(block.bytes);
  written_.push_back(at);
  written_bytes_ += block.bytes;
  return written_bytes_ < kFlushStep ? Result<void>() : Flush();
}

Result<void> Shifter::Flush() {
  if (written_.empty()) return {};
  if (auto r = stage_.disk->Flush(); !r.ok()) return r;
  for (const BlockAt at : written_) BackingOf(*at.range)->LeaveHost(At(at));
  report_->moved.disk += std::exchange(written_bytes_, 0);
  written_.clear();
  return {};
}

void Shifter::Unplace() {
  for (const BlockAt at : written_) BackingOf(*at.range)->LeaveFile(At(at));
  for (Range* range : ranges_) {
    if (range->backing == nullptr) continue;
    for (Block& block : BackingOf(*range)->blocks) {
      if (!block.in_host) block.host = {};
      if (!block.in_file) block.file.reset();
    }
  }
}

Result<void> Mover::ToHost(std::span<Range* const> ranges, const DirectFiles& files, Bytes grant,
                           Bytes stage_bytes, const std::atomic<bool>& stop, ShiftReport* report) {
  std::vector<HostPool::Need> needs;
  Bytes left = grant;
  for (Range* const& range : ranges) {
    const Bytes bytes = std::min(left, Shifter::BytesToMove(Shifter::To::kHost, {&range, 1}));
    left -= bytes;
    auto need = std::find_if(needs.begin(), needs.end(), [range](const HostPool::Need& n) {
      return n.context == range->context;
    });
    if (need == needs.end()) need = needs.insert(need, {range->context, 0});
    need->bytes += bytes;
  }
  pool_.BeginGrowth(needs);
  Stage stage{pool_,   files, make_engine_,
              ledger_, 1,     std::min<Bytes>(stage_bytes, wire::kShiftStage)};
  const Result<void> moved =
      Shifter(driver_, std::move(stage), Shifter::To::kHost, ranges, stop).ToHost(grant, report);
  EndGrowth();
  return moved;
}

Result<void> Mover::ToFiles(std::span<Range* const> ranges, const DirectFiles& files,
                            std::vector<FilePart> taken, Bytes stage_bytes,
                            const std::atomic<bool>& stop, ShiftReport* report) {
  // What is kept of ranges that are in HBM may be written over: it is not believed any more.
  const bool hold = stamps_ == StampsOf(files.fds());
  const uint64_t before = files_number_++;
  for (Range* range : ranges) {
    auto* backing = static_cast<RangeBacking*>(range->backing.get());
    if (hold && backing != nullptr && backing->files_number == before) {
      backing->files_number = files_number_;
    }
  }
  FileSpace space(files, files.capacity(), std::move(taken));
  Stage stage{pool_,   files, make_engine_,
              ledger_, 1,     std::min<Bytes>(stage_bytes, wire::kShiftStage)};
  const Result<void> moved =
      Shifter(driver_, std::move(stage), Shifter::To::kFiles, ranges, stop).ToFiles(space, report);
  stamps_ = StampsOf(files.fds());
  return moved;
}

}  // namespace parkade::shim
