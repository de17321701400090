// Fuzzes the ledger: a file that a process wrote, through its readers, the planner, and the sums
// and texts that the daemon makes of it. An input is a header and records; the file has the gap
// that lies between them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "common/text.h"
#include "daemon/planner.h"
#include "proto/ledger.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;

namespace {

constexpr wire::Policy kPolicies[] = {wire::Policy::kHost, wire::Policy::kDisk,
                                      wire::Policy::kAuto};

void CheckHeader(const wire::LedgerHeader& h) {
  Must(h.used_slots <= h.capacity && h.capacity <= wire::kMaxLedgerRecords);
  Must(wire::IsProcessState(uint32_t(h.state)));
  Must(memchr(h.text, '\0', sizeof h.text) != nullptr);
}

void CheckPlan(const wire::LedgerView& view) {
  for (const wire::Policy policy : kPolicies) {
    const daemon::Demand demands[] = {daemon::DemandOf(7, policy, view)};
    const auto grants = daemon::Plan({}, demands, 1_GiB);
    if (!grants.ok()) continue;
    const daemon::Grant& grant = (*grants)[0];
    Must(grant.new_host <= 1_GiB && grant.new_host <= grant.host);
    Bytes wanted = 0;
    for (const auto& [tag, bytes] : demands[0].by_tag) wanted += bytes;
    Must(grant.host + grant.disk >= wanted);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file;
  static std::vector<uint8_t> content;
  const size_t head = std::min(size, sizeof(wire::LedgerHeader));
  content.assign(data, data + head);
  if (size > head) {
    content.resize(wire::kLedgerHeaderBytes);
    content.insert(content.end(), data + head, data + size);
  }
  file.Fill(content.data(), content.size());
  if (const auto header = wire::ReadLedgerHeader(file.fd()); header.ok()) CheckHeader(*header);
  const auto view = wire::ReadLedger(file.fd());
  if (!view.ok()) return 0;
  CheckHeader(view->header);
  Must(view->records.size() <= view->header.used_slots);
  for (const wire::LedgerRecord& r : view->records) {
    Must(r.used != 0 && wire::IsPlace(r.place) && wire::IsAllocationClass(r.allocation_class));
    Must(r.device >= 0 && size_t(r.device) < wire::kMaxDevices);
  }
  CheckPlan(*view);
  return 0;
}

// Most inputs get what every ledger begins with, and as many slots as they have records; few have
// half written ones, which cost the reader's patience of milliseconds each time.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max);
  if (size < sizeof(wire::LedgerHeader)) return size;
  wire::LedgerHeader h;
  memcpy(&h, data, sizeof h);
  const size_t records = (size - sizeof h) / sizeof(wire::LedgerRecord);
  if (seed % 256 != 0) {
    h.text_sequence &= ~1u;
    for (size_t i = 0; i < records; ++i) {
      data[sizeof h + i * sizeof(wire::LedgerRecord)] &= 0xfe;
    }
  }
  if (seed / 256 % 8 != 0) {
    h.magic = wire::kLedgerMagic;
    h.version = wire::kLedgerVersion;
    h.header_bytes = wire::kLedgerHeaderBytes;
    h.record_bytes = sizeof(wire::LedgerRecord);
  }
  if (seed / 256 % 8 > 1) {
    h.used_slots = records;
    h.capacity = std::max(h.used_slots, h.capacity % wire::kMaxLedgerRecords);
    h.state = 1 + seed / 2048 % 8;
  }
  memcpy(data, &h, sizeof h);
  return size;
}
