// The documents about optimizer stores.
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/store_text.h"

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const v1::Store& store) {
  Json json{{"pid", store.pid()},
            {"job", store.job()},
            {"role", store.role()},
            {"cell", store.cell()},
            {"rank", store.has_rank() ? Json(store.rank()) : Json()},
            {"name", store.name()},
            {"directories", Json::array()},
            {"segments", Json::array()},
            {"elements", store.elements()},
            {"bucket_elements", store.bucket_elements()},
            {"buckets", store.buckets()},
            {"slots", store.slots()},
            {"placement", PlacementName(store)},
            {"redundancy", RedundancyName(store)},
            {"file_bytes", store.file_bytes()},
            {"host_bytes", store.host_bytes()},
            {"device_bytes", store.device_bytes()},
            {"state", StoreStateName(store)},
            {"reason", store.reason().empty() ? Json() : Json(store.reason())},
            {"message", store.message().empty() ? Json() : Json(store.message())},
            {"step", store.has_step() ? Json(store.step()) : Json()},
            {"open_step", store.has_open_step() ? Json(store.open_step()) : Json()},
            {"last_seconds", store.last_seconds()},
            {"last_read_bytes", store.last_read_bytes()},
            {"last_written_bytes", store.last_written_bytes()},
            {"read_bytes", store.read_bytes()},
            {"written_bytes", store.written_bytes()}};
  for (const std::string& directory : store.directories()) json["directories"].push_back(directory);
  for (const v1::StoreSegment& segment : store.segments()) {
    json["segments"].push_back(Json{{"name", segment.name()}, {"encoding", segment.encoding()}});
  }
  return json;
}

}  // namespace

std::string StoresJson(const google::protobuf::RepeatedPtrField<v1::Store>& stores) {
  Json json{{"schema_version", kSchemaVersion}, {"stores", Json::array()}};
  for (const auto& store : stores) json["stores"].push_back(ToJson(store));
  // As in json.cc: labels may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace parkade::cli
