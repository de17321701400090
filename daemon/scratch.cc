// Chooses, makes and gives back directories.
#include "daemon/scratch.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "daemon/printable.h"
#include "daemon/proc_file.h"
#include "daemon/status.h"
#include "daemon/words.h"
#include "proto/scratch.h"

namespace parkade::daemon {
namespace {

void Discard(ScratchDirectory& directory) {
  if (auto s = directory.Remove(); !s.ok()) {
    Log(LogLevel::kWarning, "%s", MessageOf(s).c_str());
  }
}

// Bases that have been used: of 200 bytes at most, so 40,000 of them; each is noted once.
constexpr size_t kMostNoted = 8 << 20;

std::vector<std::string> ReadLines(const std::string& path) {
  const std::string text = ReadProcFile(path, kMostNoted);
  const auto lines = Split(text, "\n");
  return {lines.begin(), lines.end()};
}

// A write past the process's own limit would kill it by SIGXFSZ.
absl::Status CheckFileSizeLimit(const Process& process, Bytes bytes) {
  if (!process.identity().visible) return absl::OkStatus();
  const auto limit = ReadLimit(process.pid(), "Max file size");
  if (!limit || *limit >= bytes) return absl::OkStatus();
  return Fail(absl::StatusCode::kResourceExhausted, "FILE_SIZE_LIMIT",
              Cat("process ", process.pid(), " may write files of ", InUnits(*limit),
                  " (RLIMIT_FSIZE, ulimit -f), the pause needs ", InUnits(bytes)),
              {{"pid", std::to_string(process.pid())},
               {"needed_bytes", std::to_string(bytes)},
               {"limit_bytes", std::to_string(*limit)}});
}

// The choice of one base of several, which the configuration names.
BaseChoice OneOf(const std::string& base) { return {base, BaseChoice::Source::kConfig}; }

// Whether `existing` is all there.
absl::Status CheckAll(ScratchDirectory& existing, const ScratchRules& rules, int base,
                      const FsUser& user) {
  if (auto s = existing.Check(base); !s.ok()) return s;
  for (const auto& stripe : existing.stripes()) {
    const auto its_base = OpenBase(rules, OneOf(stripe->base()), user);
    if (!its_base.ok()) return its_base.status();
    if (auto s = stripe->Check(its_base->get()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

std::vector<std::string> BasesOf(const ScratchDirectory& directory) {
  std::vector<std::string> bases{directory.base()};
  for (const auto& stripe : directory.stripes()) bases.push_back(stripe->base());
  return bases;
}

std::vector<std::string> BasesOf(const BaseChoice& choice) {
  std::vector<std::string> bases{choice.path};
  bases.insert(bases.end(), choice.stripes.begin(), choice.stripes.end());
  return bases;
}

// Whether `existing` is what the choice would make. Only after a good Check its stripes are known.
absl::Status CheckStripes(const ScratchDirectory& existing, const BaseChoice& choice) {
  if (BasesOf(existing) == BasesOf(choice)) return absl::OkStatus();
  return Fail(absl::StatusCode::kFailedPrecondition, "OTHER_STRIPES",
              Cat(existing.path(), " is striped in another way than is configured now"));
}

absl::Status NotWhole(const ScratchDirectory& existing) {
  return Fail(absl::StatusCode::kFailedPrecondition, "OTHER_STRIPES",
              Cat("files that belong to ", existing.path(), " are not where stripes are now"));
}

absl::Status InUse(const Process& process, const std::string& base, Bytes held,
                   std::string_view why) {
  return Fail(
      absl::StatusCode::kFailedPrecondition, "SCRATCH_IN_USE",
      Cat("process ", process.pid(), " has ", InUnits(held), " on disk in ", base, ": ", why),
      {{"pid", std::to_string(process.pid())}, {"path", base}});
}

// Shares of the first base and its stripes: by the rate of writing and reading back, as far as all
// are known.
std::vector<double> WeightsOf(const std::vector<DiskRates>& rates) {
  std::vector<double> weights;
  for (const DiskRates& r : rates) {
    if (r.write_gbps == 0 || r.read_gbps == 0) return std::vector<double>(rates.size(), 1.0);
    weights.push_back(1 / (1 / r.write_gbps + 1 / r.read_gbps));
  }
  return weights;
}

// What suits all of them together: requests alternate between the disks.
DiskSetting SettingOf(const std::vector<DiskRates>& rates) {
  constexpr uint32_t kMostDepth = 256;
  DiskSetting setting = rates[0].setting;
  for (size_t i = 1; i < rates.size(); ++i) {
    setting.block = std::max(setting.block, rates[i].setting.block);
    setting.depth = std::min(setting.depth + rates[i].setting.depth, kMostDepth);
    setting.registers_memory = setting.registers_memory && rates[i].setting.registers_memory;
  }
  return setting;
}

}  // namespace

std::vector<DiskRates> Scratch::RatesOf(const std::vector<std::string>& bases) const {
  std::vector<DiskRates> rates;
  for (const std::string& base : bases) rates.push_back(trials_.Of(base));
  return rates;
}

void Scratch::Use::Keep() {
  if (replaced_ != nullptr) Discard(*replaced_);
  if (try_) try_();
  *this = {};
}

void Scratch::Use::GiveBack() {
  if (made_) {
    Discard(*directory_);
    if (!process_->SetScratch(replaced_) && replaced_ != nullptr) Discard(*replaced_);
  }
  *this = {};
}

Scratch::Scratch(ScratchRules rules, std::string state_dir)
    : rules_(std::move(rules)), state_dir_(std::move(state_dir)), trials_(rules_) {
  const auto lines = ReadLines(FileName());
  const MutexLock lock(mu_);
  remembered_.insert(lines.begin(), lines.end());
}

absl::StatusOr<std::shared_ptr<ScratchDirectory>> Scratch::Make(const Process& process,
                                                                const BaseChoice& choice,
                                                                const FsUser& user) {
  std::shared_ptr<ScratchDirectory> first;
  std::vector<BaseChoice> bases{choice};
  for (const std::string& stripe : choice.stripes) bases.push_back(OneOf(stripe));
  for (const BaseChoice& one : bases) {
    const auto base = OpenBase(rules_, one, user);
    absl::Status status = base.status();
    if (status.ok()) {
      Remember(one.path);
      auto made = ScratchDirectory::Create(base->get(), one.path, process.identity(), user);
      status = made.status();
      if (status.ok() && first == nullptr) {
        first = std::move(*made);
      } else if (status.ok()) {
        first->Join(std::move(*made));
      }
    }
    if (status.ok()) continue;
    if (first != nullptr) Discard(*first);
    return status;
  }
  return first;
}

absl::StatusOr<BaseChoice> Scratch::Choose(const Process& process,
                                           const std::string& requested_base, Bytes held) const {
  const ProcessView view = process.View();
  const BaseChoice choice =
      ChooseBase(rules_, requested_base,
                 {view.introduction.wanted_scratch_base, view.introduction.scratch_base_yields},
                 process.user().uid);
  const auto existing = process.scratch();
  if (held == 0) return choice;
  if (existing == nullptr) {
    return InUse(process, "a directory that is not known here", held, "resume it first");
  }
  if (requested_base.empty() || existing->base() == choice.path) {
    return ChooseBase(rules_, existing->base(), {}, process.user().uid);
  }
  return InUse(process, existing->base(), held,
               "what else goes to disk goes there, until it is resumed");
}

absl::Status Scratch::Reserve(const std::shared_ptr<Process>& process,
                              const std::string& requested_base, Bytes bytes, Use& use,
                              Bytes held) {
  if (auto s = CheckFileSizeLimit(*process, bytes); !s.ok()) return s;
  const auto weights_of = [this](const ScratchDirectory& directory) {
    return WeightsOf(RatesOf(BasesOf(directory)));
  };
  if (use.directory_ != nullptr) {
    return use.directory_->ReserveAll(bytes, weights_of(*use.directory_));
  }
  const FsUser user = process->user();
  const auto chosen = Choose(*process, requested_base, held);
  if (!chosen.ok()) return chosen.status();
  const BaseChoice& choice = *chosen;
  auto base = OpenBase(rules_, choice, user);
  if (!base.ok()) return base.status();

  use.try_ = [this, choice, user] { trials_.Note(choice, user); };
  auto existing = process->scratch();
  const bool stays = existing != nullptr && existing->base() == choice.path;
  absl::Status usable = stays ? CheckAll(*existing, rules_, base->get(), user) : absl::OkStatus();
  if (stays && held != 0) {
    // The shim has the files of what is out open, as they are: no others can stand beside them.
    if (usable.ok() && existing->AllBytes() < held) usable = NotWhole(*existing);
    if (!usable.ok()) return InUse(*process, choice.path, held, MessageOf(usable));
  } else if (stays && usable.ok()) {
    usable = CheckStripes(*existing, choice);
  }
  if (!usable.ok()) {
    Log(LogLevel::kWarning, "process %d gets a new scratch directory: %s", process->pid(),
        MessageOf(usable).c_str());
  } else if (stays) {
    if (auto s = existing->ReserveAll(bytes, weights_of(*existing)); !s.ok()) return s;
    use.process_ = process;
    use.setting_ = SettingOf(RatesOf(BasesOf(*existing)));
    use.directory_ = std::move(existing);
    return absl::OkStatus();
  }
  auto made = Make(*process, choice, user);
  if (!made.ok()) return made.status();
  const std::shared_ptr<ScratchDirectory> directory = std::move(*made);
  absl::Status reserved = directory->ReserveAll(bytes, weights_of(*directory));
  if (reserved.ok() && !process->SetScratch(directory)) {
    reserved = Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                    Cat("process ", process->pid(), " has ended"));
  }
  if (!reserved.ok()) {
    Discard(*directory);
    return reserved;
  }
  use.process_ = process;
  use.setting_ = SettingOf(RatesOf(BasesOf(*directory)));
  use.directory_ = directory;
  use.replaced_ = std::move(existing);
  use.made_ = true;
  return absl::OkStatus();
}

absl::Status Scratch::Foretell(const Process& process, const std::string& requested_base,
                               Bytes bytes, Bytes held_out) const {
  if (auto s = CheckFileSizeLimit(process, bytes); !s.ok()) return s;
  const FsUser user = process.user();
  const auto chosen = Choose(process, requested_base, held_out);
  if (!chosen.ok()) return chosen.status();
  const BaseChoice& choice = *chosen;
  const auto base = OpenBase(rules_, choice, user);
  if (!base.ok()) return base.status();
  struct statvfs s;
  if (fstatvfs(base->get(), &s) != 0) {
    return ToStatus(OsError(errno, "ask how much is free in %s", choice.path.c_str()));
  }
  const auto existing = process.scratch();
  const Bytes held = existing != nullptr && existing->base() == choice.path ? existing->bytes() : 0;
  const Bytes needed = bytes > held ? bytes - held : 0;
  const Bytes free = Bytes(s.f_bavail) * s.f_frsize;
  if (needed <= free) return absl::OkStatus();
  return Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE",
              Cat(choice.path, " has ", InUnits(free), " free, process ", process.pid(), " needs ",
                  InUnits(needed)),
              {{"pid", std::to_string(process.pid())},
               {"path", choice.path},
               {"needed_bytes", std::to_string(needed)},
               {"free_bytes", std::to_string(free)}});
}

void Scratch::Adopt(Process& process, const std::string& path, Fd lock) {
  if (process.scratch() != nullptr) return;
  const auto warn = [&](const std::string& why) {
    Log(LogLevel::kWarning, "process %d: %s", process.pid(), Printable(why).c_str());
  };
  // The path is the process's word: no other place is touched for it.
  if (!MayHaveUsed(path)) return warn(path + " is in no scratch base of this node");
  auto claimed = ScratchDirectory::Claimed(path, std::move(lock), process.identity(),
                                           process.user(), rules_.stripe);
  if (!claimed.ok()) return warn(MessageOf(claimed.status()));
  if (!process.SetScratch(std::move(*claimed))) warn("ended while its scratch was adopted");
}

void Scratch::Forsake(Process& process) {
  const auto directory = process.scratch();
  if (directory == nullptr || process.connected() || !directory->LetGo()) return;
  // Ended meanwhile: then it is the reaper's.
  if (!process.SetScratch(nullptr)) return;
  Log(LogLevel::kInfo, "process %d has become another program", process.pid());
  Discard(*directory);
}

bool Scratch::MayHaveUsed(const std::string& path) {
  const std::string root = Cat("/", wire::kScratchRoot, "/");
  if (!CheckBasePath(path.substr(0, path.rfind(root))).ok()) return false;
  if (IsAllowedBase(rules_, path)) return true;
  const MutexLock lock(mu_);
  return std::any_of(remembered_.begin(), remembered_.end(),
                     [&](const std::string& base) { return path.starts_with(base + "/"); });
}

void Scratch::Remember(const std::string& base) {
  {
    const MutexLock lock(mu_);
    if (!remembered_.insert(base).second) return;
  }
  const std::string line = base + "\n";
  const Fd file(open(FileName().c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file || write(file.get(), line.data(), line.size()) != ssize_t(line.size())) {
    Log(LogLevel::kWarning, "cannot note in %s that %s is used: errno %d", FileName().c_str(),
        base.c_str(), errno);
  }
}

std::vector<SweptDirectory> Scratch::SweepAll(const Sweep& sweep) const {
  auto swept = SweepBases(rules_, BasesToSweep(rules_.dirs, ReadLines(FileName())), sweep);
  for (const SweptDirectory& directory : swept) {
    if (directory.dead && sweep.mode == Sweep::Mode::kRemove) reclaimed_ += directory.bytes;
  }
  return swept;
}

}  // namespace parkade::daemon
