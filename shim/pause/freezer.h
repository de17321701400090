// Freezer: one process's pause and resume, step by step, with the undo of each step.
//
// Knows gate, drain, heap and mover; does not know the socket. The agent calls it on its operation
// thread, one call at a time; only RequestAbort comes from elsewhere.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/io/direct_files.h"
#include "common/result.h"
#include "proto/wire.h"
#include "shim/cuda/driver.h"
#include "shim/heap/heap.h"
#include "shim/heap/ledger_writer.h"
#include "shim/ipc/imports.h"
#include "shim/ipc/share_server.h"
#include "shim/pause/eviction_plan.h"
#include "shim/pause/foreign_release.h"
#include "shim/pause/host_pool.h"
#include "shim/pause/mover.h"
#include "shim/pause/room.h"
#include "shim/pause/wrong_blocks.h"

namespace parkade::shim {

class Drain;

class Freezer {
 public:
  // All outlive it.
  Freezer(const Driver& driver, Heap& heap, LedgerWriter& ledger, HostPool& pool, Drain& drain,
          ShareServer& exports, Imports& imports, ForeignRelease& release,
          MakeEngine make_engine = MakeShimEngine);

  // What a call did. `stats` is filled as far as it went, also on error; `already` when the process
  // was in the state asked for.
  struct Outcome {
    Result<void> result;
    wire::Stats stats{};
    bool already = false;
    int device = -1;  // that the error is about
  };

  // What Prepare asks for beyond time. The epoch is the caller's and goes into the ledger.
  struct GateOrder {
    uint64_t epoch = 0;
    wire::GateMode mode = wire::GateMode::kClosed;  // once the bytes are out
    wire::GatedWork work = wire::GatedWork::kBlock;
    wire::GatedAllocations allocations = wire::GatedAllocations::kAsWork;
    wire::OnExported exported = wire::OnExported::kBroker;
    // With the gate open the process may use at any moment what it imports.
    bool brokers() const {
      return mode == wire::GateMode::kClosed && exported != wire::OnExported::kKeep;
    }
  };
  // kRunning or kPaused -> kPrepared: gate closed, GPU idle, nothing moved, stats.pausable_bytes
  // exact. On error as before it: CAPTURE_ACTIVE, BUSY (message says device, streams and how long),
  // CUDA_<name>; but kFailed when the application's own work has lost it its context. kPaused with
  // nothing in HBM and the gate closed, or asked to be open: already. A gate that is closed is not
  // opened by it. kPartlyMoved: FAILED_PRECONDITION (BUSY), resume first.
  Outcome Prepare(Deadline drain_by, const GateOrder& order);

  // kPrepared -> kPrepared: lets so many calls through the gate, if the first comes until
  // `arrival_by`, and drains again; stats.let_through and pausable_bytes. On error as Prepare.
  Outcome LetThrough(uint32_t calls, Deadline drain_by, Deadline arrival_by);

  // kPrepared -> kPaused, the gate as Prepare was asked; what was out before stays where it is, and
  // `already` when nothing else was to be done. On error every byte that this has moved is back and
  // the process as before Prepare: running, or paused. When even that is impossible, for want of
  // HBM say, kPartlyMoved with the gate closed: Resume finishes it. OTHER_FILES: bytes are out in
  // files that are not among the plan's. When the context is lost, kFailed with the gate open: the
  // application gets the driver's own error.
  Outcome Commit(uint64_t op_id, const EvictionPlan& plan);

  // kPrepared -> as before Prepare, and what Arrive has brought in goes back -> as before it.
  // Nothing to do when running or paused.
  Outcome Abort();

  // Any thread: a Prepare, LetThrough, Commit or Arrive under way stops soon and undoes itself
  // (CANCELLED).
  void RequestAbort() { abort_requested_.store(true, std::memory_order_release); }
  const std::atomic<bool>& abort_requested() const { return abort_requested_; }
  // Before the next Prepare or Commit begins, by whoever starts it; the calls themselves never
  // clear the request, so that one that came just before is not lost.
  void ClearAbort() { abort_requested_.store(false, std::memory_order_release); }

  // What a Resume brings back.
  struct Part {
    std::vector<std::string> tags = {};           // in this order; empty: all that is out
    wire::GateMode mode = wire::GateMode::kOpen;  // while something stays out
    bool undoes_pause = false;  // what the last Commit has moved; then as before its Prepare
    bool retains = false;       // the program keeps backups of what it pauses itself
  };
  // kPaused or kPartlyMoved -> kRunning: creates all handles, then maps, copies in, opens the gate;
  // or -> kPaused where something stays out, the gate as `part` says, but never closed by it.
  // On error the process stays as it was with whole backups, but kFailed when the context is lost:
  // GPU_MEMORY (message has needed and free bytes), BACKUP_CORRUPT, BACKUP_MISSING, or what driver
  // or disk said. kPartlyMoved with all of the wanted bytes in HBM when imported memory, which an
  // open gate needs, does not come back: EXPORTER_PAUSED. Nothing to do: already.
  Outcome Resume(uint64_t op_id, uint64_t epoch, const Part& part);
  Outcome Resume(uint64_t op_id, uint64_t epoch = 0) { return Resume(op_id, epoch, Part()); }

  // The half of Resume that moves bytes, for who changes places with another process: takes HBM
  // piece by piece as room() allows. kPaused or kPartlyMoved -> kPartlyMoved, all bytes in HBM, the
  // backups whole, the gate closed; Resume then lets it run, Abort gives the HBM back. Errors as
  // Resume, and CANCELLED. Already kRunning: already.
  Outcome Arrive(uint64_t op_id, uint64_t epoch);
  // What Arrive may take. Any thread.
  Room& room() { return room_; }

  // Makes host memory ready until the pool holds `bytes`, beside the application's work and in any
  // state; stops early once `stop` is true. stats.host_pool_bytes. Never an error: what is missing
  // the pause makes, and says why when it cannot.
  Outcome Warm(Bytes bytes, const std::atomic<bool>& stop);

  // Reads the backups of a process that is out, kPaused or kPartlyMoved, which stays so; ends early
  // once `stop` is true (CANCELLED). The bytes read are in the stats by place. DATA_LOSS when a
  // block is wrong: how many are is in the stats, the first of them in `wrong`. NOT_PAUSED.
  Outcome Verify(uint64_t op_id, const std::atomic<bool>& stop,
                 std::vector<wire::WrongBlock>* wrong);

  // Which backups move, and where to.
  struct Shifting {
    wire::Place to;                      // kHost or kDisk
    Bytes host_bytes = 0;                // with kHost: at most so many
    std::vector<std::string> tags = {};  // of these, in this order; empty: of every tag
  };
  // Moves the backups of a process that is out, which stays so: with kHost those in files into host
  // memory too; with kDisk those whose policy was kAuto from host
  // memory to the files of the last Commit. Ends early once `stop` is true (CANCELLED); whatever
  // ends it, what has moved has, and the rest is where it was. Figures and `wrong` as Verify, and
  // stats.left_bytes. HOST_MEMORY, DISK_SPACE, NO_FILES, what the disk says.
  Outcome Shift(uint64_t op_id, const Shifting& what, const std::atomic<bool>& stop,
                std::vector<wire::WrongBlock>* wrong);

  // Before the first pause: what a pause discards comes back full of 0xCB, so that whoever reads it
  // without writing it first shows. Otherwise it comes back as the driver makes memory.
  void SetPoisons(bool poisons) { mover_.SetPoisons(poisons); }

  // Gives pinned memory that holds no backup back to the system; gigabytes take a while. What is
  // kept beside bytes in HBM is let go of first, or stays.
  void ReleaseHost();
  void ReleaseUnusedHost();

  // Operation thread; others read it from the ledger.
  wire::ProcessState state() const { return state_; }
  // Whether the program runs on, at an open gate, so that it may pause more and resume. Operation
  // thread.
  bool runs_on() const;
  // Whether a pause of that kind has failed and left bytes out, for Resume to finish. Likewise.
  bool left_partly_moved() const;

 private:
  Outcome Refuse(const char* asked) const;
  // Whether the gate was closed before this pause, with something out: what waits there goes on
  // only when all is back.
  bool HeldShut() const { return paused_ && paused_->mode == wire::GateMode::kClosed; }
  // Closes and seals the gate with the GPU idle; the figures of gate and drain go to `outcome`.
  Result<void> Close(Deadline by, Outcome* outcome);
  Result<void> Drained(Deadline by, Outcome* outcome);
  // What the error of a gate that did not close becomes: how long its thread has been inside.
  static Error Unclosed(const Error& error, uint64_t since_ns);
  void SetState(wire::ProcessState state);
  // The heap's bytes are where they are to be: lets the process go on, running or as `paused_`
  // says, and before the gate opens takes back what was imported. On an error it stays as
  // kPartlyMoved.
  Result<void> GoOn(uint64_t take_back_ms);
  // The same where it is to be paused, which is never an error.
  void StayPaused();
  // Takes back what is imported, as far as the exporters are there. Gate closed.
  Result<void> TakeBackImports(uint64_t take_back_ms);
  // Tells importers and exporters that this process no longer pauses. Gate closed.
  void EndSharing();
  // The context is lost. Nothing will ever run in it: the application is to hear that from the
  // driver rather than to wait here for good. What is out is unmapped, so no wrong byte can be
  // read.
  void GiveUp();
  // Hands ranges back to the heap as their handles are: resident or out.
  void Settle(const std::vector<Range*>& ranges);
  Result<void> Evict(uint64_t op_id, const EvictionPlan& plan, Outcome* outcome);
  // Host memory that the backups of `ranges` may have where nobody has granted any.
  Bytes HostRoom(const std::vector<Range*>& ranges) const;
  // The files of a plan are in use from now on, or where it has none those of before. While `taken`
  // says that bytes are out in these they have to be the same ones.
  Result<void> TakeFiles(std::span<Fd> files, const DiskSetting& disk,
                         std::span<const FilePart> taken);
  // What was evicted stays out: paused from now on, and how that is undone.
  void NotePause();
  void UndoEviction(const std::vector<Range*>& ranges);
  // Of Verify and Shift: whether there are backups, else the outcome says why not; and the end of
  // one that began at `start_ns`, with its figures.
  bool HasBackups(Outcome* outcome) const;
  void EndReading(const std::vector<Range*>& ranges, uint64_t start_ns, const MovedBytes& bytes,
                  WrongBlocks& found, Outcome* outcome, std::vector<wire::WrongBlock>* wrong);
  // Of Resume and Arrive: whether there is something to bring back, else the outcome says why not;
  // the ranges that are to come, with the ledger saying so.
  bool MayResume(uint64_t epoch, Outcome* outcome);
  std::vector<Range*> BeginRestore(uint64_t op_id, const Wanted& wanted = {});
  // What a Resume asks for has come back: how the process is paused from now on, if it still is.
  void NoteResume(const Part& part);
  // The figures of a move that began at `start_ns`.
  static void Report(const MoveReport& report, uint64_t start_ns, Outcome* outcome);
  // What Arrive has brought in stays, or goes.
  void KeepArrival();
  void SendBackArrival();

  Heap& heap_;
  LedgerWriter& ledger_;
  HostPool& pool_;
  Drain& drain_;
  ShareServer& exports_;
  Imports& imports_;
  ForeignRelease& release_;
  Mover mover_;

  wire::ProcessState state_ = wire::ProcessState::kRunning;
  bool shares_ = false;   // others have been told that this process pauses
  GateOrder gate_order_;  // of the pause under way or in force
  // While kPaused, and what a pause that fails goes back to: how the gate is. Empty: it runs.
  std::optional<GateOrder> paused_;
  // The last Commit, if it succeeded or could not be undone, when nothing has come since: its
  // number, and paused_ as it was before.
  struct Undo {
    uint64_t pause;
    std::optional<GateOrder> paused;
  };
  std::optional<Undo> undo_;
  uint64_t last_pause_ = 0;         // number of the last Commit
  DirectFiles files_;               // hold backups while paused
  Bytes stage_bytes_ = 0;           // host memory that moving to and from them may use
  std::optional<Arrival> arrival_;  // in kPartlyMoved: brought in, not let run yet
  wire::ProcessState arrived_from_ = wire::ProcessState::kPaused;
  Room room_;
  std::atomic<bool> abort_requested_{false};
};

}  // namespace parkade::shim
