// Writes the API's messages as JSON by hand: protobuf's own writer makes strings of 64-bit numbers.
#include "cli/json.h"

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "cli/by_tag.h"
#include "cli/format.h"
#include "cli/setting.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

// A label or command line may hold bytes that are no UTF-8: they must not stop the whole list.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json GateModeName(v1::GateMode mode) {
  switch (mode) {
    case v1::GATE_MODE_CLOSED:
      return "closed";
    case v1::GATE_MODE_OPEN:
      return "open";
    default:
      return nullptr;  // no pause is under way or in force
  }
}

Json ToJson(const v1::ProcessDevice& device) {
  Json json{{"gpu_uuid", device.gpu_uuid()},
            {"ordinal", device.ordinal()},
            {"resident_bytes", device.resident_bytes()},
            {"requested_bytes", device.requested_bytes()},
            {"foreign_bytes", device.foreign_bytes()},
            {"foreign", Json::array()}};
  for (const auto& foreign : device.foreign()) {
    json["foreign"].push_back(
        Json{{"kind", foreign.kind()}, {"bytes", foreign.bytes()}, {"advice", foreign.advice()}});
  }
  return json;
}

Json ToJson(const v1::Progress& progress) {
  const auto& left = progress.time_left();
  return {{"done_bytes", progress.done_bytes()},
          {"total_bytes", progress.total_bytes()},
          {"bytes_per_second", progress.bytes_per_second()},
          {"seconds_left", double(left.seconds()) + double(left.nanos()) * 1e-9}};
}

Json ToJson(const v1::Process& process) {
  Json json{{"pid", process.pid()},
            {"start_ticks", process.start_ticks()},
            {"uid", process.uid()},
            {"command", process.command()},
            {"job", process.job()},
            {"role", process.role()},
            {"cell", process.cell()},
            {"rank", process.has_rank() ? Json(process.rank()) : Json()},
            {"state", StateName(process.state())},
            {"connected", process.connected()},
            {"deep", process.deep()},
            {"takes_turns", process.takes_turns()},
            {"asks_turn", process.asks_turn()},
            {"out_for_turn", process.out_for_turn()},
            {"devices", Json::array()},
            {"host_backup_bytes", process.host_backup_bytes()},
            {"disk_backup_bytes", process.disk_backup_bytes()},
            {"host_pool_bytes", process.host_pool_bytes()},
            {"host_retained_bytes", process.host_retained_bytes()},
            {"disk_retained_bytes", process.disk_retained_bytes()},
            {"pinned_bytes", process.pinned_bytes()},
            {"progress", process.has_progress() ? ToJson(process.progress()) : Json()},
            {"allocation_count", process.allocation_count()},
            {"gated_threads", process.gated_threads()},
            {"unhooked_names", process.unhooked_names()},
            {"scratch_dir", process.scratch_dir()},
            {"shim_version", process.shim_version()},
            {"gate_mode", GateModeName(process.gate_mode())},
            {"epoch", process.epoch()}};
  for (const auto& device : process.devices()) json["devices"].push_back(ToJson(device));
  return json;
}

Json ToJson(const v1::Allocation& allocation) {
  return {{"address", FormatAddress(allocation.address())},
          {"bytes", allocation.bytes()},
          {"device", allocation.device()},
          {"tag", allocation.tag()},
          {"class", allocation.allocation_class()},
          {"place", allocation.place()}};
}

Json ToJson(const v1::Failure& failure) {
  return {{"code", failure.code()},
          {"reason", failure.reason()},
          {"message", failure.message()},
          {"metadata", failure.metadata()}};
}

Json ToJson(const v1::DeepStep& step) {
  return {{"deep", step.deep()},
          {"freed_bytes", step.freed_bytes()},
          {"seconds", step.seconds()},
          {"refusal", step.has_refusal() ? ToJson(step.refusal()) : Json()}};
}

Json ToJson(const v1::TransitionResult& result) {
  const uint64_t residue = result.residue_bytes();  // 0: unknown
  Json json{{"pid", result.pid()},
            {"already", result.already()},
            {"state", StateName(result.state())},
            {"host_bytes", result.host_bytes()},
            {"disk_bytes", result.disk_bytes()},
            {"elided_bytes", result.elided_bytes()},
            {"discarded_bytes", result.discarded_bytes()},
            {"kept_bytes", result.kept_bytes()},
            {"released_bytes", result.released_bytes()},
            {"gate_seconds", result.gate_seconds()},
            {"drain_seconds", result.drain_seconds()},
            {"move_seconds", result.move_seconds()},
            {"total_seconds", result.total_seconds()},
            {"residue_bytes", residue == 0 ? Json() : Json(residue)},
            {"let_through", result.let_through()},
            {"wait_seconds", result.wait_seconds()},
            {"left_bytes", result.left_bytes()},
            {"write_behind_id",
             result.write_behind_id().empty() ? Json() : Json(result.write_behind_id())},
            {"gpus", Json::array()},
            {"deep", result.has_deep() ? ToJson(result.deep()) : Json()}};
  for (const auto& gpu : result.gpus()) {
    json["gpus"].push_back(Json{{"uuid", gpu.uuid()},
                                {"free_before_bytes", gpu.free_before_bytes()},
                                {"free_after_bytes", gpu.free_after_bytes()},
                                {"expected_bytes", gpu.expected_bytes()},
                                {"peak_bytes", gpu.peak_bytes()},
                                {"allowed_bytes", gpu.allowed_bytes()}});
  }
  return json;
}

Json ToJson(const v1::ProcessForecast& process) {
  Json json{{"pid", process.pid()},
            {"already", process.already()},
            {"tags", Json::array()},
            {"gpus", Json::array()},
            {"host_bytes", process.host_bytes()},
            {"disk_bytes", process.disk_bytes()},
            {"new_host_bytes", process.new_host_bytes()}};
  for (const auto& tag : process.tags()) {
    json["tags"].push_back(Json{{"tag", tag.tag()},
                                {"policy", PolicyName(tag.policy())},
                                {"host_bytes", tag.host_bytes()},
                                {"disk_bytes", tag.disk_bytes()},
                                {"discarded_bytes", tag.discarded_bytes()},
                                {"kept_bytes", tag.kept_bytes()}});
  }
  for (const auto& gpu : process.gpus()) {
    json["gpus"].push_back(Json{{"uuid", gpu.uuid()}, {"needed_bytes", gpu.needed_bytes()}});
  }
  return json;
}

Json ToJson(const v1::GpuWait& wait) {
  return {{"gpu_uuid", wait.gpu_uuid()},
          {"needed_bytes", wait.needed_bytes()},
          {"free_bytes", wait.free_bytes()},
          {"booked_bytes", wait.booked_bytes()},
          {"reserved_bytes", wait.reserved_bytes()},
          {"ahead_bytes", wait.ahead_bytes()},
          {"position", wait.position()},
          {"priority", wait.priority()},
          {"waited_seconds", wait.waited_seconds()}};
}

Json ToJson(const v1::Operation& operation) {
  const bool ended = operation.has_end_time();
  Json json{
      {"id", operation.id()},
      {"request_id", operation.request_id()},
      {"caller", operation.caller()},
      {"kind", OperationKindName(operation.kind())},
      {"state", OperationStateName(operation.state())},
      {"cancel_requested", operation.cancel_requested()},
      {"pids", operation.pids()},
      {"progress", operation.has_progress() ? ToJson(operation.progress()) : Json()},
      {"begin_time", FormatTime(operation.begin_time(), absl::UTCTimeZone())},
      {"end_time", ended ? Json(FormatTime(operation.end_time(), absl::UTCTimeZone())) : Json()},
      {"results", Json::array()},
      {"failure", nullptr},
      {"waiting", Json::array()}};
  for (const auto& result : operation.results()) json["results"].push_back(ToJson(result));
  for (const auto& wait : operation.waiting()) json["waiting"].push_back(ToJson(wait));
  if (operation.has_failure()) json["failure"] = ToJson(operation.failure());
  return json;
}

}  // namespace

std::string ProcessesJson(const v1::ListProcessesResponse& response) {
  Json json{{"schema_version", kSchemaVersion}, {"processes", Json::array()}};
  for (const auto& process : response.processes()) json["processes"].push_back(ToJson(process));
  return Dump(json, 2);
}

std::string ProcessJson(const v1::GetProcessResponse& response) {
  Json json{{"schema_version", kSchemaVersion}, {"process", ToJson(response.process())}};
  Json& settings = json["process"]["settings"] = Json::array();
  for (const std::string& line : response.process().settings()) {
    const Setting setting = ReadSetting(line);
    settings.push_back(
        Json{{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
  json["process"]["warnings"] = response.process().warnings();
  json["process"]["events"] = response.process().events();
  json["tags"] = Json::array();
  for (const auto& [key, sum] : SumByTag(response)) {
    json["tags"].push_back(Json{{"tag", key.tag},
                                {"class", key.allocation_class},
                                {"place", key.place},
                                {"count", sum.count},
                                {"bytes", sum.bytes}});
  }
  json["allocations"] = Json::array();
  for (const auto& allocation : response.allocations()) {
    json["allocations"].push_back(ToJson(allocation));
  }
  return Dump(json, 2);
}

std::string ResultsJson(const google::protobuf::RepeatedPtrField<v1::TransitionResult>& results) {
  Json json{{"schema_version", kSchemaVersion}, {"results", Json::array()}};
  for (const auto& result : results) json["results"].push_back(ToJson(result));
  return Dump(json, 2);
}

std::string GarbageJson(const v1::CollectGarbageResponse& response, bool dry_run) {
  Json json{{"schema_version", kSchemaVersion}, {"dry_run", dry_run}, {"entries", Json::array()}};
  for (const auto& entry : response.entries()) {
    json["entries"].push_back(Json{{"path", entry.path()},
                                   {"pid", entry.pid() == 0 ? Json() : Json(entry.pid())},
                                   {"uid", entry.uid()},
                                   {"bytes", entry.bytes()},
                                   {"dead", entry.dead()},
                                   {"reason", entry.reason()}});
  }
  return Dump(json, 2);
}

std::string GroupsJson(const v1::ListGroupsResponse& response) {
  Json json{{"schema_version", kSchemaVersion}, {"groups", Json::array()}};
  for (const auto& group : response.groups()) {
    const v1::Selector& s = group.selector();
    Json entry{
        {"name", group.name()},
        {"configured", group.configured()},
        {"selector",
         {{"pids", s.pids()},
          {"job", s.job()},
          {"role", s.role()},
          {"cell", s.cell()},
          {"ranks", s.ranks()},
          {"gpu_uuids", s.gpu_uuids()},
          {"all", s.all()}}},
        {"policy",
         group.policy() == v1::POLICY_UNSPECIFIED ? Json() : Json(PolicyName(group.policy()))},
        {"tag_policies", Json::object()}};
    for (const auto& [tag, policy] : group.tag_policies()) {
      entry["tag_policies"][tag] = PolicyName(policy);
    }
    json["groups"].push_back(std::move(entry));
  }
  return Dump(json, 2);
}

std::string OperationsJson(const google::protobuf::RepeatedPtrField<v1::Operation>& operations) {
  Json json{{"schema_version", kSchemaVersion}, {"operations", Json::array()}};
  for (const auto& operation : operations) json["operations"].push_back(ToJson(operation));
  return Dump(json, 2);
}

std::string ForecastJson(const v1::Forecast& forecast) {
  Json json{{"schema_version", kSchemaVersion},
            {"processes", Json::array()},
            {"refusals", Json::array()},
            {"seconds", forecast.seconds() > 0 ? Json(forecast.seconds()) : Json()}};
  for (const auto& process : forecast.processes()) json["processes"].push_back(ToJson(process));
  for (const auto& refusal : forecast.refusals()) json["refusals"].push_back(ToJson(refusal));
  return Dump(json, 2);
}

std::string FreeJson(const v1::WaitFreeResponse& response) {
  const Json json{{"schema_version", kSchemaVersion},
                  {"free_bytes", response.free_bytes()},
                  {"booked_bytes", response.booked_bytes()},
                  {"reserved_bytes", response.reserved_bytes()},
                  {"waited_seconds", response.waited_seconds()}};
  return Dump(json, 2);
}

std::string EventJson(const v1::Event& event) {
  Json json{{"schema_version", kSchemaVersion},
            {"time", FormatTime(event.time(), absl::UTCTimeZone())},
            {"kind", KindName(event.kind())}};
  if (event.has_operation()) {
    json["operation"] = ToJson(event.operation());
  } else {
    json["process"] = ToJson(event.process());
  }
  return Dump(json, -1);
}

}  // namespace parkade::cli
