// FileSpace: hands out the preallocated space of a list of files, so that all are used up at the
// same time: a file gets a share of the blocks as large as its share of the space, which is its
// directory's weight.
#pragma once

#include <deque>
#include <vector>

#include "common/io/direct_files.h"
#include "common/mutex.h"
#include "shim/heap/range.h"

namespace parkade::shim {

class FileSpace {
 public:
  using Part = FilePart;

  // At most `limit` bytes in all, `taken` included: parts that hold bytes already, none of which
  // overlaps another or a file's end.
  FileSpace(const DirectFiles& files, Bytes limit, std::vector<Part> taken = {});

  // `want` bytes or, before a taken part or a file's end, fewer; multiples of 4096.
  // RESOURCE_EXHAUSTED DISK_SPACE when nothing is left. Any thread.
  Result<Part> Take(Bytes want);

 private:
  struct Run {
    uint64_t offset;
    Bytes bytes;
  };
  Mutex mu_;                                           // innermost
  std::vector<std::deque<Run>> free_ GUARDED_BY(mu_);  // by file and offset
  std::vector<Bytes> capacity_;                        // of each file
  std::vector<Bytes> used_ GUARDED_BY(mu_);            // taken at the beginning, or since
  Bytes left_ GUARDED_BY(mu_) = 0;
};

}  // namespace parkade::shim
