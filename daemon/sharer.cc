// One thread that looks and decides, and one for each turn that is carried out.
#include "daemon/sharer.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "daemon/selector.h"
#include "daemon/status.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// Memory that comes free by itself, and processes that end, announce themselves to nobody here.
constexpr uint64_t kLookNs = 250'000'000;
// An allocation tries anew every 20 ms.
constexpr uint64_t kTakeNs = 5'000'000'000;
// One that was refused for something that may pass asks again after this.
constexpr uint32_t kAgainMs = 5000;
constexpr uint64_t kResumeWaitNs = 10'000'000'000;

void Add(const ByGpu& bytes, ByGpu& sum) {
  for (const auto& [uuid, count] : bytes) sum[uuid] += std::min(count, kMostClaimed);
}

bool Within(const ByGpu& bytes, const ByGpu& most) {
  return std::all_of(bytes.begin(), bytes.end(), [&](const auto& gpu) {
    const auto at = most.find(gpu.first);
    return at != most.end() && gpu.second <= at->second;
  });
}

bool Touches(const ByGpu& bytes, const std::set<std::string>& gpus) {
  return std::any_of(bytes.begin(), bytes.end(),
                     [&](const auto& gpu) { return gpus.contains(gpu.first); });
}

void Block(const ByGpu& bytes, std::set<std::string>& gpus) {
  for (const auto& [uuid, count] : bytes) gpus.insert(uuid);
}

bool IsOf(const Party& party, const Process& process) {
  return std::any_of(party.processes.begin(), party.processes.end(),
                     [&](const auto& each) { return each.get() == &process; });
}

// It may work the next time, with nobody doing anything about it.
bool Passes(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled || reason == "BUSY" ||
         reason == "CAPTURE_ACTIVE" || reason == "NO_PROCESS";
}

absl::Status Held() {
  return Fail(absl::StatusCode::kFailedPrecondition, "HELD",
              "the process was paused by a request, and stays so until it is resumed by one");
}

absl::Status Alone() {
  return Fail(
      absl::StatusCode::kFailedPrecondition, "NO_TURNS",
      "an orchestrator's epoch or a reservation says who has this memory when, or a rank of "
      "the same job takes no turns");
}

absl::Status NoFigures() {
  return Fail(absl::StatusCode::kUnavailable, "NO_GPU_FIGURES",
              "the daemon does not know what its GPU has free");
}

absl::Status NoRoom() {
  return Fail(absl::StatusCode::kResourceExhausted, "GPU_MEMORY",
              "processes that take turns do not hold enough of the GPU to make room for this");
}

}  // namespace

Sharer::Sharer(Neighbours neighbours, uint64_t quantum_ns, uint64_t hope_ns)
    : to_(neighbours), quantum_ns_(quantum_ns), hope_ns_(hope_ns), turns_(quantum_ns) {
  thread_ = std::thread([this] { Loop(); });
}

void Sharer::Stop() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Sharer::Asks(std::shared_ptr<Process> process, const wire::AskTurn& message) {
  const ProcessView view = process->View();
  if (!view.introduction.takes_turns || !view.ledger) return;
  Ask ask;
  ask.number = message.header.op_id;
  ask.work = message.work != 0;
  for (size_t i = 0; i < wire::kMaxDevices; ++i) {
    const wire::LedgerDevice& device = view.ledger->devices[i];
    if (device.used == 0 || message.bytes[i] == 0) continue;
    Add({{GpuUuid(device.uuid), message.bytes[i]}}, ask.bytes);
  }
  ask.process = process;
  const MutexLock lock(mu_);
  if (ask.work || !ask.bytes.empty()) {
    asks_[process.get()] = std::move(ask);
  } else {
    asks_.erase(process.get());
  }
  fresh_ = true;
  changed_.NotifyAll();
}

void Sharer::Loop() {
  for (uint64_t again_ns = UINT64_MAX;;) {
    {
      const MutexLock lock(mu_);
      while (!fresh_ && !ending_ && MonotonicNs() < again_ns) {
        const uint64_t now_ns = MonotonicNs();
        changed_.WaitUntil(mu_, Deadline::InNs(std::min(again_ns - now_ns, 1000 * kLookNs)));
      }
      if (ending_) break;
      fresh_ = false;
    }
    TakeEnded();
    again_ns = Look();
  }
  for (Turn& turn : under_way_) turn.thread.join();
  under_way_.clear();
}

uint64_t Sharer::Look() {
  std::vector<Ask> asks;
  {
    const MutexLock lock(mu_);
    for (const auto& [process, ask] : asks_) asks.push_back(ask);
  }
  std::set<int> reserved;
  for (const Reservation& kept : to_.reservations.List({.sees_all = true})) {
    if (kept.pid != 0) reserved.insert(kept.pid);
  }
  Sight sight;
  sight.parties = PartiesOf(to_.registry.All(), reserved);
  sight.now_ns = MonotonicNs();
  sight.again_ns = sight.now_ns + kLookNs;
  sight.wants = WantsOf(sight.parties, asks);
  std::set<std::string> known, asking;
  for (const Party& party : sight.parties) known.insert(party.key);
  turns_.Keep(known);
  for (const auto& [key, want] : sight.wants) asking.insert(key);
  turns_.SetAsking(asking);
  std::erase_if(hopeless_since_, [&](const auto& entry) { return !asking.contains(entry.first); });
  std::erase_if(granted_, [&](const auto& grant) { return !asking.contains(grant.first); });
  for (const Party& party : sight.parties) {
    for (const auto& process : party.processes) process->SetAsksTurn(asking.contains(party.key));
  }
  for (const Turn& turn : under_way_) {
    sight.blocked.insert(turn.gpus.begin(), turn.gpus.end());
  }
  for (const std::string& key : std::list<std::string>(turns_.order())) {
    Decide(key, sight.wants.at(key), sight);
  }
  return asks.empty() && under_way_.empty() ? UINT64_MAX : sight.again_ns;
}

Sharer::Wants Sharer::WantsOf(const std::vector<Party>& parties, const std::vector<Ask>& asks) {
  Wants wants;
  for (const Ask& ask : asks) {
    const auto party = std::find_if(parties.begin(), parties.end(),
                                    [&](const Party& p) { return IsOf(p, *ask.process); });
    if (party == parties.end()) {
      const MutexLock lock(mu_);
      if (ask.process->ended()) asks_.erase(ask.process.get());
      continue;
    }
    if (party->standing == Party::Standing::kAlone) {
      Refuse(*party, Alone());
    } else if (party->standing == Party::Standing::kHeld) {
      // An allocation waits on: it is made when the process runs again.
      if (ask.bytes.empty()) Refuse(*party, Held());
    } else if (party->standing != Party::Standing::kIn || !ask.bytes.empty()) {
      Want& want = wants[party->key];
      want.party = &*party;
      Add(ask.bytes, want.bytes);
    }
  }
  return wants;
}

void Sharer::Decide(const std::string& key, const Want& want, Sight& sight) {
  const Party& party = *want.party;
  const bool begun = std::any_of(under_way_.begin(), under_way_.end(),
                                 [&](const Turn& turn) { return turn.comes.key == key; });
  if (begun || party.standing == Party::Standing::kAway) return;
  ByGpu needs = party.lacks;
  Add(want.bytes, needs);
  if (const auto grant = granted_.find(key); grant != granted_.end()) {
    if (sight.now_ns < grant->second.until_ns && Within(needs, grant->second.bytes)) {
      return Add(needs, sight.promised);
    }
    // It was not taken, or was not enough: that is a new wish.
    granted_.erase(grant);
    turns_.PutOff(key, 0);
    sight.again_ns = sight.now_ns;
    return;
  }
  if (turns_.put_off_until_ns(key) > sight.now_ns) return;
  // Nobody goes before who came first, not even where there is room: it would take the room that
  // the first one waits for.
  if (Touches(needs, sight.blocked)) return Block(needs, sight.blocked);
  const auto free = FreeFor(needs, sight.promised);
  if (!free) return Refuse(party, NoFigures());
  std::vector<Turns::Holder> holders;
  // Who cannot leave now, or has still to take what was made room for.
  bool others_may_do = std::any_of(needs.begin(), needs.end(), [&](const auto& gpu) {
    return sight.promised.contains(gpu.first);
  });
  for (const Party& other : sight.parties) {
    if (other.key == key || other.uid != party.uid) continue;
    const bool busy =
        other.standing == Party::Standing::kAway || Touches(other.holds, sight.blocked);
    others_may_do |= busy;
    if (busy || other.standing != Party::Standing::kIn) continue;
    holders.push_back({other.key, other.holds, turns_.KeepsUntil(other.key, other.came_in_ns)});
  }
  const Turns::Choice choice = Turns::Choose(needs, *free, std::move(holders), sight.now_ns);
  switch (choice.what) {
    case Turns::Choice::What::kNever:
      if (others_may_do) break;
      if (sight.now_ns - hopeless_since_.emplace(key, sight.now_ns).first->second >= hope_ns_) {
        return Refuse(party, NoRoom());
      }
      return Block(needs, sight.blocked);
    case Turns::Choice::What::kWait:
      sight.again_ns = std::min(sight.again_ns, choice.until_ns);
      break;
    case Turns::Choice::What::kGo:
      if (choice.leave.empty() && party.standing == Party::Standing::kIn) {
        granted_[key] = {needs, sight.now_ns + kTakeNs};
        return Add(needs, sight.promised);
      }
      Begin(want, choice.leave, needs, sight);
      sight.blocked.insert(under_way_.back().gpus.begin(), under_way_.back().gpus.end());
      break;
  }
  hopeless_since_.erase(key);
  Block(needs, sight.blocked);
}

std::optional<ByGpu> Sharer::FreeFor(const ByGpu& needs, const ByGpu& promised) const {
  ByGpu free;
  for (const auto& [uuid, bytes] : needs) {
    const GpuAccount::Room room = to_.account.RoomOn(uuid);
    if (!room.free) return std::nullopt;
    const auto at = promised.find(uuid);
    const Bytes others =
        room.booked + room.reserved + room.ahead + (at == promised.end() ? 0 : at->second);
    free[uuid] = *room.free > others ? *room.free - others : 0;
  }
  return free;
}

void Sharer::Begin(const Want& want, const std::vector<std::string>& leave, const ByGpu& needs,
                   const Sight& sight) {
  Turn& turn = under_way_.emplace_back();
  turn.comes = *want.party;
  turn.bytes = want.bytes;
  turn.begun_ns = sight.now_ns;
  Block(needs, turn.gpus);
  for (const Party& party : sight.parties) {
    if (std::find(leave.begin(), leave.end(), party.key) == leave.end()) continue;
    turn.leave.push_back(party);
    Block(party.holds, turn.gpus);
  }
  turn.thread = std::thread([this, &turn] {
    const absl::Status status = Carry(turn);
    const MutexLock lock(mu_);
    turn.status = status;
    turn.ended = fresh_ = true;
    changed_.NotifyAll();
  });
}

absl::Status Sharer::Carry(const Turn& turn) {
  // Never seen before: a repeated id would be answered as the first time.
  const std::string id = Cat("wake-", turn.comes.processes.front()->pid(), "-", WallClockNs());
  if (auto s = Pause(turn, Cat(id, "-out")); !s.ok()) return s;
  if (turn.comes.standing != Party::Standing::kOut) {
    for (const auto& process : turn.comes.processes) process->ComesIn();
    return absl::OkStatus();
  }
  const absl::Status resumed = Resume(turn.comes.uid, {turn.comes}, Cat(id, "-in"));
  if (resumed.ok() || turn.leave.empty()) return resumed;
  // Nobody has anything of it that they left: they are as they were.
  const absl::Status back = Resume(turn.comes.uid, turn.leave, Cat(id, "-back"));
  return back.ok() ? resumed : Annotate(resumed, "", {{"not_resumed", MessageOf(back)}});
}

absl::Status Sharer::Pause(const Turn& turn, const std::string& request_id) {
  if (turn.leave.empty()) return absl::OkStatus();
  PauseOrder order;
  for (const Party& party : turn.leave) {
    const auto pids = party.Pids();
    order.selector.pids.insert(order.selector.pids.end(), pids.begin(), pids.end());
  }
  order.policies.all = wire::Policy::kAuto;
  order.for_turn = true;
  const Caller caller{.uid = turn.comes.uid};
  return to_.operations
      .Run({caller.Name(), OperationKind::kPause, request_id, ""}, Deadline::Never(),
           [&](Course& course) { return to_.node.Pause(caller, order, course); })
      .status();
}

absl::Status Sharer::Resume(uid_t uid, const std::vector<Party>& parties,
                            const std::string& request_id) {
  ResumeOrder order;
  for (const Party& party : parties) {
    const auto pids = party.Pids();
    order.selector.pids.insert(order.selector.pids.end(), pids.begin(), pids.end());
  }
  order.wait_timeout_ns = kResumeWaitNs;
  const Caller caller{.uid = uid};
  return to_.operations
      .Run({caller.Name(), OperationKind::kResume, request_id, ""}, Deadline::Never(),
           [&](Course& course) { return to_.node.Resume(caller, order, course); })
      .status();
}

void Sharer::TakeEnded() {
  std::list<Turn> ended;
  {
    const MutexLock lock(mu_);
    for (auto at = under_way_.begin(); at != under_way_.end();) {
      const auto next = std::next(at);
      if (at->ended) ended.splice(ended.end(), under_way_, at);
      at = next;
    }
  }
  const uint64_t now_ns = MonotonicNs();
  for (Turn& turn : ended) {
    turn.thread.join();
    const std::string& key = turn.comes.key;
    if (turn.status.ok()) {
      turns_.CameIn(key, now_ns, now_ns - turn.begun_ns);
      if (!turn.bytes.empty()) granted_[key] = {turn.bytes, now_ns + kTakeNs};
      continue;
    }
    Log(LogLevel::kWarning, "no turn for process %d: %s", turn.comes.processes.front()->pid(),
        MessageOf(turn.status).c_str());
    if (Passes(turn.status)) {
      turns_.PutOff(key, now_ns + quantum_ns_);
    } else {
      Refuse(turn.comes, turn.status);
    }
  }
}

void Sharer::Refuse(const Party& party, const absl::Status& why) {
  std::vector<Ask> refused;
  {
    const MutexLock lock(mu_);
    for (const auto& process : party.processes) {
      if (auto node = asks_.extract(process.get())) refused.push_back(std::move(node.mapped()));
    }
  }
  for (const Ask& ask : refused) {
    auto no = wire::Make<wire::NoTurn>(ask.number);
    no.code = uint32_t(why.code());
    no.again_ms = ReasonOf(why) == "HELD" ? 0 : kAgainMs;
    CopyText(no.reason, ReasonOf(why));
    CopyText(no.message, MessageOf(why));
    ask.process->SetAsksTurn(false);
    ask.process->Tell(no);
  }
}

}  // namespace parkade::daemon
