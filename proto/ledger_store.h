// What a ledger says of the optimizer stores that its process has open; layout only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace parkade::wire {

constexpr size_t kMaxLedgerStores = 16;  // those that are opened later are not listed
constexpr uint64_t kNoStoreStep = UINT64_MAX;

enum class StoreState : uint32_t {
  kIdle = 1,      // at `step`, all of it where it belongs; or not filled yet
  kStepping = 2,  // at `step`, on its way to `open_step`
  kTorn = 3,      // half old, half new, for good
  kFailed = 4,    // at `step`, all of it: the last step was given up
};
constexpr bool IsStoreState(uint32_t v) { return v >= 1 && v <= 4; }

struct LedgerStore {
  uint32_t sequence;   // odd: being written
  uint32_t used;       // 0: free slot, everything below is meaningless
  uint64_t number;     // unique in the process, rising
  uint32_t state;      // StoreState
  uint32_t serving;    // 1: a thread waits for steps that the daemon starts, or makes one
  uint64_t step;       // the last that is whole; kNoStoreStep: the store is not filled
  uint64_t open_step;  // that is under way; kNoStoreStep: none
  uint64_t elements;
  uint64_t bucket_elements;
  uint32_t buckets;
  uint32_t slots;
  uint64_t file_bytes;    // of the buckets that are in files
  uint64_t host_bytes;    // of those in host memory
  uint64_t device_bytes;  // of the slots, as they are now
  // Between files and memory since it was opened, as of the last step that ended.
  uint64_t read_bytes;
  uint64_t written_bytes;
  // Of the step `step`: from its beginning until its last byte was where it belongs. What it has
  // moved is counted from the end of the step before.
  uint64_t last_ns;
  uint64_t last_read_bytes;
  uint64_t last_written_bytes;
  uint32_t redundancy;  // as of PARKADE_STORE_INPLACE and so on
  uint32_t zero;
  char name[32];
  char segments[512];      // lines "NAME=ENCODING"; what does not fit is cut
  char directories[1024];  // lines; likewise
  char reason[32];         // of kTorn and kFailed, as of an error
  char message[208];
};
static_assert(std::is_trivially_copyable_v<LedgerStore> && sizeof(LedgerStore) == 1944);

}  // namespace parkade::wire
