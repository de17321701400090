// NodeState: carries out orders on the node: which processes, with what, in which order, and what
// came of it. Knows no gRPC.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/timeline.h"
#include "daemon/course.h"
#include "daemon/deep_pause.h"
#include "daemon/events.h"
#include "daemon/forecast.h"
#include "daemon/gpu_account.h"
#include "daemon/gpus.h"
#include "daemon/host_budget.h"
#include "daemon/journal.h"
#include "daemon/measured_rates.h"
#include "daemon/orders.h"
#include "daemon/registry.h"
#include "daemon/reservations.h"
#include "daemon/returning.h"
#include "daemon/scratch.h"
#include "daemon/transition.h"

namespace parkade::daemon {

class NodeState {
 public:
  // All outlive it.
  struct Neighbours {
    Registry& registry;
    Events& events;
    const Gpus& gpus;
    Scratch& scratch;
    HostBudget& budget;
    GpuAccount& account;
    Journal& journal;
    Returning& returning;
    Reservations& reservations;
  };
  NodeState(Neighbours neighbours, Transition::Limits limits, DeepPause::Settings deep = {})
      : to_(neighbours), limits_(limits), deep_(std::move(deep)) {}

  // As Pause and Resume of control.proto. Block until the transition has ended; any thread, several
  // at once.
  absl::StatusOr<Outcomes> Pause(const Caller& caller, const PauseOrder& order, Course& course);
  absl::StatusOr<Outcomes> Resume(const Caller& caller, const ResumeOrder& order, Course& course);
  absl::StatusOr<Outcomes> Handoff(const Caller& caller, const HandoffOrder& order, Course& course);
  // As Reserve, Release, Verify and Prefetch of control.proto. The one outcome of a Reserve has its
  // id.
  absl::StatusOr<Outcomes> Reserve(const Caller& caller, const ReserveOrder& order, Course& course);
  absl::StatusOr<Reservation> Reserved(const Caller& caller, const std::string& id) const;
  absl::Status Release(const Caller& caller, const std::string& id);
  absl::StatusOr<Outcomes> Verify(const Caller& caller, const VerifyOrder& order, Course& course);
  absl::StatusOr<Outcomes> Prefetch(const Caller& caller, const PrefetchOrder& order,
                                    Course& course);
  // As WaitFree of control.proto, as far as waiting goes; ends early when `gives_up`.
  absl::StatusOr<GpuAccount::Room> WaitFree(const std::string& uuid, Bytes bytes, Deadline by,
                                            const std::function<bool()>& gives_up);
  // Moves what pauses have left in host memory of these processes on to disk, until it is there or
  // is wanted back: a resume or prefetch of one of them ends it there, anything else only
  // interrupts it.
  // Calls `noted` once the next daemon would go on with it.
  absl::StatusOr<Outcomes> WriteBehind(const BehindOrder& order, Course& course,
                                       const std::function<void()>& noted);
  // What would come of an order; moves nothing, waits for nothing.
  Forecast Foretell(const Caller& caller, const PauseOrder& order) const;
  Forecast Foretell(const Caller& caller, const ResumeOrder& order) const;
  Forecast Foretell(const Caller& caller, const HandoffOrder& order) const;
  // Resumes processes that the caller of this has claimed, all at once; what an interrupted
  // operation has left behind paused, or was to bring back.
  absl::Status BringBack(const ProcessList& processes, const PartsBack& parts);
  // Asks the driver how it has processes that an earlier daemon has marked; nobody else moves them.
  void SettleDeep(const ProcessList& processes);

 private:
  struct Claimed {
    Registry::Claim claim;  // gone last
    ProcessList processes;
    std::vector<Member> members;
  };
  // Those selected, when nothing of an earlier daemon's is under way with them any more. Members
  // that are at their goal are done already.
  absl::StatusOr<Claimed> Claim(const Caller& caller, const Selector& selector, uint64_t epoch,
                                const AtGoal& at_goal, Course& course);
  absl::StatusOr<Registry::Claim> Take(const ProcessList& processes, uint64_t epoch,
                                       Course& course);
  // Waits for those of an earlier daemon, and says what this is about.
  absl::Status AwaitReturn(const ProcessList& processes, Course& course);
  // Those selected that are out, when nothing of an earlier daemon's is under way with them any
  // more; NOT_PAUSED where none is. Empty only where nobody is selected and that is allowed.
  absl::StatusOr<ProcessList> SelectOut(const Caller& caller, const Selector& selector,
                                        bool allow_empty, Course& course);
  // What failed of these processes' backups, with the operation and the place.
  static absl::Status Explain(const absl::Status& failed, const ProcessList& processes,
                              const Course& course);
  // The two sides of a handoff, in the order of their members.
  struct Sides {
    ProcessList out_processes, in_processes;
    std::vector<Member> out, in;
  };
  absl::StatusOr<Sides> SelectSides(const Caller& caller, const HandoffOrder& order) const;
  // Members for a forecast, of those that can be moved; the others' reasons go to `forecast`.
  std::vector<Member> Foresee(const ProcessList& processes, const AtGoal& at_goal, uint64_t epoch,
                              Forecast& forecast) const;
  void ForetellOut(const std::vector<Member>& members, const PauseOrder& order,
                   Forecast& forecast) const;
  void ForetellIn(const std::vector<Member>& members, const std::vector<std::string>& tags,
                  Forecast& forecast) const;
  // The longest of them, at the rates that were seen; false where one is not known.
  bool Estimate(Way way, std::span<const ProcessForecast> processes, double* seconds) const;
  void Note(Way way, std::span<const Outcome> outcomes);

  // For those of the members that are marked so; starts their helpers.
  DeepPause DeepOf(std::vector<Member>& members, DeepMark::State state) const;
  // All that were deep already are so, the others go through `others`.
  void GoDeep(std::vector<Member>& members, DeepPause& others);
  // Takes those that are deep back from the driver, if there is room for that now: GPU_MEMORY,
  // otherwise as DeepPause::Up.
  absl::Status Surface(std::vector<Member>& members, int32_t priority);
  // GPU_MEMORY when who comes in does not fit where the others have left.
  absl::Status CheckFit(const Sides& sides, const HandoffOrder& order) const;
  absl::Status Swap(Sides& sides, std::vector<Scratch::Use>& uses, const HandoffOrder& order,
                    Course& course, Timeline& timeline, std::vector<GpuChange>* bounds);
  absl::Status Evict(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                     const PauseOrder& order, Course& course, Timeline& timeline);
  // Plans, and has others but `asked` give back host memory that they keep where that falls short.
  absl::StatusOr<std::vector<Grant>> PlanHost(HostBudget::Booking& booking,
                                              const Policies& policies,
                                              const std::vector<Demand>& demands,
                                              ProcessList asked);
  absl::Status Provide(std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                       const PauseOrder& order, HostBudget::Booking& booking);
  // Has what is in host memory follow to disk, where the order says so.
  static void BeginBehind(const PauseOrder& order, const std::vector<Member>& members,
                          const Course& course, Outcomes& outcomes);
  // Ends it, and waits a moment for what is under way of it: by then the ledgers say what is where.
  static void EndBehind(const ProcessList& processes);
  // The same of whatever moves or reads their backups.
  static void StopMoves(const ProcessList& processes);
  // Adds what it moves to `outcome`.
  absl::Status MoveOn(const std::shared_ptr<Process>& process, bool release_host, Course& course,
                      Outcome& outcome);
  // Before a pause: what it is for, of those that it moves; also for the next daemon. After an
  // order of somebody who decides about these processes: what is out stays so until it is resumed,
  // whoever has paused it.
  void MarkTurn(const std::vector<Member>& members, bool for_turn);
  void TakeOver(const std::vector<Member>& members);
  // What becomes of the disk space that Provide has reserved, after the move or its undo.
  static void Settle(const std::vector<Member>& members, std::vector<Scratch::Use>& uses,
                     const absl::Status& moved);
  // Waits for HBM as long as the order allows, and tries until all are back or one fails otherwise.
  absl::Status Restore(std::vector<Member>& members, const ResumeOrder& order, Course& course,
                       double* waited_seconds);

  const Neighbours to_;
  const Transition::Limits limits_;
  const DeepPause::Settings deep_;
  MeasuredRates rates_;
};

}  // namespace parkade::daemon
