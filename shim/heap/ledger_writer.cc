// Writes the shared table so that a reader with pread never takes half a record for a whole one.
#include "shim/heap/ledger_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/text.h"
#include "shim/heap/write_locked.h"

namespace parkade::shim {
namespace {

using wire::LedgerHeader;
using wire::LedgerRecord;

constexpr uint64_t kFirstCapacity = 4096;
constexpr size_t kMostEvents = 4;

constexpr size_t FileBytes(uint64_t capacity) {
  return wire::kLedgerHeaderBytes + capacity * sizeof(LedgerRecord);
}

// Makes the file `to` bytes long; 0 or errno. fallocate, not ftruncate: memory that cannot be had
// must be an error here, not a SIGBUS at the first store.
int Extend(int fd, size_t from, size_t to) {
  // Past the limit the kernel does not only fail, it sends SIGXFSZ, which ends the application.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < to) return EFBIG;
  int r;
  do r = fallocate(fd, 0, off_t(from), off_t(to - from));
  while (r != 0 && errno == EINTR);
  return r == 0 ? 0 : errno;
}

}  // namespace

Result<std::unique_ptr<LedgerWriter>> LedgerWriter::Create() {
  Fd fd(memfd_create("parkade-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return OsError(errno, "make the ledger's memfd");
  if (const int e = Extend(fd.get(), 0, FileBytes(kFirstCapacity)); e != 0) {
    return OsError(e, "size the ledger");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return OsError(errno, "seal the ledger");
  }
  // Where it is refused the daemon lists this process until it ends, whatever it becomes.
  (void)wire::HoldLedger(fd.get());
  const size_t most = FileBytes(wire::kMaxLedgerRecords);
  void* map = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (map == MAP_FAILED) return OsError(errno, "map the ledger");
  if (madvise(map, most, MADV_DONTFORK) != 0) {
    const int error = errno;
    munmap(map, most);
    return OsError(error, "keep the ledger out of forked children");
  }
  return std::unique_ptr<LedgerWriter>(new LedgerWriter(std::move(fd), map));
}

LedgerWriter::LedgerWriter(Fd fd, void* map)
    : fd_(std::move(fd)),
      header_(static_cast<LedgerHeader*>(map)),
      stores_(
          reinterpret_cast<wire::LedgerStore*>(static_cast<char*>(map) + wire::kLedgerStoresAt)),
      records_(reinterpret_cast<LedgerRecord*>(static_cast<char*>(map) + wire::kLedgerHeaderBytes)),
      capacity_(kFirstCapacity) {
  // The descriptor has not been given to anybody yet: no reader.
  header_->version = wire::kLedgerVersion;
  header_->header_bytes = wire::kLedgerHeaderBytes;
  header_->record_bytes = sizeof(LedgerRecord);
  header_->capacity = kFirstCapacity;
  header_->state = uint64_t(wire::ProcessState::kRunning);
  header_->magic = wire::kLedgerMagic;
}

LedgerWriter::~LedgerWriter() {
  if (header_ != nullptr) munmap(header_, FileBytes(wire::kMaxLedgerRecords));
}

uint32_t LedgerWriter::Add(const LedgerRecord& record) {
  if (header_ == nullptr) return kNoSlot;
  MutexLock lock(mu_);
  std::atomic_ref(header_->allocations).fetch_add(1, std::memory_order_relaxed);
  uint32_t slot;
  if (!free_slots_.empty()) {
    slot = free_slots_.back();
    free_slots_.pop_back();
  } else if (used_slots_ < capacity_ || Grow()) {
    slot = used_slots_++;
  } else {
    ++unlisted_;
    WriteText();
    return kNoSlot;
  }
  LedgerRecord written = record;
  written.used = 1;
  WriteRecord(slot, written);
  if (slot + 1 == used_slots_) {
    // A reader that sees the count sees the record: release, partner is pread.
    std::atomic_ref(header_->used_slots).store(used_slots_, std::memory_order_release);
  }
  return slot;
}

template <typename T>
void LedgerWriter::Change(uint32_t slot, uint64_t number, T LedgerRecord::*field, T value) {
  if (header_ == nullptr || slot == kNoSlot) return;
  MutexLock lock(mu_);
  LedgerRecord record = records_[slot];
  if (record.used == 0 || record.number != number) return;
  record.*field = value;
  WriteRecord(slot, record);
}

void LedgerWriter::SetPlace(uint32_t slot, uint64_t number, wire::Place place) {
  Change(slot, number, &LedgerRecord::place, uint32_t(place));
}

void LedgerWriter::SetClass(uint32_t slot, uint64_t number,
                            wire::AllocationClass allocation_class) {
  Change(slot, number, &LedgerRecord::allocation_class, uint32_t(allocation_class));
}

void LedgerWriter::SetBase(uint32_t slot, uint64_t number, uint64_t base) {
  Change(slot, number, &LedgerRecord::base, base);
}

void LedgerWriter::Remove(uint32_t slot) {
  if (header_ == nullptr) return;
  MutexLock lock(mu_);
  std::atomic_ref(header_->frees).fetch_add(1, std::memory_order_relaxed);
  if (slot == kNoSlot) {
    --unlisted_;
    WriteText();
    return;
  }
  LedgerRecord record = records_[slot];
  record.used = 0;
  WriteRecord(slot, record);
  free_slots_.push_back(slot);
}

bool LedgerWriter::Grow() {
  const uint64_t wanted = std::min(capacity_ * 2, wire::kMaxLedgerRecords);
  if (wanted == capacity_) return false;
  if (Extend(fd_.get(), FileBytes(capacity_), FileBytes(wanted)) != 0) return false;
  capacity_ = wanted;
  // After the file has grown: who reads the capacity may read that far.
  std::atomic_ref(header_->capacity).store(wanted, std::memory_order_release);
  return true;
}

void LedgerWriter::WriteRecord(uint32_t slot, const LedgerRecord& record) {
  // Everything after the sequence.
  constexpr size_t kFrom = offsetof(LedgerRecord, used);
  LedgerRecord* to = &records_[slot];
  WriteLocked(to->sequence, reinterpret_cast<char*>(to) + kFrom,
              reinterpret_cast<const char*>(&record) + kFrom, sizeof record - kFrom);
}

void LedgerWriter::WriteText() {
  std::string text = settings_;
  auto add_line = [&](std::string_view line) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += line;
  };
  // Before the warnings, which may be many: what does not fit is cut.
  for (const Event& event : events_) add_line("event: " + event.line);
  for (const std::string& warning : warnings_) add_line("warning: " + warning);
  if (unlisted_ != 0) {
    char line[64];
    snprintf(line, sizeof line, "unlisted=%llu (ledger full)",
             static_cast<unsigned long long>(unlisted_));
    add_line(line);
  }
  char field[sizeof header_->text];
  CopyText(field, text);
  WriteLocked(header_->text_sequence, header_->text, field, sizeof field);
}

void LedgerWriter::Store(uint64_t LedgerHeader::*field, uint64_t value) {
  // Release: pread's reader that sees the number sees what was written before it.
  if (header_ != nullptr) std::atomic_ref(header_->*field).store(value, std::memory_order_release);
}

void LedgerWriter::AddTo(uint64_t wire::LedgerDevice::*field, int ordinal, int64_t delta) {
  if (header_ == nullptr || ordinal < 0 || size_t(ordinal) >= wire::kMaxDevices) return;
  std::atomic_ref(header_->devices[ordinal].*field)
      .fetch_add(uint64_t(delta), std::memory_order_relaxed);
}

void LedgerWriter::AddTo(uint64_t (wire::LedgerHeader::*by_device)[wire::kMaxDevices], int ordinal,
                         int64_t delta) {
  if (header_ == nullptr || ordinal < 0 || size_t(ordinal) >= wire::kMaxDevices) return;
  std::atomic_ref((header_->*by_device)[ordinal])
      .fetch_add(uint64_t(delta), std::memory_order_relaxed);
}

void LedgerWriter::SetDevice(int ordinal, const unsigned char (&uuid)[16]) {
  if (header_ == nullptr || ordinal < 0 || size_t(ordinal) >= wire::kMaxDevices) return;
  MutexLock lock(mu_);
  wire::LedgerDevice& device = header_->devices[ordinal];
  memcpy(device.uuid, uuid, sizeof uuid);
  // Release: who sees `used` sees the UUID.
  std::atomic_ref(device.used).store(1, std::memory_order_release);
}

void LedgerWriter::AddResident(int ordinal, int64_t delta) {
  AddTo(&wire::LedgerDevice::resident_bytes, ordinal, delta);
}

void LedgerWriter::AddShifted(int ordinal, int64_t delta) {
  AddTo(&wire::LedgerHeader::shifted_bytes, ordinal, delta);
}

void LedgerWriter::AddOut(int ordinal, int64_t delta) {
  AddTo(&wire::LedgerHeader::out_bytes, ordinal, delta);
}

void LedgerWriter::ClearShifted() {
  if (header_ == nullptr) return;
  for (uint64_t& bytes : header_->shifted_bytes) {
    std::atomic_ref(bytes).store(0, std::memory_order_relaxed);
  }
}

void LedgerWriter::AddRequested(int ordinal, int64_t delta) {
  AddTo(&wire::LedgerDevice::requested_bytes, ordinal, delta);
}

Bytes LedgerWriter::requested() const {
  if (header_ == nullptr) return 0;
  uint64_t sum = 0;
  for (wire::LedgerDevice& device : header_->devices) {
    sum += std::atomic_ref(device.requested_bytes).load(std::memory_order_relaxed);
  }
  return sum;
}

void LedgerWriter::AddForeign(int ordinal, wire::ForeignKind kind, int64_t delta) {
  if (header_ == nullptr || ordinal < 0 || size_t(ordinal) >= wire::kMaxDevices) return;
  AddTo(&wire::LedgerDevice::foreign_bytes, ordinal, delta);
  std::atomic_ref(header_->foreign[ordinal].bytes[size_t(kind)])
      .fetch_add(uint64_t(delta), std::memory_order_relaxed);
}

void LedgerWriter::AddPinned(int64_t delta) {
  if (header_ == nullptr) return;
  std::atomic_ref(header_->pinned_bytes).fetch_add(uint64_t(delta), std::memory_order_relaxed);
}

void LedgerWriter::SetState(wire::ProcessState state) {
  Store(&LedgerHeader::state, uint64_t(state));
}

wire::ProcessState LedgerWriter::state() const {
  if (header_ == nullptr) return wire::ProcessState::kRunning;
  return wire::ProcessState(std::atomic_ref(header_->state).load(std::memory_order_acquire));
}

void LedgerWriter::BeginTransition(uint64_t op_id, Bytes to_move) {
  Store(&LedgerHeader::moved_bytes, 0);
  Store(&LedgerHeader::to_move_bytes, to_move);
  Store(&LedgerHeader::op_id, op_id);
}

void LedgerWriter::AddMoved(Bytes bytes) {
  if (header_ == nullptr) return;
  std::atomic_ref(header_->moved_bytes).fetch_add(bytes, std::memory_order_relaxed);
}

void LedgerWriter::EndTransition() { Store(&LedgerHeader::op_id, 0); }

void LedgerWriter::SetHostPool(Bytes held) { Store(&LedgerHeader::host_pool_bytes, held); }

void LedgerWriter::Add(uint64_t wire::LedgerHeader::*field, int64_t delta) {
  if (header_ == nullptr) return;
  std::atomic_ref(header_->*field).fetch_add(uint64_t(delta), std::memory_order_relaxed);
}

void LedgerWriter::AddBackup(int64_t host_bytes, int64_t disk_bytes) {
  Add(&LedgerHeader::host_backup_bytes, host_bytes);
  Add(&LedgerHeader::disk_backup_bytes, disk_bytes);
}

void LedgerWriter::AddRetained(int64_t host_bytes, int64_t disk_bytes) {
  Add(&LedgerHeader::host_retained_bytes, host_bytes);
  Add(&LedgerHeader::disk_retained_bytes, disk_bytes);
}

void LedgerWriter::SetUnhookedNames(uint64_t count) { Store(&LedgerHeader::unhooked_names, count); }

void LedgerWriter::SetGatedThreads(uint64_t count) { Store(&LedgerHeader::gated_threads, count); }

void LedgerWriter::SetGateMode(std::optional<wire::GateMode> mode) {
  Store(&LedgerHeader::gate_mode, mode ? uint64_t(*mode) : 0);
}

void LedgerWriter::SetEpoch(uint64_t epoch) {
  if (header_ == nullptr) return;
  std::atomic_ref held(header_->epoch);
  if (epoch > held.load(std::memory_order_relaxed)) held.store(epoch, std::memory_order_release);
}

void LedgerWriter::SetSettings(std::string_view lines) {
  if (header_ == nullptr) return;
  MutexLock lock(mu_);
  settings_ = lines;
  WriteText();
}

void LedgerWriter::AddWarning(std::string_view sentence) {
  if (header_ == nullptr) return;
  MutexLock lock(mu_);
  if (std::find(warnings_.begin(), warnings_.end(), sentence) != warnings_.end()) return;
  warnings_.emplace_back(sentence);
  WriteText();
}

uint64_t LedgerWriter::AddEvent(std::string_view sentence) {
  if (header_ == nullptr) return 0;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  MutexLock lock(mu_);
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  // A number: to write a date the C library would look for a time zone in the environment.
  events_.push_back({++last_event_, std::to_string(now.tv_sec) + " " + std::string(sentence)});
  WriteText();
  return last_event_;
}

void LedgerWriter::AddToEvent(uint64_t number, std::string_view words) {
  if (header_ == nullptr) return;
  MutexLock lock(mu_);
  for (Event& event : events_) {
    if (event.number == number) event.line += words;
  }
  WriteText();
}

void LedgerWriter::AddWarnings(std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    AddWarning(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void LedgerWriter::AbandonAfterFork() {
  mu_.ResetAfterFork();
  header_ = nullptr;
  stores_ = nullptr;
  records_ = nullptr;
  fd_.Reset();
}

}  // namespace parkade::shim
