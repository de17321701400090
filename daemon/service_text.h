// Translates between the API's messages and the daemon's own types.
#pragma once

#include "absl/status/statusor.h"
#include "common/io/disk_trial.h"
#include "daemon/budgets.h"
#include "daemon/events.h"
#include "daemon/forecast.h"
#include "daemon/gpus.h"
#include "daemon/groups.h"
#include "daemon/operations.h"
#include "daemon/orders.h"
#include "daemon/reservation.h"
#include "daemon/scratch_base.h"
#include "daemon/scratch_sweep.h"
#include "daemon/selector.h"
#include "proto/control.pb.h"

namespace parkade::daemon {

// Who asks, and the groups that he may name.
struct Asker {
  const Caller& caller;
  const Groups& groups;
};

// NOT_FOUND (NO_GROUP).
absl::StatusOr<Selector> Read(const v1::Selector& in, const Asker& asker);
// INVALID_ARGUMENT (BAD_POLICY, BAD_SIZE) for what has no counterpart here; as Read of a selector.
absl::StatusOr<PauseOrder> Read(const v1::PauseRequest& in, const Asker& asker);
absl::StatusOr<ResumeOrder> Read(const v1::ResumeRequest& in, const Asker& asker);
absl::StatusOr<VerifyOrder> Read(const v1::VerifyRequest& in, const Asker& asker);
absl::StatusOr<PrefetchOrder> Read(const v1::PrefetchRequest& in, const Asker& asker);
// Also BAD_REQUEST.
absl::StatusOr<ReserveOrder> Read(const v1::ReserveRequest& in);
// Also BAD_REQUEST for a part with what belongs to both.
absl::StatusOr<HandoffOrder> Read(const v1::HandoffRequest& in, const Asker& asker);
// BAD_SIZE when it is negative or a year and more; `name` is the field's.
absl::StatusOr<uint64_t> ReadNs(const google::protobuf::Duration& in, std::string_view name);
// The highest is kept for what an earlier daemon has interrupted.
constexpr int32_t ReadPriority(int32_t in) { return in < INT32_MAX ? in : INT32_MAX - 1; }
// Of this owner. INVALID_ARGUMENT (BAD_SELECTOR) for one that names a group.
absl::StatusOr<Group> Read(const v1::Group& in, const std::string& owner);

using TagPolicies = google::protobuf::Map<std::string, v1::Policy>;
// BAD_POLICY; a tag twice, by two of its names, is one as well.
absl::StatusOr<Policies> ReadPolicies(v1::Policy all, const TagPolicies& by_tag);
// What the group says, if the selector names one, of what `policies` leaves open.
absl::Status AddGroups(const v1::Selector& in, const Asker& asker, Policies& policies);

v1::Policy WritePolicy(wire::Policy policy);
void Write(const ProcessView& in, v1::Process* out);
void WriteDetails(const wire::LedgerView& in, v1::GetProcessResponse* out);
void Write(const GpuView& in, v1::Gpu* out);
void Write(const BaseReport& in, Bytes used, const DiskRates& rates, v1::ScratchBase* out);
void Write(const SweptDirectory& in, v1::ScratchEntry* out);
void Write(const Outcome& in, v1::TransitionResult* out);
void Write(const Forecast& in, v1::Forecast* out);
void Write(const absl::Status& in, v1::Failure* out);
void Write(const Group& in, v1::Group* out);
void Write(const GpuWait& in, v1::GpuWait* out);
void Write(const Reservation& in, v1::Reservation* out);
void Write(const Budgets::Entry& in, v1::Budget* out);
void Write(const Event& in, v1::Event* out);
// One store of the process of that view.
void Write(const ProcessView& process, const wire::LedgerStore& in, v1::Store* out);
void Write(const OperationView& in, v1::Operation* out);
void WriteTime(uint64_t wall_clock_ns, google::protobuf::Timestamp* out);
// Rate and time left of `out`, which has its bytes. 0: not known.
void WriteRate(double bytes_per_second, v1::Progress* out);

}  // namespace parkade::daemon
