// Writes the API's messages as JSON by hand: protobuf's own writer makes strings of 64-bit numbers.
#include "cli/json.h"

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
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
            {"devices", Json::array()},
            {"host_backup_bytes", process.host_backup_bytes()},
            {"disk_backup_bytes", process.disk_backup_bytes()},
            {"host_pool_bytes", process.host_pool_bytes()},
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

Json ToJson(const v1::TransitionResult& result) {
  const uint64_t residue = result.residue_bytes();  // 0: unknown
  Json json{{"pid", result.pid()},
            {"already", result.already()},
            {"state", StateName(result.state())},
            {"host_bytes", result.host_bytes()},
            {"disk_bytes", result.disk_bytes()},
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
            {"gpus", Json::array()}};
  for (const auto& gpu : result.gpus()) {
    json["gpus"].push_back(Json{{"uuid", gpu.uuid()},
                                {"free_before_bytes", gpu.free_before_bytes()},
                                {"free_after_bytes", gpu.free_after_bytes()},
                                {"expected_bytes", gpu.expected_bytes()}});
  }
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

std::string EventJson(const v1::Event& event) {
  const Json json{{"schema_version", kSchemaVersion},
                  {"time", FormatTime(event.time(), absl::UTCTimeZone())},
                  {"kind", KindName(event.kind())},
                  {"process", ToJson(event.process())}};
  return Dump(json, -1);
}

}  // namespace parkade::cli
