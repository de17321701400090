// FileSpace: hands out the preallocated space of a list of files, so that all are used up at the
// same time: a file gets a share of the blocks as large as its share of the space, which is its
// directory's weight.
#pragma once

#include <vector>

#include "common/io/direct_files.h"
#include "common/mutex.h"

namespace parkade::shim {

class FileSpace {
 public:
  struct Part {
    uint32_t file;
    uint64_t offset;
    Bytes bytes;
  };

  // At most `limit` bytes in all.
  FileSpace(const DirectFiles& files, Bytes limit);

  // `want` bytes or, at a file's end, fewer; multiples of 4096. RESOURCE_EXHAUSTED DISK_SPACE when
  // nothing is left. Any thread.
  Result<Part> Take(Bytes want);

 private:
  Mutex mu_;  // innermost
  std::vector<Bytes> capacity_;
  std::vector<uint64_t> used_ GUARDED_BY(mu_);
  Bytes left_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
