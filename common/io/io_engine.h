// IoEngine: asynchronous reads and writes of whole requests, over io_uring or a pool of threads.
//
// It hides short transfers, interruptions and the kernel's limit of 2 GiB a call: a request is
// complete when all of its bytes have moved or an error stands. It opens no file, chooses no
// offsets and knows nothing about O_DIRECT (direct_files.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/bytes.h"
#include "common/deadline.h"
#include "common/result.h"

namespace parkade {

struct IoRequest {
  enum class Kind : uint8_t { kRead, kWrite };
  Kind kind;
  uint32_t file;  // index in the list given to UseFiles
  uint64_t offset;
  void* memory;             // belongs to the engine until the completion
  Bytes bytes;              // any length, 0 included
  uint64_t tag;             // comes back in the completion
  int32_t registered = -1;  // index in the list given to UseMemory that `memory` lies in, or none
};

// Why a request failed: an OsError, or DATA_LOSS BACKUP_MISSING when a file ends too early.
struct IoCompletion {
  uint64_t tag;
  Result<void> result;
};

// One thread at a time, always the same one between a Submit and its completion: io_uring cancels
// what a thread submitted when that thread ends.
class IoEngine {
 public:
  // Requests in flight must have completed, or their memory must stay valid for good.
  virtual ~IoEngine() = default;

  // Replaces the files that requests name. Nothing may be in flight; the descriptors stay the
  // caller's and open.
  virtual void UseFiles(std::span<const int> files) = 0;

  // Registers the memory that requests may then name, so that the kernel need not look up its pages
  // for each. False, and no harm: it cannot be had here (io_uring alone has it, and a limit on
  // locked memory may refuse). Once; the memory stays for as long as the engine.
  virtual bool UseMemory(std::span<const std::span<char>> blocks) = 0;

  // Takes the request; at most depth() may be in flight (else INTERNAL IO_DEPTH).
  virtual Result<void> Submit(const IoRequest& request) = 0;

  // The next completion, in any order. Blocks until `by`: DEADLINE_EXCEEDED then, also when nothing
  // is in flight. Any other error says that the engine itself is broken.
  virtual Result<IoCompletion> WaitAny(Deadline by) = 0;

  // For a disk that hangs: begins nothing any more. What has begun ends when the kernel ends it;
  // the engine is then never destroyed, and the files may be closed.
  virtual void Abandon() = 0;

  virtual uint32_t in_flight() const = 0;
  virtual uint32_t depth() const = 0;
};

// How an engine gets its threads: the shim looks pthread_create up at run time, the daemon links
// it.
class ThreadStarter {
 public:
  // Joins.
  virtual ~ThreadStarter() = default;
  // Runs run(arg) on a new thread called `name`.
  virtual Result<void> Start(const char* name, void (*run)(void*), void* arg) = 0;
  // Waits until all have ended.
  virtual void JoinAll() = 0;
};

struct IoEngineChoice {
  std::unique_ptr<IoEngine> engine;    // never null
  std::optional<Error> uring_refusal;  // why it is not io_uring, to be said once
};

// io_uring where the kernel lets this process use it (tried with a round trip, since seccomp may
// refuse any of its calls), else a pool of threads. With no threads to be had either, requests are
// served inside WaitAny.
IoEngineChoice MakeIoEngine(uint32_t depth, std::unique_ptr<ThreadStarter> threads);

}  // namespace parkade
