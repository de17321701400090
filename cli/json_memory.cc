// The documents about memory: GPUs, reservations, budgets, and backups that were read.
#include <nlohmann/json.hpp>

#include "cli/format.h"
#include "cli/json.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

// As in json.cc: labels may hold bytes that are no UTF-8.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json ToJson(const v1::Reservation& kept) {
  const auto& left = kept.time_left();
  return {
      {"id", kept.id()},
      {"owner", kept.owner()},
      {"label", kept.label()},
      {"gpu_uuid", kept.gpu_uuid()},
      {"bytes", kept.bytes()},
      {"seconds_left",
       kept.has_time_left() ? Json(double(left.seconds()) + double(left.nanos()) * 1e-9) : Json()},
      {"pid", kept.pid() == 0 ? Json() : Json(kept.pid())}};
}

Json ToJson(const v1::Gpu& gpu) {
  Json json{{"uuid", gpu.uuid()},
            {"name", gpu.name()},
            {"total_bytes", gpu.total_bytes()},
            {"free_bytes", gpu.free_bytes()},
            {"booked_bytes", gpu.booked_bytes()},
            {"reserved_bytes", gpu.reserved_bytes()},
            {"managed_bytes", gpu.managed_bytes()},
            {"unexplained_bytes", gpu.unexplained_bytes()},
            {"users", Json::array()},
            {"waiting", Json::array()},
            {"reservations", Json::array()}};
  for (const auto& user : gpu.users()) {
    json["users"].push_back(
        Json{{"pid", user.pid()},
             {"used_bytes", user.used_bytes()},
             {"managed_bytes", user.managed() ? Json(user.managed_bytes()) : Json()}});
  }
  for (const auto& waiter : gpu.waiting()) {
    const bool seen = !waiter.operation_id().empty();
    json["waiting"].push_back(Json{{"operation", seen ? Json(waiter.operation_id()) : Json()},
                                   {"position", waiter.position()},
                                   {"priority", waiter.priority()},
                                   {"needed_bytes", waiter.needed_bytes()},
                                   {"waited_seconds", waiter.waited_seconds()}});
  }
  for (const auto& kept : gpu.reservations()) json["reservations"].push_back(ToJson(kept));
  return json;
}

Json ToJson(const v1::WrongBlock& block) {
  const bool on_disk = block.place() == "disk";
  return {{"address", FormatAddress(block.address())},
          {"bytes", block.bytes()},
          {"device", block.device()},
          {"place", block.place()},
          {"file", on_disk ? Json(block.file()) : Json()},
          {"offset", on_disk ? Json(block.offset()) : Json()},
          {"missing", block.missing()}};
}

}  // namespace

std::string ReservationJson(const v1::ReserveResponse& response) {
  Json json{{"schema_version", kSchemaVersion}, {"reservation", ToJson(response.reservation())}};
  json["operation"] = response.operation_id();
  json["waited_seconds"] = response.waited_seconds();
  return Dump(json);
}

std::string GpusJson(const v1::GetNodeResponse& response) {
  Json json{{"schema_version", kSchemaVersion},
            {"source", response.gpu_source()},
            {"gpus", Json::array()}};
  for (const auto& gpu : response.gpus()) json["gpus"].push_back(ToJson(gpu));
  return Dump(json);
}

std::string BudgetsJson(const Budgets& budgets) {
  Json json{{"schema_version", kSchemaVersion}, {"budgets", Json::array()}};
  const auto limit = [](uint64_t bytes) { return bytes == 0 ? Json() : Json(bytes); };
  for (const auto& budget : budgets) {
    json["budgets"].push_back(Json{{"job", budget.job().empty() ? Json() : Json(budget.job())},
                                   {"host_bytes", limit(budget.host_bytes())},
                                   {"host_used_bytes", budget.host_used_bytes()},
                                   {"disk_bytes", limit(budget.disk_bytes())},
                                   {"disk_used_bytes", budget.disk_used_bytes()},
                                   {"over", budget.over()}});
  }
  return Dump(json);
}

std::string VerifyJson(const google::protobuf::RepeatedPtrField<v1::TransitionResult>& results) {
  Json json{{"schema_version", kSchemaVersion}, {"results", Json::array()}};
  for (const auto& result : results) {
    Json each{{"pid", result.pid()},
              {"state", StateName(result.state())},
              {"host_bytes", result.host_bytes()},
              {"disk_bytes", result.disk_bytes()},
              {"elided_bytes", result.elided_bytes()},
              {"total_seconds", result.total_seconds()},
              {"wrong_block_count", result.wrong_block_count()},
              {"wrong_blocks", Json::array()}};
    for (const auto& block : result.wrong_blocks()) each["wrong_blocks"].push_back(ToJson(block));
    json["results"].push_back(std::move(each));
  }
  return Dump(json);
}

}  // namespace parkade::cli
