// TieFile: the tie map of a lo16 bucket between its file and memory. It is small, so it is read and
// written by the lane's own calls, without an engine.
#pragma once

#include <memory>
#include <span>

#include "common/store/ties.h"
#include "shim/stream/stream_tools.h"

namespace parkade::shim {

// One thread.
class TieFile {
 public:
  // Memory for the largest bucket's bits, pinned, and as much for their packed form. Errors as
  // HostPool::Take.
  static Result<std::unique_ptr<TieFile>> Make(StreamTools& tools);
  ~TieFile();

  // The bits of the bucket read or to be written.
  char* bits() const { return bits_.memory(); }
  // Reads the map with `count` bits set of a bucket in file `file`. DATA_LOSS when it is damaged.
  Result<void> Read(uint32_t bucket, uint32_t file, uint32_t count);
  // Writes it, and says how many bits are set.
  Result<uint32_t> Write(uint32_t bucket, uint32_t file);

 private:
  explicit TieFile(StreamTools& tools) : tools_(tools) {}

  StreamTools& tools_;
  HostBlock bits_;
  char* packed_ = nullptr;  // not pinned: the kernel must be able to touch it
  Bytes bytes_ = 0;
};

}  // namespace parkade::shim
