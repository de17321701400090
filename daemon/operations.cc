// Runs, joins and remembers operations.
#include "daemon/operations.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "daemon/status.h"
#include "daemon/wall_clock.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

std::string Base36(uint64_t number) {
  char text[16];
  return {text, std::to_chars(text, text + sizeof text, number, 36).ptr};
}

}  // namespace

Operations::Operations(Journal* journal, Ended ended)
    : journal_(journal),
      ended_listener_(std::move(ended)),
      prefix_(Base36(WallClockNs() / 1'000'000)) {
  if (journal_ == nullptr) return;
  const MutexLock lock(mu_);
  for (const GivenAnswer& given : journal_->found().answers) {
    const Origin origin{given.operation, given.caller, given.request_id, given.begun_ns};
    auto operation = std::make_shared<Operation>(origin, given.kind, given.body);
    operation->pids = given.pids;
    operation->ended_ns = given.ended_ns;
    operation->answer = given.answer;
    operation->report = given.report;
    Keep(operation);
  }
  for (const BegunOperation& begun : journal_->found().interrupted) {
    if (begun.origin.id.empty()) continue;
    auto operation = std::make_shared<Operation>(begun.origin, begun.kind, "");
    for (const auto& party : begun.parties) operation->pids.push_back(party.identity.pid);
    operation->answers_repeats = false;  // asked again, it is carried out again
    operation->ended_ns = WallClockNs();
    operation->answer = Fail(absl::StatusCode::kUnavailable, "INTERRUPTED",
                             "the daemon ended meanwhile; the next one finishes a resume, goes on "
                             "with a write-behind as another operation, and a "
                             "pause or handoff that is not through it undoes",
                             {{"operation", begun.origin.id}});
    Keep(operation);
  }
}

std::string Operations::NextId() { return Cat(prefix_, "-", next_++); }

void Operations::Keep(const Shared& operation) {
  all_.push_back(operation);
  if (all_.size() <= Journal::kAnswers) return;
  const auto oldest =
      std::find_if(all_.begin(), all_.end(), [](const Shared& each) { return !!each->answer; });
  if (oldest != all_.end()) all_.erase(oldest);
}

Operations::Shared Operations::Repeated(const Request& request) const {
  if (request.id.empty()) return nullptr;
  const auto at = std::find_if(all_.rbegin(), all_.rend(), [&](const Shared& each) {
    const Origin& origin = each->course.origin();
    return each->answers_repeats && origin.request_id == request.id &&
           origin.caller == request.caller;
  });
  return at == all_.rend() ? nullptr : *at;
}

absl::StatusOr<Operations::Shared> Operations::Begin(const Request& request, const Work& work) {
  const MutexLock lock(mu_);
  if (finishing_) {
    return Fail(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "parkaded is about to end");
  }
  Shared operation = Repeated(request);
  if (operation != nullptr && operation->body != request.body) {
    return Fail(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                Cat("request id \"", request.id, "\" came before with another request"),
                {{"request_id", request.id}});
  }
  if (operation == nullptr) {
    const Origin origin{NextId(), request.caller, request.id, WallClockNs()};
    operation = std::make_shared<Operation>(origin, request.kind, request.body);
    try {
      operation->thread = std::thread([this, operation, work] { Carry(operation, work); });
    } catch (const std::system_error& e) {
      return Fail(absl::StatusCode::kResourceExhausted, "THREADS",
                  Cat("the daemon can have no thread for this: ", e.what()));
    }
    Keep(operation);
    unjoined_.push_back(operation);
  }
  ++operation->listeners;
  return operation;
}

absl::StatusOr<OperationView> Operations::Run(const Request& request, Deadline by, const Work& work,
                                              const std::function<bool()>& gone) {
  OperationView view;
  do {
    JoinEnded();
    const auto operation = Begin(request, work);
    if (!operation.ok()) return operation.status();
    Listen(*operation, by, gone);
    view = ViewOf(**operation);
    // One that its only caller had left when this one came with its id: that is a new request now.
  } while (view.answer && ReasonOf(view.answer->status()) == "CALLER_GONE" && !gone() &&
           !by.Passed());
  if (!view.answer) {
    return Fail(absl::StatusCode::kDeadlineExceeded, "STILL_RUNNING",
                "the deadline came before the end; the work goes on",
                {{"request_id", view.origin.request_id}, {"operation", view.origin.id}});
  }
  if (!view.answer->ok()) return view.answer->status();
  return view;
}

absl::StatusOr<std::string> Operations::Start(const Request& request, const Work& work) {
  const auto operation = Begin(request, work);
  if (!operation.ok()) return operation.status();
  const MutexLock lock(mu_);
  StopListening(**operation);
  return (*operation)->course.origin().id;
}

void Operations::Carry(const Shared& operation, const Work& work) {
  auto answer = work(operation->course);
  operation->course.Ends();
  const Origin& origin = operation->course.origin();
  // One who was told to come again later asks with the same id.
  const std::string reason = ReasonOf(answer.status());
  const bool again = reason == "BUSY" || reason == "CALLER_GONE";
  const uint64_t ended_ns = WallClockNs();
  // First for the next daemon, then for the caller.
  if (journal_ != nullptr && !again) {
    journal_->Answer({origin.caller, origin.request_id, operation->body, answer, origin.id,
                      operation->kind, operation->course.pids(), origin.begun_ns, ended_ns,
                      operation->course.report()});
  }
  if (ended_listener_) {
    OperationView view = ViewOf(*operation);
    view.answer = answer;
    view.ended_ns = ended_ns;
    ended_listener_(view);
  }
  const MutexLock lock(mu_);
  operation->answers_repeats = !again;
  operation->ended_ns = ended_ns;
  operation->answer = std::move(answer);
  ended_.NotifyAll();
}

void Operations::AwaitEnd(const Shared& operation, Deadline by) {
  while (!operation->answer && !by.Passed()) ended_.WaitUntil(mu_, by);
}

void Operations::Listen(const Shared& operation, Deadline by, const std::function<bool()>& gone) {
  for (;;) {
    const bool left = !by.Passed() && gone();
    const MutexLock lock(mu_);
    const bool soon = by.LeftNs() < Course::kLookMs * 1'000'000;
    if (!left) AwaitEnd(operation, soon ? by : Deadline::InMs(Course::kLookMs));
    if (!left && !operation->answer && !by.Passed()) continue;
    operation->left |= left;
    operation->goes_on |= !left && !operation->answer;
    StopListening(*operation);
    return;
  }
}

void Operations::StopListening(Operation& operation) {
  if (--operation.listeners != 0 || operation.answer) return;
  if (operation.left && !operation.goes_on) operation.course.Abandon();
}

OperationView Operations::ViewOf(const Operation& operation) const {
  OperationView view;
  view.origin = operation.course.origin();
  view.kind = operation.kind;
  view.cancelled = operation.course.cancelled();
  view.pids = operation.pids.empty() ? operation.course.pids() : operation.pids;
  view.progress = operation.course.progress();
  view.waits = operation.course.waits();
  view.report = operation.report.empty() ? operation.course.report() : operation.report;
  const MutexLock lock(mu_);
  view.answer = operation.answer;
  view.ended_ns = operation.ended_ns;
  return view;
}

std::vector<OperationView> Operations::List(const Caller& caller) const {
  std::deque<Shared> all;
  {
    const MutexLock lock(mu_);
    all = all_;
  }
  std::vector<OperationView> views;
  for (const Shared& operation : all) {
    if (caller.sees_all || caller.Name() == operation->course.origin().caller) {
      views.push_back(ViewOf(*operation));
    }
  }
  return views;
}

absl::StatusOr<Operations::Shared> Operations::Find(const Caller& caller, const Name& name) const {
  const auto at = std::find_if(all_.rbegin(), all_.rend(), [&](const Shared& each) {
    const Origin& origin = each->course.origin();
    const bool own = origin.caller == caller.Name();
    if (!name.id.empty()) return origin.id == name.id && (own || caller.sees_all);
    return own && !name.request_id.empty() && origin.request_id == name.request_id;
  });
  if (at != all_.rend()) return *at;
  const bool by_id = !name.id.empty();
  return Fail(absl::StatusCode::kNotFound, "NO_OPERATION",
              Cat("there is no operation ", by_id ? "\"" : "of request id \"",
                  by_id ? name.id : name.request_id, "\", or it is forgotten"),
              {{by_id ? "operation" : "request_id", by_id ? name.id : name.request_id}});
}

absl::StatusOr<OperationView> Operations::Wait(const Caller& caller, const Name& name,
                                               Deadline by) {
  Shared operation;
  {
    const MutexLock lock(mu_);
    auto found = Find(caller, name);
    if (!found.ok()) return found.status();
    operation = *found;
    ++operation->listeners;
    AwaitEnd(operation, by);
    StopListening(*operation);
  }
  return ViewOf(*operation);
}

absl::StatusOr<OperationView> Operations::Cancel(const Caller& caller, const Name& name,
                                                 Deadline by) {
  std::string id;
  {
    const MutexLock lock(mu_);
    const auto found = Find(caller, name);
    if (!found.ok()) return found.status();
    if (!(*found)->answer) (*found)->course.Cancel(caller.Name());
    id = (*found)->course.origin().id;
  }
  return Wait(caller, {id, ""}, by);
}

void Operations::JoinEnded() {
  std::list<Shared> ended;
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
  std::list<Shared> running;
  {
    const MutexLock lock(mu_);
    finishing_ = true;
    running.swap(unjoined_);
  }
  for (const auto& operation : running) operation->thread.join();
}

}  // namespace parkade::daemon
