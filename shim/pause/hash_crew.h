// HashCrew: the threads that hash chunks, and copy them to and from pageable memory, for all
// contexts of one move; HashLane: one mover thread's door to them.
#pragma once

#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "common/hash/block_hash.h"
#include "common/mutex.h"
#include "shim/libc/thread.h"
#include "shim/pause/patience.h"

namespace parkade::shim {

// What is to be done with one chunk, block by block.
struct HashWork {
  const char* from;
  char* to;  // copied there first, and hashed there; null: hashed at `from`
  Bytes bytes;
  Digest* compute;       // HashBlocksIn(bytes) to be filled, or null
  const Digest* verify;  // as many to be compared, or null
  uint64_t tag;          // comes back
};

class HashCrew {
 public:
  // Threads for `bytes` bytes, made when there is work for the first time: one for each block, on
  // all processors but two and 14 at most. Works with fewer than it would like, also with none.
  explicit HashCrew(Bytes bytes);
  ~HashCrew();  // every lane must be gone

 private:
  friend class HashLane;

  struct Item {
    HashWork work;
    size_t unclaimed;             // blocks from here on are nobody's yet
    size_t unfinished;            // blocks
    std::optional<size_t> wrong;  // the first block that differs
    class HashLane* lane;
  };
  static void Run(void* self);
  void StartThreads();
  // Does one block of the oldest item that has one; false when none has.
  bool WorkOnce() REQUIRES(mu_);

  const size_t wanted_;
  Mutex mu_;  // innermost; released while a block is hashed
  CondVar work_or_stop_;
  CondVar ended_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::deque<Item*> waiting_ GUARDED_BY(mu_);          // with unclaimed blocks
  Mutex start_mu_;                                     // held while the threads are made, once
  std::vector<Thread> threads_ GUARDED_BY(start_mu_);  // last: joined before the rest goes
};

// One thread.
class HashLane {
 public:
  struct Done {
    uint64_t tag;
    std::optional<size_t> wrong;  // the first block that differs from `verify`
  };

  explicit HashLane(HashCrew& crew) : crew_(crew) {}
  ~HashLane() { Drain(); }

  // Memory and digests are the crew's until the work's Done.
  void Start(const HashWork& work);
  bool idle() const { return in_flight_ == 0; }
  // Work that has ended, in any order; nullopt when none has. kWait hashes along until one has.
  std::optional<Done> Next(Patience patience);
  // Waits for the blocks that are being hashed and forgets the rest.
  void Drain();

 private:
  friend class HashCrew;

  HashCrew& crew_;
  size_t in_flight_ = 0;             // the lane's thread alone
  std::list<HashCrew::Item> items_;  // changed under crew_.mu_
  std::list<HashCrew::Item> ended_;  // likewise
};

}  // namespace parkade::shim
