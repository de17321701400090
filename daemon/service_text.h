// Translates between the API's messages and the daemon's own types.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/events.h"
#include "daemon/gpus.h"
#include "daemon/orders.h"
#include "daemon/scratch_base.h"
#include "daemon/scratch_sweep.h"
#include "daemon/selector.h"
#include "proto/control.pb.h"

namespace parkade::daemon {

Selector Read(const v1::Selector& in);
// INVALID_ARGUMENT (BAD_POLICY, BAD_SIZE) for what has no counterpart here.
absl::StatusOr<PauseOrder> Read(const v1::PauseRequest& in);
absl::StatusOr<ResumeOrder> Read(const v1::ResumeRequest& in);

void Write(const ProcessView& in, v1::Process* out);
void WriteDetails(const wire::LedgerView& in, v1::GetProcessResponse* out);
void Write(const GpuView& in, v1::Gpu* out);
void Write(const BaseReport& in, Bytes used, v1::ScratchBase* out);
void Write(const SweptDirectory& in, v1::ScratchEntry* out);
void Write(const Outcome& in, v1::TransitionResult* out);
void Write(const Event& in, v1::Event* out);

}  // namespace parkade::daemon
