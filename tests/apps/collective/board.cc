// Maps the board, and lets ranks wait for each other on futexes in it.
#include "tests/apps/collective/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "common/deadline.h"

namespace {

constexpr uint64_t kLongestWaitMs = 120'000;

// Shared between processes, so without the PRIVATE flag.
void WaitWhile(std::atomic<uint32_t>& word, uint32_t value, parkade::Deadline by) {
  const timespec at = by.At();
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, value, &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

bool AllHaveCome(const Communicator& c, const Group& group, uint64_t number) {
  for (uint32_t i = 0; i < group.size; ++i) {
    if (c.come[group.ranks[i]].load(std::memory_order_acquire) < number) return false;
  }
  return true;
}

}  // namespace

Board* OpenBoard(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* at = MAP_FAILED;
  // A fresh file reads as zeros, which is a board that nobody has used.
  if (ftruncate(fd, sizeof(Board)) == 0) {
    at = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<Board*>(at);
}

bool Meet(Board& board, const Group& group, uint32_t rank, const uint64_t* words, uint64_t* sums) {
  Communicator& c = board.communicators[group.communicator];
  const uint64_t number = c.come[rank].load(std::memory_order_relaxed) + 1;
  auto& slots = c.words[number % 2];
  memcpy(slots[rank], words, sizeof slots[rank]);
  c.come[rank].store(number, std::memory_order_release);  // partner: the load in AllHaveCome
  c.arrivals.fetch_add(1, std::memory_order_acq_rel);
  syscall(SYS_futex, &c.arrivals, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);

  const auto by = parkade::Deadline::InMs(kLongestWaitMs);
  for (;;) {
    const uint32_t seen = c.arrivals.load(std::memory_order_acquire);
    if (AllHaveCome(c, group, number)) break;
    if (by.Passed()) return false;
    WaitWhile(c.arrivals, seen, by);
  }
  memset(sums, 0, sizeof slots[rank]);
  for (uint32_t i = 0; i < group.size; ++i) {
    for (uint32_t word = 0; word < kWords; ++word) sums[word] += slots[group.ranks[i]][word];
  }
  return true;
}
