// Answers the daemon as a shim would.
#include "tests/unit/daemon/fake_shim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/text.h"
#include "daemon/identity.h"

namespace parkade::testing {
namespace {

using wire::ProcessState;

constexpr unsigned char kUuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

Bytes Stored(Bytes bytes) { return RoundUp(bytes, 4096); }

}  // namespace

FakeShim::FakeShim(FakeShimSettings settings)
    : settings_(std::move(settings)),
      ledger_(memfd_create("fake-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  const size_t records = settings_.allocations.size();
  [[maybe_unused]] int r = ftruncate(
      ledger_.get(), off_t(wire::kLedgerHeaderBytes + records * sizeof(wire::LedgerRecord)));
  r = fcntl(ledger_.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  places_.assign(records, wire::Place::kGpu);
  moved_.assign(records, false);
  WriteHeader();
  WriteRecords();
}

FakeShim::~FakeShim() { Disconnect(); }

void FakeShim::WriteHeader() {
  wire::LedgerHeader h{};
  h.magic = wire::kLedgerMagic;
  h.version = wire::kLedgerVersion;
  h.header_bytes = wire::kLedgerHeaderBytes;
  h.record_bytes = sizeof(wire::LedgerRecord);
  h.capacity = h.used_slots = h.allocations = settings_.allocations.size();
  h.state = state_.load();
  h.host_backup_bytes = host_bytes_;
  h.host_pool_bytes = host_bytes_ + kept_host_;
  h.disk_backup_bytes = disk_bytes_;
  h.op_id = moving_op_;
  h.moved_bytes = moved_bytes_;
  h.to_move_bytes = to_move_;
  h.epoch = epoch_;
  h.gate_mode = gate_mode_;
  memcpy(h.devices[0].uuid, kUuid, sizeof kUuid);
  h.devices[0].used = 1;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Bytes bytes = settings_.allocations[i].bytes;
    h.devices[0].requested_bytes += bytes;
    // A Resume in turn has all of it by its end.
    const bool in = IsIn(i) || state() == ProcessState::kPartlyMoved;
    if (in) h.devices[0].resident_bytes += Stored(bytes);
  }
  h.shifted_bytes[0] = uint64_t(shifted_.load());
  CopyText(h.text, "PARKADE_POLICY=host (default)\nwarning: this is no real shim");
  [[maybe_unused]] const ssize_t n = pwrite(ledger_.get(), &h, sizeof h, 0);
}

void FakeShim::WriteRecords() {
  uint64_t base = 0x7f0000000000;
  for (size_t i = 0; i < settings_.allocations.size(); ++i) {
    const FakeAllocation& a = settings_.allocations[i];
    wire::LedgerRecord r{};
    r.used = 1;
    r.base = base;
    r.bytes = a.bytes;
    r.number = i + 1;
    r.allocation_class = uint32_t(wire::AllocationClass::kPausable);
    r.place = uint32_t(places_[i]);
    CopyText(r.tag, a.tag);
    base += RoundUp(a.bytes, 2_MiB);
    [[maybe_unused]] const ssize_t n =
        pwrite(ledger_.get(), &r, sizeof r, off_t(wire::kLedgerHeaderBytes + i * sizeof r));
  }
}

void FakeShim::SetState(ProcessState state) {
  state_ = uint32_t(state);
  WriteHeader();
}

wire::Hello FakeShim::MakeHello() const {
  auto hello = wire::Make<wire::Hello>();
  hello.version = wire::kVersion;
  hello.oldest_accepted = wire::kOldestAccepted;
  hello.pid = getpid();
  hello.rank = settings_.rank;
  hello.start_ticks = *daemon::StartTicks(getpid());
  hello.pid_namespace = *daemon::PidNamespace(getpid());
  CopyText(hello.boot_id, daemon::BootId());
  CopyText(hello.job, settings_.job);
  CopyText(hello.role, settings_.role);
  CopyText(hello.shim_version, "fake");
  CopyText(hello.scratch, scratch_);
  CopyText(hello.wanted_scratch_base, settings_.wanted_scratch_base);
  hello.default_policy = uint32_t(settings_.default_policy);
  hello.takes_turns = settings_.takes_turns ? 1 : 0;
  return hello;
}

Result<void> FakeShim::Connect(const std::string& path) {
  Disconnect();
  auto channel = wire::Channel::Connect(path.c_str());
  if (!channel.ok()) return channel.error();
  const int fds[] = {ledger_.get(), lock_.get()};
  const size_t count = lock_ ? 2 : 1;
  if (auto r = channel->Send(MakeHello(), Deadline::InMs(5000), {fds, count}); !r.ok()) return r;
  wire::Packet packet;
  if (auto r = channel->Receive(&packet, Deadline::InMs(5000)); !r.ok()) return r;
  if (packet.header().type != wire::Type::kWelcome) {
    return MakeError(Code::kPermissionDenied, "REFUSED", "no Welcome");
  }
  Serve(std::move(*channel));
  return {};
}

void FakeShim::Serve(wire::Channel channel) {
  channel_ = std::make_unique<wire::Channel>(std::move(channel));
  thread_ = std::thread([this] { Loop(); });
}

void FakeShim::Disconnect() {
  if (channel_ == nullptr) return;
  shutdown(channel_->fd(), SHUT_RDWR);
  thread_.join();
  channel_.reset();
}

Result<void> FakeShim::AskWarm(Bytes host_bytes) {
  auto ask = wire::Make<wire::AskWarm>();
  ask.host_bytes = host_bytes;
  return channel_->Send(ask, Deadline::InMs(5000));
}

void FakeShim::On(wire::Type type, Act act, int after) {
  const MutexLock lock(mu_);
  acts_[type] = {act, after};
}

void FakeShim::SetShifted(int64_t bytes) {
  shifted_ = bytes;
  WriteHeader();
}

void FakeShim::KeepHost(Bytes bytes) {
  kept_host_ = bytes;
  WriteHeader();
}

void FakeShim::SetMoving(uint64_t op_id, Bytes moved, Bytes total) {
  moving_op_ = op_id;
  moved_bytes_ = moved;
  to_move_ = total;
  WriteHeader();
}

int FakeShim::Count(wire::Type type) const {
  const MutexLock lock(mu_);
  const auto at = counts_.find(type);
  return at == counts_.end() ? 0 : at->second;
}

bool FakeShim::WaitFor(ProcessState wanted) const {
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (state() == wanted) return true;
  }
  return false;
}

void FakeShim::Loop() {
  for (;;) {
    wire::Packet packet;
    // An hour is longer than any test. While it drains it looks at the job again every ms.
    const auto received = channel_->Receive(&packet, Deadline::InMs(draining_ ? 1 : 3'600'000));
    if (draining_ && !LookAtDrain()) break;
    if (received.ok() ? !Handle(packet) : received.error().code != Code::kDeadlineExceeded) break;
  }
  draining_.reset();
  arriving_.reset();
  if (state() == ProcessState::kPrepared || state() == ProcessState::kPreparing) GoBack();
  if (state() == ProcessState::kRestoring || state() == ProcessState::kPartlyMoved) {
    SetState(ProcessState::kPaused);
  }
  shutdown(channel_->fd(), SHUT_RDWR);
}

bool FakeShim::Answer(uint64_t op_id, const Result<void>& result, bool already) {
  auto reply = wire::Make<wire::Reply>(op_id);
  reply.state = state_.load();
  reply.already = already ? 1 : 0;
  reply.device = -1;
  reply.stats = stats_;
  if (!result.ok()) {
    reply.code = uint32_t(result.error().code);
    CopyText(reply.reason, result.error().reason);
    CopyText(reply.message, result.error().what);
    if (settings_.launches != nullptr) reply.device = 0;
  }
  return channel_->Send(reply, Deadline::InMs(5000)).ok();
}

bool FakeShim::LookAtDrain() {
  FakeJob& job = *settings_.launches;
  Draining& d = *draining_;
  if (d.calls != 0 && job.launches(settings_.launch_rank)) {
    job.Launch(settings_.launch_rank, d.calls);
    stats_.let_through = d.calls;
    d.calls = 0;
  }
  const bool waits_for_call = d.calls != 0 && !d.arrival.Passed();
  const uint64_t op_id = d.op_id;
  if (!waits_for_call && job.Drained(settings_.launch_rank)) {
    draining_.reset();
    SetState(ProcessState::kPrepared);
    return draining_act_ == Act::kDropAnswer
               ? false
               : Answer(op_id, {}) && draining_act_ != Act::kAnswerAndDrop;
  }
  if (!d.by.Passed()) return true;
  draining_.reset();
  GoBack();
  return Answer(op_id, MakeError(Code::kFailedPrecondition, "BUSY", "launches have not ended"));
}

Bytes FakeShim::Needed() const {
  Bytes bytes = 0;
  for (const FakeAllocation& a : settings_.allocations) bytes += Stored(a.bytes);
  return bytes;
}

// Whether there is room now for what is to come in. False: the connection is to end.
bool FakeShim::LookAtRoom() {
  if (!arriving_ || room_ < Needed()) return true;
  const Arriving arrived = *std::exchange(arriving_, std::nullopt);
  SetState(ProcessState::kPartlyMoved);
  if (arrived.act == Act::kDropAnswer) return false;
  return Answer(arrived.op_id, {}) && arrived.act != Act::kAnswerAndDrop;
}

bool FakeShim::Handle(wire::Packet& packet) {
  const wire::Header header = packet.header();
  Act act = Act::kWork;
  if (wire::Warm warm; packet.Read(&warm)) warm_bytes_ = warm.host_bytes;
  if (wire::NoTurn no; packet.Read(&no)) {
    const MutexLock lock(mu_);
    no_turn_ = no;
    return true;
  }
  if (!EndVerify()) return false;
  {
    const MutexLock lock(mu_);
    ++counts_[header.type];
    const auto at = acts_.find(header.type);
    if (at != acts_.end() && at->second.after-- <= 0) act = at->second.act;
  }
  switch (act) {
    case Act::kWork:
      return Work(packet, act);
    case Act::kRefuse:
      // As the real one: a Prepare or Commit that fails leaves the process running.
      // One whose bytes are out, or on their way in, does not run by refusing.
      if (header.type != wire::Type::kResume && state() != ProcessState::kRestoring &&
          state() != ProcessState::kPartlyMoved) {
        GoBack();
      }
      return Answer(header.op_id,
                    MakeError(Code::kFailedPrecondition, "BUSY", "told to refuse this message"));
    case Act::kHang:
      return true;
    case Act::kDisconnect:
      return false;
    case Act::kDropAnswer:
    case Act::kAnswerAndDrop:
      return Work(packet, act) && (draining_ || arriving_);
  }
  return false;
}

// False: the connection is to end. An act other than kWork says how an answer is given.
bool FakeShim::Work(wire::Packet& packet, Act act) {
  const uint64_t op_id = packet.header().op_id;
  const auto answer = [&](const Result<void>& result, bool already = false) {
    return act == Act::kDropAnswer || Answer(op_id, result, already);
  };
  wire::Prepare prepare;
  wire::LetThrough let_through;
  wire::Commit commit;
  wire::Resume resume;
  if (packet.Read(&prepare)) {
    stats_ = {};
    {
      const MutexLock lock(mu_);
      prepare_ = prepare;
    }
    epoch_ = std::max(epoch_, prepare.epoch);
    can_undo_ = false;
    if (state() == ProcessState::kPaused && IsDone(prepare)) {
      SetState(ProcessState::kPaused);  // with the epoch
      return answer({}, true);
    }
    stats_.pausable_bytes = Pausable();
    gate_before_ = gate_mode_;
    if (gate_mode_ != uint64_t(wire::GateMode::kClosed)) gate_mode_ = prepare.gate_mode;
    if (settings_.launches != nullptr) {
      SetState(ProcessState::kPreparing);
      draining_ = {op_id, Deadline::InNs(prepare.drain_timeout_ns), Deadline::InMs(0), 0};
      draining_act_ = act;
      return LookAtDrain();
    }
    SetState(ProcessState::kPrepared);
    return answer({});
  }
  if (packet.Read(&let_through)) {
    stats_.let_through = 0;
    if (settings_.launches == nullptr) return answer({});
    if (let_through.arrival_ns == 0) {
      const size_t rank = settings_.launch_rank;
      if (draining_ && settings_.launches->launches(rank)) settings_.launches->Launch(rank, 1);
      return answer({});
    }
    draining_ = {op_id, Deadline::InNs(let_through.drain_timeout_ns),
                 Deadline::InNs(let_through.arrival_ns), let_through.calls};
    draining_act_ = act;
    return LookAtDrain();
  }
  if (packet.Read(&commit)) {
    {
      const MutexLock lock(mu_);
      commit_ = commit;
    }
    const auto result = Evict(packet, commit);
    if (result.ok()) {
      SetState(ProcessState::kPaused);
    } else {
      GoBack();
    }
    return answer(result);
  }
  wire::Verify verify;
  if (packet.Read(&verify)) return AnswerVerify(verify);
  wire::Shift shift;
  if (packet.Read(&shift)) return AnswerShift(shift);
  wire::Room room;
  if (packet.Read(&room)) {
    room_ = room.bytes;
    return LookAtRoom();
  }
  if (packet.Read(&resume) && resume.in_turn != 0 && state() == ProcessState::kPaused) {
    room_ = 0;
    SetState(ProcessState::kRestoring);
    arriving_ = {op_id, act};
    return true;
  }
  if (packet.Read(&resume)) {
    stats_ = {};
    epoch_ = std::max(epoch_, resume.epoch);
    const bool already = state() == ProcessState::kRunning || !BringBack(resume);
    SetState(AnyOut() ? ProcessState::kPaused : ProcessState::kRunning);
    return answer({}, already);
  }
  if (packet.header().type == wire::Type::kAbort) {
    if (draining_) {
      const uint64_t aborted = std::exchange(draining_, std::nullopt)->op_id;
      GoBack();
      if (!Answer(aborted, MakeError(Code::kAborted, "ABORTED", "the daemon gave up")))
        return false;
    }
    if (state() == ProcessState::kPrepared) GoBack();
    if (arriving_) {
      const uint64_t aborted = std::exchange(arriving_, std::nullopt)->op_id;
      SetState(ProcessState::kPaused);
      if (!Answer(aborted, MakeError(Code::kCancelled, "CANCELLED", "the daemon gave up"))) {
        return false;
      }
    }
    if (state() == ProcessState::kPartlyMoved) SetState(ProcessState::kPaused);
  }
  return answer({});
}

}  // namespace parkade::testing
