// The requests that fill and empty a stage's blocks.
#include "shim/pause/disk_stage.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "shim/libc/thread.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kStallMs = 60'000;

// What writes to buffered files under way and behind may leave in the page cache, of all lanes.
constexpr Bytes kInFlightCached = 16_MiB;
constexpr Bytes kBehindCached = 32_MiB;

// Requests under way to files that the page cache stands before.
uint32_t CachedDepth(const StageBlocks& blocks, size_t lanes) {
  return uint32_t(std::max<Bytes>(kInFlightCached / lanes / blocks.block_bytes(), 1));
}

class ShimThreads final : public ThreadStarter {
 public:
  ~ShimThreads() override = default;
  Result<void> Start(const char* name, void (*run)(void*), void* arg) override {
    auto thread = Thread::Start(name, run, arg);
    if (!thread.ok()) return thread.error();
    threads_.push_back(std::move(*thread));
    return {};
  }
  void JoinAll() override { threads_.clear(); }

 private:
  std::vector<Thread> threads_;
};

}  // namespace

IoEngineChoice MakeShimEngine(uint32_t depth) {
  return MakeIoEngine(depth, std::make_unique<ShimThreads>());
}

DiskStage::DiskStage(StageBlocks& blocks, const DirectFiles& files, size_t lanes,
                     MakeEngine make_engine, LedgerWriter& ledger)
    : blocks_(blocks),
      ledger_(ledger),
      transfers_(blocks.size()),
      page_cache_(files, kBehindCached / lanes) {
  const uint32_t depth = std::clamp(files.setting().depth, 1u, blocks.size());
  depth_ = std::min(depth, CachedDepth(blocks, lanes));  // until the page cache has been looked at
  IoEngineChoice choice = make_engine(depth);
  engine_ = std::move(choice.engine);
  engine_->UseFiles(files.fds());
  if (files.setting().registers_memory) {
    std::vector<std::span<char>> memory;
    for (uint32_t i = 0; i < blocks.size(); ++i) {
      memory.push_back({blocks.memory(i), blocks.block_bytes()});
    }
    registered_ = engine_->UseMemory(memory);
  }
  char line[320];
  if (choice.uring_refusal) {
    snprintf(line, sizeof line, "disk I/O by threads, io_uring is refused: %s (errno %d)",
             choice.uring_refusal->what, choice.uring_refusal->os_errno);
    ledger.AddWarning(line);
  }
  all_direct_ = files.buffered_because()[0] == '\0';
  if (!all_direct_) WarnOfCache(files.buffered_because());
}

void DiskStage::WarnOfCache(const char* why) {
  char line[320];
  snprintf(line, sizeof line, "disk I/O through the page cache: %s", why);
  ledger_.AddWarning(line);
}

Result<void> DiskStage::Look(const Transfer& transfer) {
  const auto& [kind, part] = transfer;
  Result<void> result;
  if (kind == IoRequest::Kind::kWrite) {
    result = page_cache_.Wrote(part.file, part.offset, part.bytes);
  } else {
    page_cache_.HasRead(part.file, part.offset, part.bytes);
  }
  if (all_direct_ && page_cache_.found_cached()) {
    all_direct_ = false;
    WarnOfCache("the file system takes O_DIRECT and caches all the same");
  }
  if (all_direct_ && page_cache_.believes()) depth_ = engine_->depth();
  return result;
}

Result<void> DiskStage::SubmitWaiting() {
  while (!waiting_.empty() && engine_->in_flight() < depth_) {
    const uint32_t block = waiting_.front();
    waiting_.pop_front();
    if (auto r = Submit(block); !r.ok()) return r;
  }
  return {};
}

DiskStage::~DiskStage() {
  while (engine_->in_flight() != 0) {
    if (!stalled_ && engine_->WaitAny(Deadline::InMs(kStallMs)).ok()) continue;
    // The kernel may still read and write these blocks.
    blocks_.Abandon();
    engine_->Abandon();
    static_cast<void>(engine_.release());
    return;
  }
}

Result<void> DiskStage::Take(IoRequest::Kind kind, uint32_t block, const FileSpace::Part& part) {
  transfers_[block] = {kind, part};
  if (engine_->in_flight() < depth_) return Submit(block);
  waiting_.push_back(block);
  return {};
}

Result<void> DiskStage::Submit(uint32_t block) {
  const auto& [kind, part] = transfers_[block];
  if (kind == IoRequest::Kind::kRead) page_cache_.WillRead(part.file, part.offset, part.bytes);
  const int32_t registered = registered_ && !blocks_.unpinned(block) ? int32_t(block) : -1;
  return engine_->Submit(
      {kind, part.file, part.offset, blocks_.memory(block), part.bytes, block, registered});
}

Result<void> DiskStage::Write(uint32_t block, const FileSpace::Part& part) {
  return Take(IoRequest::Kind::kWrite, block, part);
}

Result<void> DiskStage::Read(uint32_t block, const FileSpace::Part& part) {
  return Take(IoRequest::Kind::kRead, block, part);
}

// Runtimes that forward a GPU to another machine protect pinned pages to see who writes to them;
// the kernel's own access then ends in EFAULT, where ours would be let through.
Result<void> DiskStage::SubmitUnpinned(uint32_t block) {
  const Transfer again = transfers_[block];
  const bool writes = again.kind == IoRequest::Kind::kWrite;
  ledger_.AddWarning(
      "disk I/O through memory that is not pinned: the kernel may not touch what is");
  if (auto r = blocks_.Unpin(block, writes ? again.part.bytes : 0); !r.ok()) return r;
  return Submit(block);
}

Result<std::optional<DiskStage::Done>> DiskStage::Next(Patience patience) {
  while (!idle()) {
    const uint64_t wait_ms = patience == Patience::kWait ? kStallMs : 0;
    auto completion = engine_->WaitAny(Deadline::InMs(wait_ms));
    if (!completion.ok()) {
      if (completion.error().code != Code::kDeadlineExceeded) return completion.error();
      if (patience == Patience::kLook) break;
      stalled_ = true;
      return MakeError(Code::kDeadlineExceeded, "DISK_STALLED", "no answer from the disk in %llu s",
                       (unsigned long long)kStallMs / 1000);
    }
    const uint32_t block = uint32_t(completion->tag);
    Result<void> result = completion->result;
    if (!result.ok() && result.error().os_errno == EFAULT && !blocks_.unpinned(block)) {
      if (auto r = SubmitUnpinned(block); !r.ok()) return r.error();
      continue;
    }
    if (result.ok()) result = Look(transfers_[block]);
    if (auto r = SubmitWaiting(); !r.ok()) return r.error();
    return std::optional<Done>(Done{block, result});
  }
  return std::optional<Done>();
}

}  // namespace parkade::shim
