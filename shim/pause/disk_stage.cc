// Staging blocks, and the requests that fill and empty them.
#include "shim/pause/disk_stage.h"

#include <algorithm>
#include <utility>

#include "shim/libc/thread.h"

namespace parkade::shim {
namespace {

// A start that suits NVMe drives with 8 and more in flight; no measurement has chosen it yet.
constexpr Bytes kMostBlock = 4_MiB;
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

Bytes StageBlockBytes(Bytes stage_bytes) {
  // At least four blocks, so that copying and writing overlap in a small stage as well.
  return std::clamp(stage_bytes / 4 / kDirectAlign * kDirectAlign, kDirectAlign, kMostBlock);
}

Result<std::unique_ptr<DiskStage>> DiskStage::Make(HostPool& pool, const DirectFiles& files,
                                                   Bytes stage_bytes, MakeEngine make_engine,
                                                   std::optional<Error>* refusal) {
  std::unique_ptr<DiskStage> stage(new DiskStage(files));
  stage->block_bytes_ = StageBlockBytes(stage_bytes);
  const uint32_t count = uint32_t(std::max<Bytes>(stage_bytes / stage->block_bytes_, 1));
  for (uint32_t i = 0; i < count; ++i) {
    auto block = pool.Take(stage->block_bytes_, stage->block_bytes_, Deadline::InMs(kStallMs));
    if (!block.ok()) return block.error();
    stage->blocks_.push_back(std::move(*block));
    stage->free_.push_back(count - 1 - i);
  }
  stage->transfers_.resize(count);
  IoEngineChoice choice = make_engine(count);
  *refusal = choice.uring_refusal;
  stage->engine_ = std::move(choice.engine);
  stage->engine_->UseFiles(files.fds());
  return stage;
}

DiskStage::~DiskStage() {
  if (engine_ == nullptr) return;
  while (engine_->in_flight() != 0) {
    if (engine_->WaitAny(Deadline::InMs(kStallMs)).ok()) continue;
    // The kernel may still write to these blocks: nobody may ever have them again.
    for (HostBlock& block : blocks_) static_cast<void>(*new HostBlock(std::move(block)));
    static_cast<void>(engine_.release());
    return;
  }
}

uint32_t DiskStage::TakeBlock() {
  const uint32_t block = free_.back();
  free_.pop_back();
  return block;
}

Result<void> DiskStage::Submit(IoRequest::Kind kind, uint32_t block, const FileSpace::Part& part) {
  transfers_[block] = {kind, part};
  return engine_->Submit({kind, part.file, part.offset, memory(block), part.bytes, block});
}

Result<void> DiskStage::Write(uint32_t block, const FileSpace::Part& part) {
  return Submit(IoRequest::Kind::kWrite, block, part);
}

Result<void> DiskStage::Read(uint32_t block, const FileSpace::Part& part) {
  return Submit(IoRequest::Kind::kRead, block, part);
}

Result<std::optional<DiskStage::Done>> DiskStage::Next(Patience patience) {
  if (idle()) return std::optional<Done>();
  auto completion = engine_->WaitAny(Deadline::InMs(patience == Patience::kWait ? kStallMs : 0));
  if (!completion.ok()) {
    if (completion.error().code != Code::kDeadlineExceeded) return completion.error();
    if (patience == Patience::kLook) return std::optional<Done>();
    return MakeError(Code::kDeadlineExceeded, "DISK_STALLED", "no answer from the disk in %llu s",
                     (unsigned long long)kStallMs / 1000);
  }
  const uint32_t block = uint32_t(completion->tag);
  const auto& [kind, part] = transfers_[block];
  Result<void> result = completion->result;
  if (result.ok() && kind == IoRequest::Kind::kWrite) {
    result = page_cache_.Wrote(part.file, part.offset, part.bytes);
  }
  if (kind == IoRequest::Kind::kRead) page_cache_.HasRead(part.file, part.offset, part.bytes);
  return std::optional<Done>(Done{block, result});
}

}  // namespace parkade::shim
