// The reader's side of the ledger; the writer is shim/heap/ledger_writer.
#include "proto/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/deadline.h"

namespace parkade::wire {
namespace {

// How long a reader waits for a writer that is in the middle of the text, or of records.
constexpr uint64_t kTextMs = 1;
constexpr uint64_t kRecordsMs = 10;

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

Result<void> HasBytes(int fd, uint64_t bytes) {
  struct stat s;
  if (fstat(fd, &s) != 0) return OsError(errno, "look at ledger");
  if (uint64_t(s.st_size) < bytes) return Bad("shorter than it says");
  return {};
}

// Whether nothing was written between these two looks at a record. What was copied between them is
// whole; the later copy itself need not be, since the writer may begin in the middle of it.
template <typename Record>
bool SameWhole(const Record& before, const Record& after) {
  return before.sequence % 2 == 0 && before.sequence == after.sequence;
}

// The seqlock's retry for one record that was odd in the bulk copy, once at least and until `by`.
// False: left out.
template <typename Record>
bool Reread(int fd, size_t first, size_t index, Deadline by, Record* record) {
  const off_t at = off_t(first + index * sizeof(Record));
  for (;; sched_yield()) {
    Record copies[3];
    for (Record& copy : copies) {
      if (!ReadExactly(fd, &copy, sizeof copy, at).ok()) return false;
    }
    if (SameWhole(copies[0], copies[2])) {
      *record = copies[1];
      return true;
    }
    if (by.Passed()) return false;
  }
}

Result<void> ReadTextSequence(int fd, uint32_t* sequence) {
  return ReadExactly(fd, sequence, sizeof *sequence, offsetof(LedgerHeader, text_sequence));
}

// The header with its text whole, or with an empty text where its writer does not get out of it.
Result<LedgerHeader> CopyHeader(int fd) {
  LedgerHeader h;
  for (const Deadline by = Deadline::InMs(kTextMs);; sched_yield()) {
    uint32_t before, after;
    if (auto r = ReadTextSequence(fd, &before); !r.ok()) return r.error();
    if (auto r = ReadExactly(fd, &h, sizeof h, 0); !r.ok()) return r.error();
    if (auto r = ReadTextSequence(fd, &after); !r.ok()) return r.error();
    if (before % 2 == 0 && before == after) break;
    if (!by.Passed()) continue;
    h.text[0] = '\0';
    break;
  }
  h.text[sizeof h.text - 1] = '\0';
  return h;
}

}  // namespace

Result<LedgerHeader> ReadLedgerHeader(int fd) {
  const auto copy = CopyHeader(fd);
  if (!copy.ok()) return copy.error();
  const LedgerHeader& h = *copy;
  if (h.magic != kLedgerMagic) return Bad("not a ledger");
  if (h.version != kLedgerVersion || h.header_bytes != kLedgerHeaderBytes ||
      h.record_bytes != sizeof(LedgerRecord)) {
    return Bad("another version's layout");
  }
  if (h.capacity > kMaxLedgerRecords || h.used_slots > h.capacity)
    return Bad("counts out of range");
  if (h.state > UINT32_MAX || !IsProcessState(uint32_t(h.state))) return Bad("unknown state");
  return h;
}

Result<LedgerView> ReadLedger(int fd) {
  auto header = ReadLedgerHeader(fd);
  if (!header.ok()) return header.error();
  LedgerView view{*header, {}};
  const size_t count = header->used_slots;
  // Before memory is taken for what the file does not hold.
  if (auto r = HasBytes(fd, kLedgerHeaderBytes + count * sizeof(LedgerRecord)); !r.ok()) {
    return r.error();
  }
  std::vector<LedgerRecord> before(count), records(count), after(count);
  for (auto* copy : {&before, &records, &after}) {
    if (auto r = ReadExactly(fd, copy->data(), count * sizeof(LedgerRecord), kLedgerHeaderBytes);
        !r.ok()) {
      return r.error();
    }
  }
  view.records.reserve(count);
  // For all of them together: a writer that was stopped leaves one record odd, only a hostile one
  // leaves many.
  const Deadline by = Deadline::InMs(kRecordsMs);
  for (size_t i = 0; i < count; ++i) {
    LedgerRecord& r = records[i];
    if (!SameWhole(before[i], after[i]) && !Reread(fd, kLedgerHeaderBytes, i, by, &r)) {
      continue;
    }
    if (r.used == 0) continue;
    if (!IsPlace(r.place) || !IsAllocationClass(r.allocation_class))
      return Bad("record out of range");
    if (r.device < 0 || size_t(r.device) >= kMaxDevices) return Bad("device out of range");
    view.records.push_back(r);
  }
  return view;
}

Result<std::vector<LedgerStore>> ReadLedgerStores(int fd) {
  if (auto header = ReadLedgerHeader(fd); !header.ok()) return header.error();
  if (auto r = HasBytes(fd, kLedgerHeaderBytes); !r.ok()) return r.error();
  std::vector<LedgerStore> stores;
  const Deadline by = Deadline::InMs(kRecordsMs);
  for (size_t i = 0; i < kMaxLedgerStores; ++i) {
    LedgerStore store;
    if (!Reread(fd, kLedgerStoresAt, i, by, &store) || store.used == 0) continue;
    if (!IsStoreState(store.state)) return Bad("store out of range");
    for (auto [text, bytes] : {std::pair(store.name, sizeof store.name),
                               {store.segments, sizeof store.segments},
                               {store.directories, sizeof store.directories},
                               {store.reason, sizeof store.reason},
                               {store.message, sizeof store.message}}) {
      text[bytes - 1] = '\0';
    }
    stores.push_back(store);
  }
  std::sort(stores.begin(), stores.end(),
            [](const LedgerStore& a, const LedgerStore& b) { return a.number < b.number; });
  return stores;
}

bool HoldLedger(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  return fcntl(fd, F_SETLK, &whole) == 0;
}

bool IsLedgerHeld(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  return fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

}  // namespace parkade::wire
