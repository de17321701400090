// Takes space from the file that is used least of its own size.
#include "shim/pause/file_space.h"

#include <algorithm>

namespace parkade::shim {

FileSpace::FileSpace(const DirectFiles& files, Bytes limit, std::vector<Part> taken)
    : free_(files.size()), used_(files.size(), 0) {
  left_ = std::min(files.writable(), limit / kDirectAlign * kDirectAlign);
  std::sort(taken.begin(), taken.end(), [](const Part& a, const Part& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  auto part = taken.begin();
  for (uint32_t file = 0; file < files.size(); ++file) {
    capacity_.push_back(files.writable(file));
    uint64_t at = 0;
    for (; part != taken.end() && part->file == file; ++part) {
      if (part->offset > at) free_[file].push_back({at, part->offset - at});
      at = part->offset + part->bytes;
      used_[file] += part->bytes;
      left_ -= std::min(left_, part->bytes);
    }
    if (capacity_[file] > at) free_[file].push_back({at, capacity_[file] - at});
  }
}

Result<FileSpace::Part> FileSpace::Take(Bytes want) {
  MutexLock lock(mu_);
  size_t file = free_.size();
  double least_used = 0;
  for (size_t i = 0; i < free_.size(); ++i) {
    if (free_[i].empty()) continue;
    const double used = double(used_[i]) / double(capacity_[i]);
    if (file == free_.size() || used < least_used) {
      file = i;
      least_used = used;
    }
  }
  if (file == free_.size() || left_ == 0) {
    return MakeError(Code::kResourceExhausted, "DISK_SPACE",
                     "the space preallocated for this pause is used up");
  }
  Run& run = free_[file].front();
  const Part part{uint32_t(file), run.offset, std::min({want, left_, run.bytes})};
  run.offset += part.bytes;
  run.bytes -= part.bytes;
  if (run.bytes == 0) free_[file].pop_front();
  used_[file] += part.bytes;
  left_ -= part.bytes;
  return part;
}

}  // namespace parkade::shim
