// The reader's side of the ledger; the writer is shim/heap/ledger_writer.
#include "proto/ledger.h"

#include <errno.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/deadline.h"

namespace parkade::wire {
namespace {

Error Bad(const char* why) {
  return MakeError(Code::kInvalidArgument, "BAD_LEDGER", "ledger: %s", why);
}

Result<void> ReadExactly(int fd, void* to, size_t size, off_t offset) {
  ssize_t n;
  do n = pread(fd, to, size, offset);
  while (n < 0 && errno == EINTR);
  if (n < 0) return OsError(errno, "read ledger");
  if (size_t(n) != size) return Bad("shorter than it says");
  return {};
}

// The seqlock's retry for one record that was odd in the bulk copy. False: left out.
bool Reread(int fd, size_t index, LedgerRecord* record) {
  const off_t at = off_t(kLedgerHeaderBytes + index * sizeof(LedgerRecord));
  for (const Deadline by = Deadline::InMs(10); !by.Passed(); sched_yield()) {
    LedgerRecord first, second;
    if (!ReadExactly(fd, &first, sizeof first, at).ok()) return false;
    if (!ReadExactly(fd, &second, sizeof second, at).ok()) return false;
    if (first.sequence % 2 != 0 || first.sequence != second.sequence) continue;
    *record = second;
    return true;
  }
  return false;
}

}  // namespace

Result<LedgerHeader> ReadLedgerHeader(int fd) {
  LedgerHeader h;
  if (auto r = ReadExactly(fd, &h, sizeof h, 0); !r.ok()) return r.error();
  if (h.magic != kLedgerMagic) return Bad("not a ledger");
  if (h.version != kLedgerVersion || h.header_bytes != kLedgerHeaderBytes ||
      h.record_bytes != sizeof(LedgerRecord)) {
    return Bad("another version's layout");
  }
  if (h.capacity > kMaxLedgerRecords || h.used_slots > h.capacity)
    return Bad("counts out of range");
  if (h.state > UINT32_MAX || !IsProcessState(uint32_t(h.state))) return Bad("unknown state");
  h.text[sizeof h.text - 1] = '\0';
  return h;
}

Result<LedgerView> ReadLedger(int fd) {
  auto header = ReadLedgerHeader(fd);
  if (!header.ok()) return header.error();
  LedgerView view{*header, {}};
  std::vector<LedgerRecord> before(header->used_slots), after(header->used_slots);
  const size_t bytes = before.size() * sizeof(LedgerRecord);
  // Two copies: a record is whole when its sequence is even and the same in both.
  for (auto* copy : {&before, &after}) {
    if (auto r = ReadExactly(fd, copy->data(), bytes, kLedgerHeaderBytes); !r.ok())
      return r.error();
  }
  view.records.reserve(after.size());
  for (size_t i = 0; i < after.size(); ++i) {
    LedgerRecord& r = after[i];
    const bool whole = r.sequence % 2 == 0 && r.sequence == before[i].sequence;
    if (!whole && !Reread(fd, i, &r)) continue;
    if (r.used == 0) continue;
    if (!IsPlace(r.place) || !IsAllocationClass(r.allocation_class))
      return Bad("record out of range");
    if (r.device < 0 || size_t(r.device) >= kMaxDevices) return Bad("device out of range");
    view.records.push_back(r);
  }
  return view;
}

}  // namespace parkade::wire
