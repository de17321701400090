// Where a store's buckets lie: which in host memory and which in files, and the state beside these.
#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/stream/step_engine.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kMemoryMs = 60'000;
constexpr Bytes kHostPiece = 32_MiB;
constexpr uint32_t kSpareFiles = 4;  // kRotate: buckets that are being written at once
constexpr uint32_t kDepth = 16;      // requests to the disk under way, of a lane

}  // namespace

Result<std::vector<store::BucketState>> StepEngine::OpenFiles(uint64_t* committed) {
  const auto& buckets = layout_.buckets();
  size_t host_buckets = 0;
  while (host_buckets < buckets.size() &&
         host_bytes_ + buckets[host_buckets].live_bytes <= options_.host_bytes) {
    host_bytes_ += buckets[host_buckets++].live_bytes;
  }
  const bool has_files = host_buckets < buckets.size();
  // What is in host memory ends with the process: then no state is worth keeping.
  const bool has_state = has_files && host_buckets == 0;
  if (has_files && options_.directories.empty()) {
    return MakeError(Code::kInvalidArgument, "NO_DIRECTORY",
                     "%llu bytes do not fit in the %llu for host memory, and there is no directory",
                     (unsigned long long)layout_.live_bytes(),
                     (unsigned long long)options_.host_bytes);
  }
  if (options_.take == StoreFiles::Take::kKept && !has_state) {
    return MakeError(Code::kFailedPrecondition, "NOT_ON_DISK",
                     "only a store that is all on disk can be kept");
  }
  std::vector<store::BucketState> states(buckets.size());
  for (uint32_t i = 0; i < states.size(); ++i) states[i].file = i;
  if (has_files) {
    if (auto r = OpenBuckets(host_buckets); !r.ok()) return r.error();
  }
  if (has_state) {
    if (auto r = OpenState(); !r.ok()) return r.error();
    *committed = state_.committed();
    for (uint32_t i = 0; i < states.size() && *committed != store::kNoStep; ++i) {
      states[i] = state_.bucket(i);
    }
  }
  uint64_t most_numel = store::kGroup;
  for (const store::Bucket& bucket : buckets) most_numel = std::max(most_numel, bucket.numel);
  tools_.reset(new StreamTools{on_.driver,
                               context_,
                               on_.pool,
                               on_.ledger,
                               sheet_,
                               shelf_,
                               layout_,
                               files_,
                               has_state ? &state_ : nullptr,
                               on_.make_engine,
                               options_.staging / 2,
                               {},
                               {},
                               DiskTurn(options_.schedule),
                               most_numel});
  tools_->in_host.resize(buckets.size());
  return states;
}

Result<void> StepEngine::OpenBuckets(size_t host_buckets) {
  const auto& buckets = layout_.buckets();
  StoreFiles::Wanted wanted{
      options_.directories, options_.name, {}, options_.in_memory_too, options_.take};
  Bytes most = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    wanted.file_bytes.push_back(i < host_buckets ? 0 : buckets[i].live_bytes);
    most = std::max(most, buckets[i].live_bytes);
  }
  if (host_buckets == 0 && options_.redundancy != store::Redundancy::kInplace) {
    // Any file may hold any bucket.
    const bool shadows = options_.redundancy == store::Redundancy::kShadow;
    wanted.file_bytes.assign(buckets.size() + (shadows ? buckets.size() : kSpareFiles), most);
  }
  file_count_ = uint32_t(wanted.file_bytes.size());
  auto opened = StoreFiles::Open(wanted);
  if (!opened.ok()) return opened.error();
  disk_ = std::move(*opened);
  std::vector<Fd> fds = disk_->TakeBuckets();
  auto adopted = DirectFiles::Adopt(fds, {options_.chunk, kDepth, false});
  if (!adopted.ok()) return adopted.error();
  files_ = std::move(*adopted);
  return {};
}

Result<void> StepEngine::OpenState() {
  auto boot = store::ThisBoot();
  if (!boot.ok()) return boot.error();
  if (options_.take == StoreFiles::Take::kFresh) {
    auto made = store::StateFile::Create(disk_->TakeState(),
                                         {layout_.hash(), uint32_t(layout_.buckets().size()),
                                          options_.redundancy, file_count_, *boot});
    if (!made.ok()) return made.error();
    state_ = std::move(*made);
    return {};
  }
  disk_->SetKeeps(true);  // what is refused is not this owner's to remove
  store::StateReport report;
  auto found = store::StateFile::Open(disk_->TakeState(), layout_.hash(), *boot, report);
  if (!found.ok()) return found.error();
  if (found->shape().redundancy != options_.redundancy || found->shape().files != file_count_) {
    return MakeError(Code::kFailedPrecondition, "OTHER_FILES",
                     "what is kept has %u files and another redundancy", found->shape().files);
  }
  if (report.standing != store::Standing::kClean) {
    const char* reason = report.standing == store::Standing::kTorn          ? "TORN"
                         : report.standing == store::Standing::kInterrupted ? "INTERRUPTED"
                                                                            : "VOID";
    return MakeError(Code::kFailedPrecondition, reason, "%s", report.text.c_str());
  }
  disk_->SetKeeps(false);
  state_ = std::move(*found);
  return {};
}

Result<void> StepEngine::MakeHostBuckets() {
  Bytes left = host_bytes_;
  for (uint32_t i = 0; i < layout_.buckets().size() && left != 0; ++i) {
    for (Bytes bucket = layout_.buckets()[i].live_bytes; bucket != 0;) {
      const Bytes want = std::min(bucket, kHostPiece);
      auto taken = on_.pool.Take(want, std::min<Bytes>(want, 1_MiB), HostPool::For::kBackup,
                                 Deadline::InMs(kMemoryMs));
      if (!taken.ok()) return taken.error();
      memset(taken->memory(), 0, taken->bytes());
      bucket -= taken->bytes();
      left -= taken->bytes();
      tools_->in_host[i].push_back(std::move(*taken));
    }
  }
  return {};
}

}  // namespace parkade::shim
