// Runs, joins and remembers operations.
#include "daemon/operations.h"

#include <system_error>

#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

Operations::Operations(Journal* journal) : journal_(journal) {
  if (journal_ == nullptr) return;
  const MutexLock lock(mu_);
  for (const GivenAnswer& given : journal_->found().answers) {
    auto operation = std::make_shared<Operation>();
    operation->body = given.body;
    operation->answer = given.answer;
    Keep({given.caller, given.request_id}, operation);
  }
}

void Operations::Keep(const Key& key, const std::shared_ptr<Operation>& operation) {
  by_id_[key] = operation;
  ids_.push_back(key);
  if (ids_.size() <= Journal::kAnswers) return;
  by_id_.erase(ids_.front());
  ids_.pop_front();
}

void Operations::Forget(const Key& key) {
  by_id_.erase(key);
  std::erase(ids_, key);
}

absl::StatusOr<Outcomes> Operations::Run(const std::string& caller, const std::string& id,
                                         const std::string& body, Deadline by, Work work) {
  JoinEnded();
  const MutexLock lock(mu_);
  if (finishing_) {
    return Fail(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "parkaded is about to end");
  }
  const Key key{caller, id};
  std::shared_ptr<Operation> operation;
  if (const auto at = id.empty() ? by_id_.end() : by_id_.find(key); at != by_id_.end()) {
    operation = at->second;
    if (operation->body != body) {
      return Fail(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                  Cat("request id \"", id, "\" came before with another request"),
                  {{"request_id", id}});
    }
  } else {
    operation = std::make_shared<Operation>();
    operation->body = body;
    try {
      operation->thread = std::thread([this, key, operation, work = std::move(work)] {
        auto answer = work();
        // One who was told to come again later asks with the same id.
        const bool again = ReasonOf(answer.status()) == "BUSY";
        // First for the next daemon, then for the caller.
        if (journal_ != nullptr && !key.second.empty() && !again) {
          journal_->Answer({key.first, key.second, operation->body, answer});
        }
        const MutexLock done(mu_);
        if (again) Forget(key);
        operation->answer = std::move(answer);
        ended_.NotifyAll();
      });
    } catch (const std::system_error& e) {
      return Fail(absl::StatusCode::kResourceExhausted, "THREADS",
                  Cat("the daemon can have no thread for this: ", e.what()));
    }
    if (!id.empty()) Keep(key, operation);
    unjoined_.push_back(operation);
  }
  while (!operation->answer && !by.Passed()) ended_.WaitUntil(mu_, by);
  if (operation->answer) return *operation->answer;
  return Fail(absl::StatusCode::kDeadlineExceeded, "STILL_RUNNING",
              "the deadline came before the end; the work goes on", {{"request_id", id}});
}

void Operations::JoinEnded() {
  std::list<std::shared_ptr<Operation>> ended;
  {
    const MutexLock lock(mu_);
    for (auto at = unjoined_.begin(); at != unjoined_.end();) {
      const auto next = std::next(at);
      if ((*at)->answer) ended.splice(ended.end(), unjoined_, at);
      at = next;
    }
  }
  for (const auto& operation : ended) operation->thread.join();
}

void Operations::Finish() {
  std::list<std::shared_ptr<Operation>> running;
  {
    const MutexLock lock(mu_);
    finishing_ = true;
    running.swap(unjoined_);
  }
  for (const auto& operation : running) operation->thread.join();
}

}  // namespace parkade::daemon
