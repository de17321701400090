// The ledger: a memfd in which a shim keeps the table of its allocations for the daemon to read.
//
// One writer (the shim), any number of readers, who may look at any moment: while the process runs,
// hangs, moves bytes or is dead. Layout: one LedgerHeader in the first 4096 bytes, kMaxLedgerStores
// LedgerStores (proto/ledger_store.h), then `capacity` LedgerRecords. A record, a store or the
// header's text block is a seqlock: its `sequence` is odd while it is being written. Readers copy
// with pread (a mapping could fault if the writer shrank the file), check the copy, then use it;
// everything they see is a claim of the process, not a fact.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/result.h"
#include "proto/ledger_store.h"
#include "proto/wire.h"

namespace parkade::wire {

constexpr uint32_t kLedgerMagic = 0x474c'4b50;  // "PKLG"
constexpr uint32_t kLedgerVersion = 5;
constexpr size_t kLedgerStoresAt = 4096;
// All that stands before the first record.
constexpr size_t kLedgerHeaderBytes = kLedgerStoresAt + kMaxLedgerStores * sizeof(LedgerStore);
constexpr uint64_t kMaxLedgerRecords = 1 << 20;

// What can be done with an allocation; see the word "class" in docs/design.md.
enum class AllocationClass : uint32_t { kPausable = 1, kHeld = 2, kForeign = 3 };
constexpr bool IsAllocationClass(uint32_t v) { return v >= 1 && v <= 3; }

// Where an allocation's bytes are.
enum class Place : uint32_t { kGpu = 1, kHost = 2, kDisk = 3, kDiscarded = 4, kMoving = 5 };
constexpr bool IsPlace(uint32_t v) { return v >= 1 && v <= 5; }

// What HBM is that the shim has seen and does not move.
enum class ForeignKind : uint32_t {
  kNative,         // of a device without virtual memory management, or another process's
  kCommunication,  // of NCCL, NVSHMEM, UCX
  kPool,           // reserved by stream-ordered pools
  kManaged,        // as allocated; a pause moves what it can to the host by prefetch
  kArray,          // arrays and mipmapped arrays
  kGraph,          // reserved for memory nodes of graphs
};
constexpr size_t kForeignKinds = 6;

struct LedgerRecord {
  uint32_t sequence;          // odd: being written
  uint32_t used;              // 0: free slot, everything below is meaningless
  uint64_t base;              // device address
  uint64_t bytes;             // as the application asked
  uint64_t number;            // unique in the process, rising
  int32_t device;             // ordinal in the process
  uint32_t allocation_class;  // AllocationClass
  uint32_t place;             // Place
  uint32_t zero;
  char tag[32];
};
static_assert(std::is_trivially_copyable_v<LedgerRecord> && sizeof(LedgerRecord) == 80);

struct LedgerDevice {
  unsigned char uuid[16];    // CUuuid
  uint64_t resident_bytes;   // physical memory of the heap now on the device, slab slack included
  uint64_t requested_bytes;  // live allocations, as the application asked
  uint64_t foreign_bytes;    // counted but never moved: all of LedgerForeign
  uint32_t used;             // 0: no context on this device
  uint32_t zero;
};
static_assert(sizeof(LedgerDevice) == 48);

struct LedgerForeign {
  uint64_t bytes[kForeignKinds];
};
static_assert(sizeof(LedgerForeign) == 48);

// The numbers of the header, all plain 64-bit words that the writer stores atomically.
struct LedgerHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint64_t capacity;     // records in the file
  uint64_t used_slots;   // records ever used are below this index
  uint64_t state;        // ProcessState
  uint64_t op_id;        // transition in progress, or 0
  uint64_t moved_bytes;  // of it
  uint64_t to_move_bytes;
  uint64_t host_pool_bytes;    // host memory held for backups, pinned where that could be had
  uint64_t host_backup_bytes;  // of it, holding backups
  uint64_t disk_backup_bytes;
  uint64_t allocations;  // made since the start
  uint64_t frees;
  uint64_t unhooked_names;  // driver functions handed out that no hook knows
  uint64_t gated_threads;   // threads now held at the gate
  uint64_t epoch;           // highest of the callers that have moved this process
  uint64_t gate_mode;       // GateMode of the pause under way or in force; 0: none
  uint64_t pinned_bytes;    // host memory that the application has pinned
  // Backups kept of bytes that are in HBM too; those in host memory are part of host_pool_bytes.
  uint64_t host_retained_bytes;
  uint64_t disk_retained_bytes;
  LedgerDevice devices[kMaxDevices];
  LedgerForeign foreign[kMaxDevices];
  uint32_t text_sequence;  // odd: text is being written
  uint32_t zero;
  // Lines "name=value (source)", "warning: ..." and "event: UNIX-SECONDS ...".
  char text[2048];
  // By device, in two's complement: HBM that has come (gone: negative) in the transition under way
  // and is not in resident_bytes yet.
  uint64_t shifted_bytes[kMaxDevices];
  uint64_t out_bytes[kMaxDevices];  // HBM that a resume takes on each device
};
static_assert(std::is_trivially_copyable_v<LedgerHeader> &&
              sizeof(LedgerHeader) <= kLedgerStoresAt);

// What one look at a ledger saw.
struct LedgerView {
  LedgerHeader header;
  std::vector<LedgerRecord> records;  // the used ones, in slot order
};

// Reads the header alone, or all of the ledger. INVALID_ARGUMENT (BAD_LEDGER) when what the file
// says cannot be; a record whose writer died or was stopped in the middle is left out, a text is
// empty then. Waits 1 ms for a text and 10 ms for all records at most. Any thread.
Result<LedgerHeader> ReadLedgerHeader(int fd);
Result<LedgerView> ReadLedger(int fd);
// The stores that the process has open, in the order in which it opened them; errors and waits as
// those of ReadLedger. Every text ends with a NUL.
Result<std::vector<LedgerStore>> ReadLedgerStores(int fd);

// The writer's process holds a lock on its ledger that ends with the program, also when another one
// takes over the process (exec), and that forked children do not have. HoldLedger: false where the
// kernel refuses. IsLedgerHeld sees the lock of other processes alone.
bool HoldLedger(int fd);
bool IsLedgerHeld(int fd);

}  // namespace parkade::wire
