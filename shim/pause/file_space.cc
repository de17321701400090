// Takes space from the files round robin.
#include "shim/pause/file_space.h"

#include <algorithm>

namespace parkade::shim {

FileSpace::FileSpace(const DirectFiles& files, Bytes limit) : used_(files.size(), 0) {
  for (size_t i = 0; i < files.size(); ++i) capacity_.push_back(files.writable(i));
  left_ = std::min(files.writable(), limit / kDirectAlign * kDirectAlign);
}

Result<FileSpace::Part> FileSpace::Take(Bytes want) {
  MutexLock lock(mu_);
  want = std::min(want, left_);
  for (size_t tried = 0; want != 0 && tried < capacity_.size(); ++tried) {
    const size_t file = turn_;
    turn_ = (turn_ + 1) % capacity_.size();
    const Bytes bytes = std::min(want, capacity_[file] - used_[file]);
    if (bytes == 0) continue;
    const Part part{uint32_t(file), used_[file], bytes};
    used_[file] += bytes;
    left_ -= bytes;
    return part;
  }
  return MakeError(Code::kResourceExhausted, "DISK_SPACE",
                   "the space preallocated for this pause is used up");
}

}  // namespace parkade::shim
