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

// Whether nothing was written between these two looks at a record. What was copied between them is
// whole; the later copy itself need not be, since the writer may begin in the middle of it.
bool SameWhole(const LedgerRecord& before, const LedgerRecord& after) {
  return before.sequence % 2 == 0 && before.sequence == after.sequence;
}

// The seqlock's retry for one record that was odd in the bulk copy. False: left out.
bool Reread(int fd, size_t index, LedgerRecord* record) {
  const off_t at = off_t(kLedgerHeaderBytes + index * sizeof(LedgerRecord));
  for (const Deadline by = Deadline::InMs(10); !by.Passed(); sched_yield()) {
    LedgerRecord copies[3];
    for (LedgerRecord& copy : copies) {
      if (!ReadExactly(fd, &copy, sizeof copy, at).ok()) return false;
    }
    if (!SameWhole(copies[0], copies[2])) continue;
    *record = copies[1];
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
  const size_t count = header->used_slots;
  std::vector<LedgerRecord> before(count), records(count), after(count);
  for (auto* copy : {&before, &records, &after}) {
    if (auto r = ReadExactly(fd, copy->data(), count * sizeof(LedgerRecord), kLedgerHeaderBytes);
        !r.ok()) {
      return r.error();
    }
  }
  view.records.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    LedgerRecord& r = records[i];
    if (!SameWhole(before[i], after[i]) && !Reread(fd, i, &r)) continue;
    if (r.used == 0) continue;
    if (!IsPlace(r.place) || !IsAllocationClass(r.allocation_class))
      return Bad("record out of range");
    if (r.device < 0 || size_t(r.device) >= kMaxDevices) return Bad("device out of range");
    view.records.push_back(r);
  }
  return view;
}

}  // namespace parkade::wire
