// Operations: transitions that run on threads of their own, so that no caller's deadline or end
// undoes them, and their answers, found again by request id.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "common/deadline.h"
#include "common/mutex.h"
#include "daemon/journal.h"
#include "daemon/orders.h"

namespace parkade::daemon {

class Operations {
 public:
  using Work = std::function<absl::StatusOr<Outcomes>()>;

  // Answers that were given to requests with an id are found again, also those in `journal`, which
  // outlives this. Null: none outlives this.
  explicit Operations(Journal* journal = nullptr);
  ~Operations() { Finish(); }

  // Starts `work`, unless the same caller (Caller::Name) has sent the same id before: then the
  // answer is that of the first time, also when it is still on its way. Waits for the answer until
  // `by`. ALREADY_EXISTS (REQUEST_ID_REUSED): the id came before with another body.
  // DEADLINE_EXCEEDED (STILL_RUNNING): not ended by then; it goes on.
  // UNAVAILABLE (SHUTTING_DOWN) after Finish. An empty id is never found again.
  absl::StatusOr<Outcomes> Run(const std::string& caller, const std::string& id,
                               const std::string& body, Deadline by, Work work) EXCLUDES(mu_);

  // Waits for everything that runs and starts nothing more.
  void Finish() EXCLUDES(mu_);

 private:
  struct Operation {
    std::string body;
    std::optional<absl::StatusOr<Outcomes>> answer;  // guarded by mu_
    std::thread thread;                              // last
  };
  using Key = std::pair<std::string, std::string>;

  void JoinEnded() EXCLUDES(mu_);
  void Keep(const Key& key, const std::shared_ptr<Operation>& operation) REQUIRES(mu_);
  void Forget(const Key& key) REQUIRES(mu_);

  Journal* const journal_;
  Mutex mu_;  // innermost; not held while an operation works
  CondVar ended_;
  std::map<Key, std::shared_ptr<Operation>> by_id_ GUARDED_BY(mu_);
  std::deque<Key> ids_ GUARDED_BY(mu_);  // oldest first
  std::list<std::shared_ptr<Operation>> unjoined_ GUARDED_BY(mu_);
  bool finishing_ GUARDED_BY(mu_) = false;
};

}  // namespace parkade::daemon
