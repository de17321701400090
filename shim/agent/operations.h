// Operations: runs the daemon's requests, and the program's own, one after the other on a thread of
// their own, so that the agent stays free to hear an Abort or the end of the connection.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "proto/channel.h"
#include "shim/agent/pause_hooks.h"
#include "shim/heap/ledger_writer.h"
#include "shim/libc/thread.h"
#include "shim/pause/freezer.h"

namespace parkade::shim {

// All methods are for the agent's thread, but for those that say otherwise.
class Operations {
 public:
  // All outlive it. `elision` is for a Commit that asks for none.
  Operations(Freezer& freezer, PauseHooks& hooks, const Driver& driver, LedgerWriter& ledger,
             wire::Elision elision = wire::Elision::kHash);
  ~Operations();

  // Makes the descriptor below; before anything else.
  Result<void> Init();

  // An eventfd, readable when TakeReplies has something.
  int replies_fd() const { return replies_fd_.get(); }
  std::vector<wire::Reply> TakeReplies();
  // What stands before the replies that TakeReplies has given: to be sent before them.
  std::vector<wire::WrongBlock> TakeWrongBlocks();

  // Queues a request of the present connection; starts the thread if none runs. A LetThrough
  // without arrival_ns is carried out and answered at once: a Prepare under way may be waiting for
  // a peer that waits for that call; so is a Room, without an answer. A Warm, Verify or Shift
  // under way ends at whatever else comes; a Shift to the disk, which nobody waits for, does not
  // end others, but is itself cancelled at once when there are any. An Abort also makes a Prepare,
  // LetThrough, Commit or Resume in turn under way stop and undo itself. On error nothing was
  // queued.
  Result<void> Queue(std::unique_ptr<wire::Packet> packet);

  // The Reply to a request that could not be queued.
  wire::Reply Refusal(uint64_t op_id, const Error& error) const;

  // Something that the program itself wants done on the operation thread.
  class Task {
   public:
    virtual ~Task() = default;
    virtual void Run() = 0;

   private:
    friend class Operations;
    bool done_ = false;  // under Operations::mu_
  };
  // Runs it when what was queued before is done, and returns then. Application threads, outside the
  // gate. On error, when no thread can be had, it does not run.
  Result<void> Do(Task& task);
  // What the application wants to do before a pause, if none is in force. Operation thread.
  Result<void> RunHooksBefore();

  // The daemon is gone: forgets what it asked for and has not begun, undoes a Prepare, Commit or
  // Resume in turn under way, lets a Resume finish, opens the gate of what was only prepared, gives
  // back what came in in turn, and drops all replies. Does not wait.
  void Settle();

  // In a forked child: lets go of the scratch files, whose space would otherwise stay taken for as
  // long as the child lives. Nothing else of this object may be used there.
  void AbandonAfterFork();

  // The directory whose files hold this process's backups (empty: none), and a descriptor of its
  // lock, which shows everyone that it is in use.
  struct Scratch {
    std::string path;
    Fd lock;
  };
  Scratch scratch() const;

 private:
  // Neither: abort what is prepared, answer nobody.
  struct Request {
    std::unique_ptr<wire::Packet> packet = nullptr;
    Task* task = nullptr;
  };

  void Nudge(uint64_t op_id);
  // Whether something is under way; then it is answered already.
  bool GivesWay(const wire::Shift& shift);
  static void Work(void* self);
  void RunAll();
  Result<void> Push(Request request);
  void Run(const Request& request, uint64_t connection);
  wire::Reply Execute(wire::Packet& packet, std::vector<wire::WrongBlock>* wrong);
  Freezer::Outcome Prepare(const wire::Prepare& prepare);
  Freezer::Outcome LetThrough(const wire::LetThrough& let);
  Freezer::Outcome Commit(const wire::Commit& commit, wire::Packet& packet);
  Freezer::Outcome Resume(const wire::Resume& resume);
  Freezer::Outcome Shift(const wire::Shift& shift, std::vector<wire::WrongBlock>* wrong);
  // Once the process runs again for which hooks have run before a pause.
  void RunHooksAfter();
  void Post(const wire::Reply& reply, uint64_t connection,
            const std::vector<wire::WrongBlock>& wrong = {});

  Freezer& freezer_;
  PauseHooks& hooks_;
  const Driver& driver_;
  LedgerWriter& ledger_;
  const wire::Elision elision_;
  Fd replies_fd_;
  std::atomic<bool> had_files_{false};  // a Commit has come with some
  Mutex start_mu_;                      // while the thread is started; mu_ comes after it
  mutable Mutex mu_;                    // innermost
  CondVar task_done_;
  std::deque<Request> queue_ GUARDED_BY(mu_);
  std::vector<wire::Reply> replies_ GUARDED_BY(mu_);
  std::vector<wire::WrongBlock> wrong_blocks_ GUARDED_BY(mu_);
  Scratch scratch_ GUARDED_BY(mu_);
  bool running_ GUARDED_BY(mu_) = false;
  std::atomic<bool> idle_stop_{false};       // something else is to be done than what can wait
  bool abortable_ GUARDED_BY(mu_) = false;   // what is under way can be aborted
  uint64_t connection_ GUARDED_BY(mu_) = 1;  // replies of an earlier one are dropped
  bool hooked_ = false;                      // operation thread: hooks have run for a pause
  Thread thread_ GUARDED_BY(start_mu_);
};

}  // namespace parkade::shim
