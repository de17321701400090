// What a Commit, a Resume, a Verify and a Shift do: grants are checked, files written to, places
// changed; backups read and moved.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/text.h"
#include "tests/unit/daemon/fake_shim.h"

namespace parkade::testing {
namespace {

Bytes Stored(Bytes bytes) { return RoundUp(bytes, 4096); }

wire::Place PlaceFor(wire::Policy policy, bool spills) {
  if (policy == wire::Policy::kDiscard) return wire::Place::kDiscarded;
  const bool disk = policy == wire::Policy::kDisk || (policy == wire::Policy::kAuto && spills);
  return disk ? wire::Place::kDisk : wire::Place::kHost;
}

}  // namespace

using wire::ProcessState;

wire::Policy FakeShim::PolicyOf(const wire::Commit& commit, const std::string& tag) const {
  for (uint32_t i = 0; i < commit.tag_count; ++i) {
    if (ReadText(commit.tags[i].tag) == tag) return wire::Policy(commit.tags[i].policy);
  }
  return wire::Policy(commit.policy);
}

// Checks the grants as the real one does: what they do not cover is an error.
Result<void> FakeShim::Evict(wire::Packet& packet, const wire::Commit& commit) {
  Bytes host = 0, disk = 0, automatic = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!IsIn(i)) continue;
    const FakeAllocation& a = settings_.allocations[i];
    const wire::Policy policy = PolicyOf(commit, a.tag);
    if (policy == wire::Policy::kHost) host += Stored(a.bytes);
    if (policy == wire::Policy::kDisk) disk += Stored(a.bytes);
    if (policy == wire::Policy::kAuto) automatic += Stored(a.bytes);
  }
  const auto short_of = [](const char* reason) {
    return MakeError(Code::kResourceExhausted, reason, "the grant does not suffice");
  };
  if (host > commit.host_bytes) return short_of("HOST_MEMORY");
  const Bytes moved = std::min(automatic, commit.host_bytes - host);
  host += moved;
  disk += automatic - moved;
  if (disk > commit.disk_bytes) return short_of("DISK_SPACE");
  if (disk > 0) {
    const size_t first = commit.has_lock;
    struct stat s;
    if (packet.fd_count != first + commit.file_count || commit.file_count == 0 ||
        fstat(packet.fds[first].get(), &s) != 0 || Bytes(s.st_size) < disk) {
      return short_of("DISK_SPACE");
    }
    if (commit.has_lock != 0) lock_ = std::move(packet.fds[0]);
    scratch_ = ReadText(commit.scratch);
    const uint64_t mark = 0x5041524b;
    if (pwrite(packet.fds[first].get(), &mark, sizeof mark, 0) != ssize_t(sizeof mark)) {
      return OsError(errno, "write backup");
    }
  }
  host_bytes_ += stats_.host_bytes = host;
  disk_bytes_ += stats_.disk_bytes = disk;
  for (size_t i = 0; i < places_.size(); ++i) {
    const wire::Policy policy = PolicyOf(commit, settings_.allocations[i].tag);
    moved_[i] = IsIn(i) && policy != wire::Policy::kKeep;
    if (moved_[i]) places_[i] = PlaceFor(policy, moved < automatic);
  }
  can_undo_ = true;
  WriteRecords();
  return {};
}

bool FakeShim::AnyOut() const {
  return std::any_of(places_.begin(), places_.end(),
                     [](wire::Place place) { return place != wire::Place::kGpu; });
}

Bytes FakeShim::Pausable() const {
  Bytes bytes = unlisted_;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (IsIn(i)) bytes += Stored(settings_.allocations[i].bytes);
  }
  return bytes;
}

bool FakeShim::IsDone(const wire::Prepare& prepare) const {
  const bool gate_stays = gate_mode_ == uint64_t(wire::GateMode::kClosed) ||
                          prepare.gate_mode == uint32_t(wire::GateMode::kOpen);
  return gate_stays && Pausable() == 0;
}

void FakeShim::GoBack() {
  if (state() != ProcessState::kPaused) gate_mode_ = AnyOut() ? gate_before_ : 0;
  SetState(AnyOut() ? ProcessState::kPaused : ProcessState::kRunning);
}

bool FakeShim::BringBack(const wire::Resume& resume) {
  if (resume.undoes_pause != 0 && !can_undo_) return false;
  const auto wanted = [&](size_t i) {
    if (resume.undoes_pause != 0) return bool(moved_[i]);
    if (resume.tag_count == 0) return true;
    for (uint32_t k = 0; k < resume.tag_count; ++k) {
      if (ReadText(resume.tags[k]) == settings_.allocations[i].tag) return true;
    }
    return false;
  };
  bool any = false;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (IsIn(i) || !wanted(i)) continue;
    any = true;
    Bytes& tier = places_[i] == wire::Place::kDisk ? disk_bytes_ : host_bytes_;
    tier -= std::min(tier, Stored(settings_.allocations[i].bytes));
    places_[i] = wire::Place::kGpu;
  }
  const uint64_t gate = !AnyOut()                  ? 0
                        : resume.undoes_pause != 0 ? gate_before_
                        : resume.gate_mode != 0    ? resume.gate_mode
                                                   : gate_mode_;
  if (!AnyOut()) host_bytes_ = disk_bytes_ = 0;
  can_undo_ = false;
  WriteRecords();
  return std::exchange(gate_mode_, gate) != gate || any;
}

bool FakeShim::AnswerVerify(const wire::Verify& verify) {
  const uint64_t op_id = verify.header.op_id;
  if (verify.stop != 0) return Answer(op_id, {});
  if (state() != wire::ProcessState::kPaused) {
    return Answer(op_id, MakeError(Code::kFailedPrecondition, "NOT_PAUSED", "it runs"));
  }
  stats_ = {};
  stats_.host_bytes = host_bytes_;
  stats_.disk_bytes = disk_bytes_;
  stats_.wrong_blocks = wrong_.size();
  for (wire::WrongBlock wrong : wrong_) {
    wrong.header = wire::Make<wire::WrongBlock>(op_id).header;
    if (!channel_->Send(wrong, Deadline::InMs(5000)).ok()) return false;
  }
  if (holds_verify_) {
    held_verify_ = op_id;
    return true;
  }
  if (wrong_.empty()) return Answer(op_id, {});
  const char* const reason = wrong_[0].missing != 0 ? "BACKUP_MISSING" : "BACKUP_CORRUPT";
  return Answer(op_id, MakeError(Code::kDataLoss, reason, "a block is wrong"));
}

wire::Shift FakeShim::last_shift() const {
  const MutexLock lock(mu_);
  return shift_;
}

// All in host memory to the disk, or as much as is granted from there.
bool FakeShim::AnswerShift(const wire::Shift& shift) {
  {
    const MutexLock lock(mu_);
    shift_ = shift;
  }
  const uint64_t op_id = shift.header.op_id;
  if (state() != wire::ProcessState::kPaused) {
    return Answer(op_id, MakeError(Code::kFailedPrecondition, "NOT_PAUSED", "it runs"));
  }
  stats_ = {};
  if (holds_verify_) {
    held_verify_ = op_id;
    return true;
  }
  const bool to_host = shift.to == uint32_t(wire::Place::kHost);
  const Bytes moved = to_host ? std::min<Bytes>(shift.host_bytes, disk_bytes_) : host_bytes_;
  (to_host ? stats_.host_bytes : stats_.disk_bytes) = moved;
  if (to_host) {
    host_bytes_ += moved;
    stats_.left_bytes = disk_bytes_ - moved;
  } else {
    disk_bytes_ += std::exchange(host_bytes_, 0);
  }
  for (wire::Place& place : places_) {
    if (place == wire::Place::kHost && !to_host) place = wire::Place::kDisk;
    if (place == wire::Place::kDisk && to_host && stats_.left_bytes == 0)
      place = wire::Place::kHost;
  }
  WriteRecords();
  SetState(wire::ProcessState::kPaused);
  return Answer(op_id, {});
}

// Whatever else comes goes first.
bool FakeShim::EndVerify() {
  if (held_verify_ == 0) return true;
  return Answer(std::exchange(held_verify_, 0),
                MakeError(Code::kCancelled, "CANCELLED", "something else is to be done"));
}

wire::Commit FakeShim::last_commit() const {
  const MutexLock lock(mu_);
  return commit_;
}

wire::Prepare FakeShim::last_prepare() const {
  const MutexLock lock(mu_);
  return prepare_;
}

std::optional<wire::NoTurn> FakeShim::no_turn() const {
  const MutexLock lock(mu_);
  return no_turn_;
}

}  // namespace parkade::testing
