// Tries candidates in slices of time, and takes the one that has the least under way of those that
// are about as fast as the fastest.
#include "common/io/disk_trial.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/io/direct_files.h"
#include "common/io/page_cache.h"

namespace parkade {
namespace {

constexpr uint64_t kSliceMs = 20;
constexpr uint64_t kAnswerMs = 10'000;

// In the order in which they are tried, for as long as there is time. None is larger than a block
// of a mover's stage can be, nor smaller than a backup's blocks, which are not cut.
constexpr DiskSetting kCandidates[] = {
    {4_MiB, 8}, {4_MiB, 16}, {8_MiB, 8}, {2_MiB, 16}, {2_MiB, 32}};
constexpr Bytes kMostUnderWay = 64_MiB;  // of any candidate

// What repeats is slower with a disk that varies by a few per cent than it may seem.
constexpr double kAsFast = 0.95;
constexpr double kGain = 1.05;

class Memory {
 public:
  Memory() {
    void* mapped =
        mmap(nullptr, kMostUnderWay, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    begin_ = static_cast<char*>(mapped);
    madvise(begin_, kMostUnderWay, MADV_HUGEPAGE);
    // A disk may have a short way for zeros.
    uint64_t word = 1;
    for (Bytes at = 0; at < kMostUnderWay; at += sizeof word) {
      word = word * 6364136223846793005u + 1442695040888963407u;
      *reinterpret_cast<uint64_t*>(begin_ + at) = word;
    }
  }
  ~Memory() {
    if (begin_ != nullptr) munmap(begin_, kMostUnderWay);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* begin() const { return begin_; }

 private:
  char* begin_ = nullptr;
};

struct Moved {
  Bytes bytes = 0;
  uint64_t ns = 0;
  double gbps() const { return ns == 0 ? 0 : double(bytes) / double(ns); }
};

class Trial {
 public:
  Trial(IoEngine& engine, char* memory) : engine_(engine), memory_(memory) {}

  // Goes round the file until `by`, no more than once where `once`, and waits for all that it
  // began.
  Result<Moved> Move(IoRequest::Kind kind, const DiskSetting& setting, Deadline by, bool once);

 private:
  IoEngine& engine_;
  char* const memory_;
};

Result<Moved> Trial::Move(IoRequest::Kind kind, const DiskSetting& setting, Deadline by,
                          bool once) {
  const uint64_t begin_ns = MonotonicNs();
  std::vector<uint32_t> idle;
  for (uint32_t slot = 0; slot < setting.depth; ++slot) idle.push_back(slot);
  Bytes begun = 0;
  while (begun == 0 || engine_.in_flight() != 0) {
    while (!idle.empty() && (begun == 0 || (!by.Passed() && !(once && begun >= kTrialBytes)))) {
      const uint32_t slot = idle.back();
      idle.pop_back();
      const int32_t registered = setting.registers_memory ? 0 : -1;
      const IoRequest request{
          kind,          0,    begun % kTrialBytes, memory_ + slot * setting.block,
          setting.block, slot, registered};
      if (auto r = engine_.Submit(request); !r.ok()) return r.error();
      begun += setting.block;
    }
    auto done = engine_.WaitAny(Deadline::InMs(kAnswerMs));
    if (!done.ok()) return done.error();
    if (!done->result.ok()) return done->result.error();
    idle.push_back(uint32_t(done->tag));
  }
  return Moved{begun, MonotonicNs() - begin_ns};
}

// Bytes a second of writing and reading back; both count alike.
double Together(const DiskRates& rates) {
  if (rates.write_gbps == 0 || rates.read_gbps == 0) return 0;
  return 2 / (1 / rates.write_gbps + 1 / rates.read_gbps);
}

Bytes UnderWay(const DiskSetting& setting) { return setting.block * setting.depth; }

class Trials {
 public:
  Trials(Trial& trial, Deadline by) : trial_(trial), by_(by) {}

  Result<void> Try(const DiskSetting& setting) {
    DiskRates rates;
    rates.setting = setting;
    for (const auto kind : {IoRequest::Kind::kWrite, IoRequest::Kind::kRead}) {
      const auto moved = trial_.Move(kind, setting, Deadline::InMs(kSliceMs), false);
      if (!moved.ok()) return moved.error();
      (kind == IoRequest::Kind::kWrite ? rates.write_gbps : rates.read_gbps) = moved->gbps();
    }
    tried_.push_back(rates);
    return {};
  }

  bool out_of_time() const { return by_.Passed(); }

  // The least under way of what is about as fast as the fastest.
  DiskRates Best() const {
    double fastest = 0;
    for (const DiskRates& rates : tried_) fastest = std::max(fastest, Together(rates));
    DiskRates best;
    for (const DiskRates& rates : tried_) {
      if (Together(rates) < kAsFast * fastest) continue;
      if (best.write_gbps == 0 || UnderWay(rates.setting) < UnderWay(best.setting)) best = rates;
    }
    return best;
  }

 private:
  Trial& trial_;
  const Deadline by_;
  std::vector<DiskRates> tried_;
};

// Whether the same requests are faster through registered memory, tried by turns with `plain`.
Result<bool> RegisteringGains(Trial& trial, const DiskSetting& plain, Deadline by) {
  DiskSetting registered = plain;
  registered.registers_memory = true;
  Moved sums[2];
  for (int round = 0; round < 2; ++round) {
    for (const bool with : {false, true}) {
      if (by.Passed()) return false;
      const auto moved = trial.Move(IoRequest::Kind::kWrite, with ? registered : plain,
                                    Deadline::InMs(kSliceMs), false);
      if (!moved.ok()) return moved.error();
      sums[with].bytes += moved->bytes;
      sums[with].ns += moved->ns;
    }
  }
  return sums[1].gbps() > kGain * sums[0].gbps();
}

}  // namespace

Result<DiskRates> TryDisk(Fd file, std::unique_ptr<ThreadStarter> threads, uint64_t limit_ms) {
  const Deadline by = Deadline::InMs(limit_ms);
  const Memory memory;
  if (memory.begin() == nullptr) return OsError(ENOMEM, "memory for a trial of the disk");
  if (fallocate(file.get(), 0, 0, off_t(kTrialBytes)) != 0 &&
      ftruncate(file.get(), off_t(kTrialBytes)) != 0) {
    return OsError(errno, "making room for a trial of the disk");
  }
  Fd files[] = {std::move(file)};
  const auto adopted = DirectFiles::Adopt(files);
  if (!adopted.ok()) return adopted.error();
  IoEngineChoice choice = MakeIoEngine(32, std::move(threads));
  IoEngine& engine = *choice.engine;
  engine.UseFiles(adopted->fds());
  Trial trial(engine, memory.begin());
  // Blocks that have never been written cost more than those that are overwritten, once.
  if (auto r = trial.Move(IoRequest::Kind::kWrite, {4_MiB, 4}, by, true); !r.ok()) return r.error();
  DiskRates best;
  best.io_uring = !choice.uring_refusal;
  best.direct = adopted->direct(0) && CachedBytes(adopted->fds()[0], 0, kTrialBytes) == Bytes(0);
  if (!best.direct) return best;
  Trials trials(trial, by);
  for (const DiskSetting& candidate : kCandidates) {
    if (auto r = trials.Try(candidate); !r.ok()) return r.error();
    if (trials.out_of_time()) break;
  }
  const DiskRates found = trials.Best();
  best.setting = found.setting;
  best.write_gbps = found.write_gbps;
  best.read_gbps = found.read_gbps;
  const std::span<char> whole[] = {{memory.begin(), kMostUnderWay}};
  if (!by.Passed() && engine.UseMemory(whole)) {
    const auto gains = RegisteringGains(trial, best.setting, by);
    if (!gains.ok()) return gains.error();
    best.setting.registers_memory = *gains;
  }
  return best;
}

}  // namespace parkade
