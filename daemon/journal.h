// Journal: what the next daemon must know of this one's processes, operations and answers, in one
// file of the state directory.
//
// Everything is kept in memory too, and the file is written anew from that at the start and when it
// has grown. One that cannot be read or written is told of once; the daemon works on without.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/events.h"
#include "daemon/journal_file.h"
#include "daemon/journal_record.h"

namespace parkade::daemon {

class Journal {
 public:
  static constexpr size_t kAnswers = 1024;

  // Reads what the daemons before have left in `state_dir` since this boot.
  Journal(const std::string& state_dir, std::string boot_id);

  struct Found {
    std::vector<RememberedProcess> processes;
    std::vector<BegunOperation> interrupted;  // begun and not ended, in their order
    std::vector<GivenAnswer> answers;         // oldest first
    std::vector<Group> groups;                // that callers have defined
    std::vector<Reservation> reservations;
    std::vector<BudgetLimits> budgets;  // that callers have set
  };
  // As it was read.
  const Found& found() const { return found_; }

  // An operation begins with its first message: before that nothing has to be undone. Returns its
  // number.
  uint64_t Begin(BegunOperation operation) EXCLUDES(mu_);
  // Its processes are where it leaves them.
  void End(uint64_t number) EXCLUDES(mu_);
  // A request with an id has its answer.
  void Answer(const GivenAnswer& answer) EXCLUDES(mu_);
  // A caller has defined a group, or wants it forgotten.
  void Define(const Group& group) EXCLUDES(mu_);
  void RemoveGroup(const std::string& owner, const std::string& name) EXCLUDES(mu_);
  // Memory of a GPU is kept for somebody, or is no longer.
  void Reserve(const Reservation& reservation) EXCLUDES(mu_);
  void EndReservation(const std::string& id) EXCLUDES(mu_);
  // What backups of a job, or of the node, may take.
  void SetBudget(const BudgetLimits& limits) EXCLUDES(mu_);
  // A process came, changed its state or went.
  void Note(const Event& event) EXCLUDES(mu_);

  // What is noted of processes from now on the next daemon does not know.
  bool closed() const EXCLUDES(mu_);

  // A process has ended while nobody looked.
  void Forget(const Identity& identity) EXCLUDES(mu_);

  // Nothing more is recorded of orders: what ends from now on was interrupted by the daemon's own
  // end. What is kept for callers, from groups on, still is.
  void Close() EXCLUDES(mu_);

 private:
  enum class Kind : uint64_t {
    kBoot = 1,  // boot id, first in the file
    kProcess,
    kGone,
    kBegun,
    kEnded,
    kAnswer,
    kGroup,  // from here on: what is kept for callers
    kGroupGone,
    kReservation,
    kReservationGone,
    kBudget,
  };

  void Load(const std::vector<std::string>& records) REQUIRES(mu_);
  // Takes one record into the memory. False: it is none.
  bool Apply(std::string_view record) REQUIRES(mu_);
  void Write(Kind kind, std::string body) EXCLUDES(mu_);
  // Writes the file anew; where there is one and that fails, it stays.
  void Rewrite() REQUIRES(mu_);
  // Works on without a file for a while.
  void GiveUp(const absl::Status& why) REQUIRES(mu_);
  static std::string RecordOf(Kind kind, std::string_view body);

  const std::string path_;
  const std::string boot_id_;
  Fd lock_;      // held against another daemon with this state directory
  Found found_;  // constant after construction

  // Innermost. The one lock that is held across a write: the order of records is what the file
  // means, and it goes to the page cache of a local file.
  mutable Mutex mu_;
  std::map<std::string, std::string> processes_ GUARDED_BY(mu_);     // packed, by packed identity
  std::map<uint64_t, std::string> begun_ GUARDED_BY(mu_);            // packed, by number
  std::deque<std::string> answers_ GUARDED_BY(mu_);                  // packed
  std::map<std::string, std::string> groups_ GUARDED_BY(mu_);        // packed, by owner and name
  std::map<std::string, std::string> reservations_ GUARDED_BY(mu_);  // packed, by id
  std::map<std::string, std::string> budgets_ GUARDED_BY(mu_);       // packed, by job
  std::optional<JournalFile> file_ GUARDED_BY(mu_);
  uint64_t fresh_bytes_ GUARDED_BY(mu_) = 0;  // when it was last written anew
  bool usable_ GUARDED_BY(mu_) = true;        // false: somebody else's file stands there
  bool told_ GUARDED_BY(mu_) = false;
  bool closed_ GUARDED_BY(mu_) = false;
  Deadline retry_ GUARDED_BY(mu_) = Deadline::InMs(0);
  uint64_t next_number_ GUARDED_BY(mu_) = 1;
};

}  // namespace parkade::daemon
