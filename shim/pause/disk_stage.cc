// The requests that fill and empty a stage's blocks.
#include "shim/pause/disk_stage.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "shim/libc/thread.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kStallMs = 60'000;

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

DiskStage::DiskStage(StageBlocks& blocks, const DirectFiles& files, MakeEngine make_engine,
                     LedgerWriter& ledger)
    : blocks_(blocks), ledger_(ledger), transfers_(blocks.size()), page_cache_(files) {
  IoEngineChoice choice = make_engine(blocks.size());
  engine_ = std::move(choice.engine);
  engine_->UseFiles(files.fds());
  char line[320];
  if (choice.uring_refusal) {
    snprintf(line, sizeof line, "disk I/O by threads, io_uring is refused: %s (errno %d)",
             choice.uring_refusal->what, choice.uring_refusal->os_errno);
    ledger.AddWarning(line);
  }
  if (files.buffered_because()[0] != '\0') {
    snprintf(line, sizeof line, "disk I/O through the page cache: %s", files.buffered_because());
    ledger.AddWarning(line);
  }
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

Result<void> DiskStage::Submit(IoRequest::Kind kind, uint32_t block, const FileSpace::Part& part) {
  transfers_[block] = {kind, part};
  return engine_->Submit({kind, part.file, part.offset, blocks_.memory(block), part.bytes, block});
}

Result<void> DiskStage::Write(uint32_t block, const FileSpace::Part& part) {
  return Submit(IoRequest::Kind::kWrite, block, part);
}

Result<void> DiskStage::Read(uint32_t block, const FileSpace::Part& part) {
  return Submit(IoRequest::Kind::kRead, block, part);
}

// Runtimes that forward a GPU to another machine protect pinned pages to see who writes to them;
// the kernel's own access then ends in EFAULT, where ours would be let through.
Result<void> DiskStage::SubmitUnpinned(uint32_t block) {
  const Transfer again = transfers_[block];
  const bool writes = again.kind == IoRequest::Kind::kWrite;
  ledger_.AddWarning(
      "disk I/O through memory that is not pinned: the kernel may not touch what is");
  if (auto r = blocks_.Unpin(block, writes ? again.part.bytes : 0); !r.ok()) return r;
  return Submit(again.kind, block, again.part);
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
    const auto& [kind, part] = transfers_[block];
    if (result.ok() && kind == IoRequest::Kind::kWrite) {
      result = page_cache_.Wrote(part.file, part.offset, part.bytes);
    }
    if (kind == IoRequest::Kind::kRead) page_cache_.HasRead(part.file, part.offset, part.bytes);
    return std::optional<Done>(Done{block, result});
  }
  return std::optional<Done>();
}

}  // namespace parkade::shim
