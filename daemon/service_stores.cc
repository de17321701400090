// The calls about optimizer stores, and how one is told of.
#include <string_view>

#include "common/text.h"
#include "daemon/printable.h"
#include "daemon/service.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/status.h"
#include "daemon/status_grpc.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

// Calls `hear` with each line of a text that a shim has written.
template <typename Hear>
void EachLine(std::string_view text, const Hear& hear) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    hear(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

v1::Store::Placement PlacementOf(const wire::LedgerStore& in) {
  if (in.host_bytes == 0) return v1::Store::PLACEMENT_FILES;
  return in.file_bytes == 0 ? v1::Store::PLACEMENT_HOST : v1::Store::PLACEMENT_BOTH;
}

// Hears of each store of the processes that match, by pid.
template <typename Hear>
void EachStore(const Registry& registry, const Caller& caller, const Selector& selector,
               const Hear& hear) {
  for (const auto& process : registry.List(caller, selector)) {
    const auto stores = process->Stores();
    if (!stores.ok()) continue;
    const ProcessView view = process->View();
    for (const wire::LedgerStore& store : *stores) hear(view, store);
  }
}

}  // namespace

void Write(const ProcessView& process, const wire::LedgerStore& in, v1::Store* out) {
  out->set_pid(process.identity.pid);
  out->set_job(process.introduction.job);
  out->set_role(process.introduction.role);
  out->set_cell(process.introduction.cell);
  if (process.introduction.rank) out->set_rank(*process.introduction.rank);
  out->set_name(Printable(ReadText(in.name)));
  EachLine(ReadText(in.directories),
           [out](std::string_view line) { out->add_directories(Printable(line)); });
  EachLine(ReadText(in.segments), [out](std::string_view line) {
    const size_t equals = std::min(line.rfind('='), line.size());
    v1::StoreSegment* segment = out->add_segments();
    segment->set_name(Printable(line.substr(0, equals)));
    segment->set_encoding(Printable(line.substr(std::min(equals + 1, line.size()))));
  });
  out->set_elements(in.elements);
  out->set_bucket_elements(in.bucket_elements);
  out->set_buckets(in.buckets);
  out->set_slots(in.slots);
  out->set_placement(PlacementOf(in));
  out->set_file_bytes(in.file_bytes);
  out->set_host_bytes(in.host_bytes);
  out->set_device_bytes(in.device_bytes);
  // The same numbers; one that is none is left unsaid.
  if (in.redundancy <= v1::Store::REDUNDANCY_SHADOW) {
    out->set_redundancy(v1::Store::Redundancy(in.redundancy));
  }
  out->set_state(v1::Store::State(in.state));
  out->set_reason(Printable(ReadText(in.reason)));
  out->set_message(Printable(ReadText(in.message)));
  if (in.step != wire::kNoStoreStep) out->set_step(in.step);
  if (in.open_step != wire::kNoStoreStep) out->set_open_step(in.open_step);
  out->set_last_seconds(double(in.last_ns) / 1e9);
  out->set_last_read_bytes(in.last_read_bytes);
  out->set_last_written_bytes(in.last_written_bytes);
  out->set_read_bytes(in.read_bytes);
  out->set_written_bytes(in.written_bytes);
}

grpc::Status ControlService::ListStores(grpc::ServerContext* context,
                                        const v1::ListStoresRequest* request,
                                        v1::ListStoresResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto selector = Read(request->selector(), {*caller, to_.groups});
  if (!selector.ok()) return ToGrpc(selector.status());
  EachStore(to_.registry, *caller, *selector, [response](const auto& view, const auto& store) {
    Write(view, store, response->add_stores());
  });
  return grpc::Status::OK;
}

grpc::Status ControlService::GetStore(grpc::ServerContext* context,
                                      const v1::GetStoreRequest* request,
                                      v1::GetStoreResponse* response) {
  const auto caller = CallerOf(to_.authority, *context);
  if (!caller.ok()) return ToGrpc(caller.status());
  const auto selector = Read(request->selector(), {*caller, to_.groups});
  if (!selector.ok()) return ToGrpc(selector.status());
  EachStore(to_.registry, *caller, *selector, [&](const auto& view, const auto& store) {
    if (ReadText(store.name) == request->name()) Write(view, store, response->add_stores());
  });
  if (!response->stores().empty()) return grpc::Status::OK;
  const std::string name = Printable(request->name());
  return ToGrpc(Fail(absl::StatusCode::kNotFound, "NO_STORE",
                     Cat("no process that is meant has a store \"", name, "\" open"),
                     {{"store", name}}));
}

}  // namespace parkade::daemon
