// Takes space from the file that is used least of its own size.
#include "shim/pause/file_space.h"

#include <algorithm>

namespace parkade::shim {

FileSpace::FileSpace(const DirectFiles& files, Bytes limit) : used_(files.size(), 0) {
  for (size_t i = 0; i < files.size(); ++i) capacity_.push_back(files.writable(i));
  left_ = std::min(files.writable(), limit / kDirectAlign * kDirectAlign);
}

Result<FileSpace::Part> FileSpace::Take(Bytes want) {
  MutexLock lock(mu_);
  const auto used_part = [this](size_t file) REQUIRES(mu_) {
    return capacity_[file] == 0 ? 1.0 : double(used_[file]) / double(capacity_[file]);
  };
  size_t file = 0;
  for (size_t i = 1; i < capacity_.size(); ++i) {
    if (used_part(i) < used_part(file)) file = i;
  }
  const Bytes bytes = std::min({want, left_, capacity_[file] - used_[file]});
  if (bytes == 0) {
    return MakeError(Code::kResourceExhausted, "DISK_SPACE",
                     "the space preallocated for this pause is used up");
  }
  const Part part{uint32_t(file), used_[file], bytes};
  used_[file] += bytes;
  left_ -= bytes;
  return part;
}

}  // namespace parkade::shim
