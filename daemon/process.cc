// Keeps a process's connection, its unanswered messages and its scratch directory.
#include "daemon/process.h"

#include <sys/socket.h>

#include <utility>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/status.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
Introduction IntroductionOf(const wire::Hello& hello) {
  Introduction in;
  in.job = Printable(ReadText(hello.job));
  in.role = Printable(ReadText(hello.role));
  in.cell = Printable(ReadText(hello.cell));
  if (hello.rank >= 0) in.rank = hello.rank;
  in.shim_version = Printable(ReadText(hello.shim_version));
  in.wanted_scratch_base = Printable(ReadText(hello.wanted_scratch_base));
  in.scratch_base_yields = hello.scratch_base_yields != 0;
  in.takes_turns = hello.takes_turns != 0;
  // Discard is only ever for tags that a request names.
  const auto policy = wire::Policy(hello.default_policy);
  if (wire::IsPolicy(hello.default_policy) && policy != wire::Policy::kDiscard) {
    in.default_policy = policy;
  }
  return in;
}

Process::Process(Identity identity, Fd pidfd)
    : identity_(std::move(identity)),
      command_(identity_.visible ? CommandLine(identity_.pid) : ""),
      pidfd_(std::move(pidfd)) {}

uint64_t Process::NextOpId() {
  // From the clock, so that a late reply to an earlier daemon's message matches none of ours.
  static std::atomic<uint64_t> next{WallClockNs()};
  return next.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Process::BeginBehind() {
  static std::atomic<uint64_t> next{1};
  const uint64_t number = next.fetch_add(1);
  behind_.store(number);
  return number;
}

absl::Status Process::Gone(bool ended) const {
  const Metadata metadata{{"pid", std::to_string(pid())}};
  if (ended) {
    return Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED",
                Cat("process ", pid(), " has ended"), metadata);
  }
  return Fail(absl::StatusCode::kUnavailable, "SHIM_DISCONNECTED",
              Cat("process ", pid(), " is not connected now; try again"), metadata);
}

void Process::AnswerAll(const std::map<uint64_t, Expected>& expected, bool ended) const {
  for (const auto& [op_id, e] : expected) e.round->Give(e.slot, {Gone(ended), std::nullopt});
}

void Process::Remember(Introduction introduction, wire::ProcessState state, DeepMark deep,
                       bool for_turn) {
  for_turn_.store(for_turn);
  const MutexLock lock(mu_);
  introduction_ = std::move(introduction);
  remembered_ = state;
  deep_ = std::move(deep);
}

void Process::Connect(Introduction introduction, std::shared_ptr<wire::Channel> channel,
                      std::shared_ptr<const Fd> ledger) {
  std::map<uint64_t, Expected> lost;
  const bool held = wire::IsLedgerHeld(ledger->get());
  {
    const MutexLock lock(mu_);
    introduction_ = std::move(introduction);
    channel_ = std::move(channel);
    ledger_ = std::move(ledger);
    held_its_ledger_ = held;
    lost.swap(expected_);
  }
  AnswerAll(lost, false);
}

void Process::Disconnect(const wire::Channel* channel) {
  std::map<uint64_t, Expected> lost;
  {
    const MutexLock lock(mu_);
    if (channel_.get() != channel) return;
    channel_.reset();
    lost.swap(expected_);
  }
  AnswerAll(lost, false);
}

bool Process::HasBecomeAnother() const {
  std::shared_ptr<const Fd> ledger;
  {
    const MutexLock lock(mu_);
    if (channel_ != nullptr || !held_its_ledger_) return false;
    ledger = ledger_;
  }
  return !wire::IsLedgerHeld(ledger->get());
}

void Process::Drop() {
  const MutexLock lock(mu_);
  // The listener sees the end of the connection and does the rest.
  if (channel_ != nullptr) shutdown(channel_->fd(), SHUT_RDWR);
}

std::shared_ptr<ScratchDirectory> Process::End() {
  std::map<uint64_t, Expected> lost;
  std::shared_ptr<ScratchDirectory> scratch;
  {
    const MutexLock lock(mu_);
    ended_ = true;
    channel_.reset();
    lost.swap(expected_);
    scratch.swap(scratch_);
  }
  AnswerAll(lost, true);
  return scratch;
}

bool Process::connected() const { return Connected() != nullptr; }

std::shared_ptr<wire::Channel> Process::Connected() const {
  const MutexLock lock(mu_);
  return channel_;
}

bool Process::ended() const {
  const MutexLock lock(mu_);
  return ended_;
}

std::shared_ptr<wire::Channel> Process::Expect(uint64_t op_id, const std::shared_ptr<Round>& round,
                                               size_t slot) {
  std::shared_ptr<wire::Channel> channel;
  bool ended;
  {
    const MutexLock lock(mu_);
    ended = ended_;
    channel = channel_;
    if (channel != nullptr) expected_[op_id] = {round, slot};
  }
  if (channel == nullptr) round->Give(slot, {Gone(ended), std::nullopt});
  return channel;
}

void Process::NotSent(uint64_t op_id, const Error& error) {
  Expected lost;
  {
    const MutexLock lock(mu_);
    const auto node = expected_.extract(op_id);
    if (!node) return;
    lost = node.mapped();
  }
  const bool full = error.code == Code::kDeadlineExceeded;
  lost.round->Give(
      lost.slot,
      {full ? Annotate(Gone(false), "its shim takes no messages: ") : Gone(false), std::nullopt});
}

void Process::Deliver(const wire::Channel* channel, const wire::Reply& reply) {
  Expected expected{};
  {
    const MutexLock lock(mu_);
    if (channel_.get() != channel) return;
    auto node = expected_.extract(reply.header.op_id);
    if (!node) return;
    expected = std::move(node.mapped());
  }
  wire::Reply checked = reply;
  if (!wire::IsProcessState(checked.state)) {
    checked.state = uint32_t(wire::ProcessState::kFailed);
    checked.code = uint32_t(Code::kInternal);
    CopyText(checked.reason, "SHIM_ERROR");
    CopyText(checked.message, "answered with an unknown state");
  }
  expected.round->Give(expected.slot, {ToStatus(checked, pid()), checked});
}

void Process::Deliver(const wire::Channel* channel, const wire::WrongBlock& note) {
  Expected expected{};
  {
    const MutexLock lock(mu_);
    const auto at = expected_.find(note.header.op_id);
    if (channel_.get() != channel || at == expected_.end()) return;
    expected = at->second;
  }
  expected.round->Note(expected.slot, note);
}

ProcessView Process::View() const {
  ProcessView view;
  view.identity = identity_;
  view.command = command_;
  std::shared_ptr<const Fd> ledger;
  {
    const MutexLock lock(mu_);
    view.introduction = introduction_;
    view.state = remembered_;
    view.connected = channel_ != nullptr;
    view.deep = deep_;
    if (scratch_ != nullptr) view.scratch_dir = scratch_->path();
    ledger = ledger_;
  }
  if (ledger != nullptr) {
    if (auto header = wire::ReadLedgerHeader(ledger->get()); header.ok()) {
      view.state = wire::ProcessState(header->state);
      view.ledger = *header;
    }
  }
  // Its shim knows nothing of that.
  if (view.deep.state == DeepMark::State::kFailed) view.state = wire::ProcessState::kFailed;
  view.asks_turn = asks_turn_.load();
  view.for_turn = for_turn_.load();
  return view;
}

absl::StatusOr<wire::LedgerView> Process::Ledger() const {
  std::shared_ptr<const Fd> ledger;
  {
    const MutexLock lock(mu_);
    ledger = ledger_;
  }
  if (ledger == nullptr) return Gone(false);
  auto view = wire::ReadLedger(ledger->get());
  if (!view.ok()) return ToStatus(view.error(), {{"pid", std::to_string(pid())}});
  return std::move(*view);
}

absl::StatusOr<std::vector<wire::LedgerStore>> Process::Stores() const {
  std::shared_ptr<const Fd> ledger;
  {
    const MutexLock lock(mu_);
    ledger = ledger_;
  }
  if (ledger == nullptr) return Gone(false);
  auto stores = wire::ReadLedgerStores(ledger->get());
  if (!stores.ok()) return ToStatus(stores.error(), {{"pid", std::to_string(pid())}});
  return std::move(*stores);
}

void Process::SetDeep(DeepMark deep) {
  const MutexLock lock(mu_);
  deep_ = std::move(deep);
}

bool Process::SetScratch(std::shared_ptr<ScratchDirectory> scratch) {
  const MutexLock lock(mu_);
  if (ended_) return false;
  scratch_ = std::move(scratch);
  return true;
}

std::shared_ptr<ScratchDirectory> Process::scratch() const {
  const MutexLock lock(mu_);
  return scratch_;
}

}  // namespace parkade::daemon
