// Operations: transitions that run on threads of their own, so that no caller's deadline or end
// undoes them; asked about by id, and answered again by request id.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/course.h"
#include "daemon/journal.h"
#include "daemon/orders.h"
#include "daemon/selector.h"

namespace parkade::daemon {

// An operation at one moment.
struct OperationView {
  Origin origin;
  OperationKind kind = OperationKind::kPause;
  bool cancelled = false;  // somebody has asked for that
  std::vector<int> pids;   // empty until they are selected
  std::optional<Course::Progress> progress;
  std::vector<GpuWait> waits;  // while it waits for its turn
  Outcomes report;             // of one that failed: what is known of its processes
  std::optional<absl::StatusOr<Outcomes>> answer;  // empty: it runs
  uint64_t ended_ns = 0;                           // CLOCK_REALTIME
};

class Operations {
 public:
  using Work = std::function<absl::StatusOr<Outcomes>(Course&)>;
  struct Request {
    std::string caller;  // Caller::Name
    OperationKind kind = OperationKind::kPause;
    std::string id;    // the caller's; empty: it is never found again by it
    std::string body;  // the same for the same request
  };
  // By the operation's own id, or, where that is empty, the caller's last with this request id.
  struct Name {
    std::string id;
    std::string request_id;
  };

  // Hears of each that has ended, on its thread and before its caller does. Any thread.
  using Ended = std::function<void(const OperationView&)>;

  // Answers that were given are found again, also those in `journal`, which outlives this. Null:
  // none outlives this.
  explicit Operations(Journal* journal = nullptr, Ended ended = {});
  ~Operations() { Finish(); }

  // Starts `work`, unless the same caller has sent the same id before: then the answer is that of
  // the first time, also when it is still on its way. Waits until `by` for it: a view with a good
  // answer, or the answer's error. ALREADY_EXISTS (REQUEST_ID_REUSED): the id came before with
  // another body. DEADLINE_EXCEEDED (STILL_RUNNING): not ended by then; it goes on; metadata has
  // its id as operation. UNAVAILABLE (SHUTTING_DOWN) after Finish. Once `gone` is true nobody waits
  // here for the answer: where it was the only one, the operation is abandoned (Course::Abandon).
  absl::StatusOr<OperationView> Run(
      const Request& request, Deadline by, const Work& work,
      const std::function<bool()>& gone = [] { return false; }) EXCLUDES(mu_);

  // Starts `work` as well, and waits for nothing: it goes on whoever listens. Its id.
  absl::StatusOr<std::string> Start(const Request& request, const Work& work) EXCLUDES(mu_);

  // A caller sees its own, one who sees all everybody's. Oldest first.
  std::vector<OperationView> List(const Caller& caller) const EXCLUDES(mu_);
  // When it has ended, or as it is at `by`. NOT_FOUND (NO_OPERATION).
  absl::StatusOr<OperationView> Wait(const Caller& caller, const Name& name, Deadline by)
      EXCLUDES(mu_);
  // Asks it to end early, and as Wait. One that has ended stays as it is.
  absl::StatusOr<OperationView> Cancel(const Caller& caller, const Name& name, Deadline by)
      EXCLUDES(mu_);

  // Waits for everything that runs and starts nothing more.
  void Finish() EXCLUDES(mu_);

 private:
  struct Operation {
    Operation(Origin origin, OperationKind what, std::string said)
        : kind(what), body(std::move(said)), course(std::move(origin)) {}

    const OperationKind kind;
    const std::string body;
    Course course;
    std::vector<int> pids;  // of one that an earlier daemon had; constant
    // Guarded by mu_.
    bool answers_repeats = true;
    int listeners = 0;     // calls that wait for its answer
    bool goes_on = false;  // somebody has been told so
    bool left = false;     // somebody who waited for its answer has gone
    Outcomes report;       // of one that an earlier daemon had
    std::optional<absl::StatusOr<Outcomes>> answer;
    uint64_t ended_ns = 0;
    std::thread thread;  // last
  };
  using Shared = std::shared_ptr<Operation>;

  std::string NextId() REQUIRES(mu_);
  Shared Repeated(const Request& request) const REQUIRES(mu_);
  absl::StatusOr<Shared> Find(const Caller& caller, const Name& name) const REQUIRES(mu_);
  void Keep(const Shared& operation) REQUIRES(mu_);
  void Carry(const Shared& operation, const Work& work) EXCLUDES(mu_);
  // The one that the request repeats, or a new one; with one listener more.
  absl::StatusOr<Shared> Begin(const Request& request, const Work& work) EXCLUDES(mu_);
  void AwaitEnd(const Shared& operation, Deadline by) REQUIRES(mu_);
  void StopListening(Operation& operation) REQUIRES(mu_);
  // As AwaitEnd, while somebody listens.
  void Listen(const Shared& operation, Deadline by, const std::function<bool()>& gone)
      EXCLUDES(mu_);
  OperationView ViewOf(const Operation& operation) const EXCLUDES(mu_);
  void JoinEnded() EXCLUDES(mu_);

  Journal* const journal_;
  const Ended ended_listener_;
  const std::string prefix_;  // of ids: no other daemon of this node has had it
  mutable Mutex mu_;          // before Course's; not held while an operation works
  CondVar ended_;
  uint64_t next_ GUARDED_BY(mu_) = 1;
  std::deque<Shared> all_ GUARDED_BY(mu_);  // oldest first; of the ended ones the last few
  std::list<Shared> unjoined_ GUARDED_BY(mu_);
  bool finishing_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
