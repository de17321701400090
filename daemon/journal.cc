// Remembers in memory, and in a file for the next daemon.
#include "daemon/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "daemon/packed.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// The file is written anew when it is larger than this and twice what it was then.
constexpr uint64_t kSmall = 1 << 20;
constexpr uint64_t kRetryMs = 10'000;

std::string KeyOf(const Identity& identity) {
  Packer key;
  key.Text(identity.boot_id);
  key.Number(identity.pid_namespace);
  key.Number(uint64_t(identity.own_pid));
  key.Number(identity.start_ticks);
  return key.Take();
}

std::string KeyOf(const std::string& owner, const std::string& name) {
  Packer key;
  key.Text(owner);
  key.Text(name);
  return key.Take();
}

bool IsSettled(wire::ProcessState state) {
  using wire::ProcessState;
  return state == ProcessState::kRunning || state == ProcessState::kPaused ||
         state == ProcessState::kPartlyMoved || state == ProcessState::kFailed;
}

}  // namespace

Journal::Journal(const std::string& state_dir, std::string boot_id)
    : path_(state_dir + "/journal"), boot_id_(std::move(boot_id)) {
  const MutexLock lock(mu_);
  const std::string lock_path = path_ + ".lock";
  lock_.Reset(open(lock_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_ || flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    usable_ = false;
    GiveUp(ToStatus(OsError(errno, "lock %s", lock_path.c_str())));
    return;
  }
  auto content = JournalFile::Read(path_);
  if (!content.ok()) {
    usable_ = ReasonOf(content.status()) != "UNSAFE_FILE";
    GiveUp(content.status());
  } else {
    Load(content->records);
    // A torn tail is what a killed daemon leaves; more than one record is not.
    if (content->lost_bytes > JournalFile::kLongest) {
      Log(LogLevel::kWarning, "%zu bytes of %s are no journal and were left out",
          content->lost_bytes, path_.c_str());
    }
  }
  if (usable_) Rewrite();
}

std::string Journal::RecordOf(Kind kind, std::string_view body) {
  Packer record;
  record.Number(uint64_t(kind));
  record.Text(body);
  return record.Take();
}

void Journal::Load(const std::vector<std::string>& records) {
  // Whatever another boot's records are about is gone.
  if (records.empty() || records[0] != RecordOf(Kind::kBoot, boot_id_)) return;
  for (const std::string& record : records) {
    // One that is not understood is of another version: the rest may still be.
    Apply(record);
  }
  for (const auto& [key, packed] : processes_) found_.processes.push_back(*UnpackProcess(packed));
  for (const auto& [number, packed] : begun_) {
    found_.interrupted.push_back(*UnpackOperation(packed));
    next_number_ = number + 1;
  }
  for (const std::string& packed : answers_) found_.answers.push_back(*UnpackAnswer(packed));
  for (const auto& [key, packed] : groups_) found_.groups.push_back(*UnpackGroup(packed));
  for (const auto& [id, packed] : reservations_) {
    found_.reservations.push_back(*UnpackReservation(packed));
  }
  for (const auto& [job, packed] : budgets_) found_.budgets.push_back(*UnpackBudget(packed));
}

bool Journal::Apply(std::string_view record) {
  Unpacker from(record);
  const Kind kind = Kind(from.Number());
  std::string body = from.Text();
  if (!from.done()) return false;
  switch (kind) {
    case Kind::kBoot:
      return true;
    case Kind::kProcess: {
      const auto process = UnpackProcess(body);
      if (!process) return false;
      processes_[KeyOf(process->identity)] = std::move(body);
      return true;
    }
    case Kind::kGone:
      processes_.erase(body);
      return true;
    case Kind::kBegun: {
      const auto operation = UnpackOperation(body);
      if (!operation) return false;
      begun_[operation->number] = std::move(body);
      return true;
    }
    case Kind::kEnded: {
      Unpacker number(body);
      begun_.erase(number.Number());
      return number.done();
    }
    case Kind::kAnswer:
      if (!UnpackAnswer(body)) return false;
      answers_.push_back(std::move(body));
      if (answers_.size() > kAnswers) answers_.pop_front();
      return true;
    case Kind::kGroup: {
      const auto group = UnpackGroup(body);
      if (!group) return false;
      groups_[KeyOf(group->owner, group->name)] = std::move(body);
      return true;
    }
    case Kind::kGroupGone:
      groups_.erase(body);
      return true;
    case Kind::kReservation: {
      const auto reservation = UnpackReservation(body);
      if (!reservation) return false;
      reservations_[reservation->id] = std::move(body);
      return true;
    }
    case Kind::kReservationGone:
      reservations_.erase(body);
      return true;
    case Kind::kBudget: {
      const auto budget = UnpackBudget(body);
      if (!budget) return false;
      if (budget->limits_nothing() && !budget->job.empty()) {
        budgets_.erase(budget->job);
      } else {
        budgets_[budget->job] = std::move(body);
      }
      return true;
    }
  }
  return false;
}

uint64_t Journal::Begin(BegunOperation operation) {
  {
    const MutexLock lock(mu_);
    operation.number = next_number_++;
  }
  Write(Kind::kBegun, Pack(operation));
  return operation.number;
}

void Journal::End(uint64_t number) {
  Packer body;
  body.Number(number);
  Write(Kind::kEnded, body.Take());
}

void Journal::Answer(const GivenAnswer& answer) {
  // One that is too long is left out: repeated after a restart, the request is carried out again.
  Write(Kind::kAnswer, Pack(answer));
}

void Journal::Define(const Group& group) { Write(Kind::kGroup, Pack(group)); }

void Journal::RemoveGroup(const std::string& owner, const std::string& name) {
  Write(Kind::kGroupGone, KeyOf(owner, name));
}

void Journal::Reserve(const Reservation& reservation) {
  Write(Kind::kReservation, Pack(reservation));
}

void Journal::EndReservation(const std::string& id) { Write(Kind::kReservationGone, id); }

void Journal::SetBudget(const BudgetLimits& limits) { Write(Kind::kBudget, Pack(limits)); }

void Journal::Note(const Event& event) {
  const ProcessView& view = event.process;
  // One that is not visible here cannot be known to live without its connection.
  if (!view.identity.visible) return;
  const std::string key = KeyOf(view.identity);
  if (event.kind == Event::Kind::kGone) return Forget(view.identity);
  if (!IsSettled(view.state)) return;
  std::string body = Pack(
      RememberedProcess{view.identity, view.introduction, view.state, view.deep, view.for_turn});
  {
    const MutexLock lock(mu_);
    const auto known = processes_.find(key);
    if (known != processes_.end() && known->second == body) return;
  }
  Write(Kind::kProcess, std::move(body));
}

void Journal::Forget(const Identity& identity) { Write(Kind::kGone, KeyOf(identity)); }

void Journal::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
}

bool Journal::closed() const {
  const MutexLock lock(mu_);
  return closed_;
}

void Journal::Write(Kind kind, std::string body) {
  const std::string record = RecordOf(kind, body);
  if (record.size() > JournalFile::kLongest) return;  // not worth the memory
  const MutexLock lock(mu_);
  // What is kept for callers is told of until the end.
  if (closed_ && kind < Kind::kGroup) return;
  Apply(record);
  if (!file_) {
    if (usable_ && retry_.Passed()) Rewrite();
    return;
  }
  if (auto s = file_->Append(record); !s.ok()) {
    GiveUp(s);
  } else if (file_->bytes() > std::max(kSmall, 2 * fresh_bytes_)) {
    Rewrite();
  }
}

void Journal::Rewrite() {
  std::vector<std::string> records{RecordOf(Kind::kBoot, boot_id_)};
  for (const auto& [key, packed] : processes_) records.push_back(RecordOf(Kind::kProcess, packed));
  for (const auto& [number, packed] : begun_) records.push_back(RecordOf(Kind::kBegun, packed));
  for (const std::string& packed : answers_) records.push_back(RecordOf(Kind::kAnswer, packed));
  for (const auto& [key, packed] : groups_) records.push_back(RecordOf(Kind::kGroup, packed));
  for (const auto& [id, packed] : reservations_) {
    records.push_back(RecordOf(Kind::kReservation, packed));
  }
  for (const auto& [job, packed] : budgets_) records.push_back(RecordOf(Kind::kBudget, packed));
  auto file = JournalFile::Replace(path_, records);
  if (!file.ok() && file_) {
    // The one that is there has every record and goes on growing; later it is tried again.
    Log(LogLevel::kWarning, "the journal keeps its %llu bytes: %s",
        static_cast<unsigned long long>(file_->bytes()), MessageOf(file.status()).c_str());
    fresh_bytes_ = file_->bytes();
    return;
  }
  if (!file.ok()) {
    GiveUp(file.status());
    return;
  }
  if (told_) Log(LogLevel::kInfo, "the journal can be written again");
  told_ = false;
  fresh_bytes_ = file->bytes();
  file_.emplace(std::move(*file));
}

void Journal::GiveUp(const absl::Status& why) {
  if (!told_) {
    Log(LogLevel::kWarning, "going on without a journal, a restart will know less: %s",
        MessageOf(why).c_str());
  }
  told_ = true;
  // What is in the file now would be taken for the whole story.
  if (usable_ && unlink(path_.c_str()) != 0 && file_) file_->Empty();
  file_.reset();
  retry_ = Deadline::InMs(kRetryMs);
}

}  // namespace parkade::daemon
