// The documents of `-o json`: keys are stable, sizes are bytes, "schema_version" rises when a key
// changes its meaning or goes.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace parkade::cli {

constexpr int kSchemaVersion = 1;

// Each is a whole document without a newline at its end. EventJson is one line, the others are
// indented.
std::string ProcessesJson(const v1::ListProcessesResponse& response);
std::string ProcessJson(const v1::GetProcessResponse& response);
std::string ResultsJson(const google::protobuf::RepeatedPtrField<v1::TransitionResult>& results);
std::string GarbageJson(const v1::CollectGarbageResponse& response, bool dry_run);
std::string GroupsJson(const v1::ListGroupsResponse& response);
std::string OperationsJson(const google::protobuf::RepeatedPtrField<v1::Operation>& operations);
std::string ForecastJson(const v1::Forecast& forecast);
std::string FreeJson(const v1::WaitFreeResponse& response);
std::string ReservationJson(const v1::ReserveResponse& response);
std::string GpusJson(const v1::GetNodeResponse& response);
using Budgets = google::protobuf::RepeatedPtrField<v1::Budget>;
std::string BudgetsJson(const Budgets& budgets);
std::string VerifyJson(const google::protobuf::RepeatedPtrField<v1::TransitionResult>& results);
std::string StoresJson(const google::protobuf::RepeatedPtrField<v1::Store>& stores);
std::string EventJson(const v1::Event& event);

}  // namespace parkade::cli
