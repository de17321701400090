// StoreFiles: one rank's files in the directories that the program has named: made, locked while
// their owner lives, removed at the end, and taken over when an owner has died.
//
// In each base directory the store has a directory of its own, parkade-store-NAME, mode 0700, with
// a lock (an OFD lock for the life of the process) and files of buckets, file i in base i modulo
// their number; the first one has the state file too. All of it is scratch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/io/direct_files.h"
#include "common/result.h"

namespace parkade::shim {

class StoreFiles {
 public:
  enum class Take : uint8_t { kFresh, kKept };  // kKept: what an owner before has left, whole

  struct Wanted {
    std::vector<std::string> bases;  // absolute, of directories that are there; at least one
    std::string name;                // as a tag's; one owner at a time
    std::vector<Bytes> file_bytes;   // of each file, multiples of 4096
    bool in_memory_too = false;      // tmpfs and ramfs are no mistake
    Take take = Take::kFresh;
  };

  // FAILED_PRECONDITION: STORE_IN_USE, its owner lives; MEMORY_FILE_SYSTEM; OTHER_FILES, what is
  // kept is of another shape. NOT_FOUND NO_STORE: nothing is kept. PERMISSION_DENIED, DISK_SPACE
  // and others as OsError. On an error nothing new is left behind.
  static Result<std::unique_ptr<StoreFiles>> Open(const Wanted& wanted);
  // Removes everything, unless it keeps, or the locks were let go of in a forked child.
  ~StoreFiles();

  // The files of buckets, once.
  std::vector<Fd> TakeBuckets() { return std::move(buckets_); }
  // The state file, once: empty when fresh.
  Fd TakeState() { return std::move(state_); }
  // Whether what is there stays when this goes, for a kKept of a later owner; at first not.
  void SetKeeps(bool keeps) { keeps_ = keeps; }
  // In a forked child: lets go of the locks, which the parent's end is to free. Async-signal-safe.
  void AbandonAfterFork();

 private:
  struct Directory {
    Fd base;
    Fd fd;
    Fd lock;
  };

  explicit StoreFiles(std::string name) : name_(std::move(name)) {}
  Result<void> OpenDirectory(const std::string& base, const Wanted& wanted);
  Result<void> Lock(Directory& directory, const std::string& base);
  Result<void> MakeFile(uint32_t number, Bytes bytes);
  Result<void> FindFile(uint32_t number, Bytes bytes);
  void Clear(const Directory& directory);

  const std::string name_;
  std::vector<Directory> directories_;
  std::vector<Fd> buckets_;
  Fd state_;
  bool keeps_ = false;
};

}  // namespace parkade::shim
