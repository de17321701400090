// Board: the file, mapped by all ranks, over which the kernels of a collective meet.
#pragma once

#include <atomic>
#include <cstdint>

constexpr uint32_t kMaxRanks = 8;
constexpr uint32_t kMaxCommunicators = 16;
constexpr uint32_t kWords = 64;  // 64-bit words that each rank gives to a collective

// One communicator. A rank's collectives on it run one after the other, so a rank that has begun
// number n + 1 has read all of number n - 1: two slots in turn are enough.
struct Communicator {
  std::atomic<uint32_t> arrivals;         // futex of those who wait
  std::atomic<uint64_t> come[kMaxRanks];  // collectives that a rank has begun
  uint64_t words[2][kMaxRanks][kWords];
};

struct Board {
  Communicator communicators[kMaxCommunicators];
};

// Maps `path`, which is made when it does not exist. nullptr: errno says why.
Board* OpenBoard(const char* path);

// Which ranks of the job make up a communicator, and where on the board it is.
struct Group {
  uint32_t communicator;
  uint32_t size;
  uint32_t ranks[kMaxRanks];
};

// One rank's part of the next collective of `group`: waits until all its ranks have come, then puts
// the sum of their `words` into `sums`, kWords both. False after two minutes: a rank did not come.
bool Meet(Board& board, const Group& group, uint32_t rank, const uint64_t* words, uint64_t* sums);
