// A scratch directory and its stripes as one: what they hold, their shares, and finding them again.
#include <fcntl.h>
#include <unistd.h>

#include <numeric>
#include <utility>

#include "daemon/scratch_directory.h"
#include "daemon/scratch_layout.h"
#include "daemon/words.h"
#include "proto/scratch.h"

namespace parkade::daemon {

ScratchDirectory::Stripes ScratchDirectory::stripes() const {
  const MutexLock lock(mu_);
  return stripes_;
}

void ScratchDirectory::Join(std::shared_ptr<ScratchDirectory> stripe) {
  const MutexLock lock(mu_);
  stripes_.push_back(std::move(stripe));
}

std::vector<int> ScratchDirectory::AllData() const {
  std::vector<int> all{data()};
  for (const auto& stripe : stripes()) all.push_back(stripe->data());
  return all;
}

Bytes ScratchDirectory::AllBytes() const {
  Bytes sum = bytes();
  for (const auto& stripe : stripes()) sum += stripe->bytes();
  return sum;
}

void ScratchDirectory::ShrinkTo(Bytes bytes) {
  const AsUser as_user(user_);
  if (ftruncate(data(), off_t(bytes)) == 0) bytes_ = bytes;
}

absl::Status ScratchDirectory::ReserveAll(Bytes bytes, std::span<const double> weights) {
  std::vector<ScratchDirectory*> all{this};
  const Stripes others = stripes();
  for (const auto& stripe : others) all.push_back(stripe.get());
  std::vector<Bytes> before;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < all.size(); ++i) {
    const Bytes had = all[i]->bytes();
    const Bytes share = all.size() == 1 ? bytes : Bytes(double(bytes) * weights[i] / sum) + 4096;
    const absl::Status reserved = all[i]->Reserve(share);
    if (reserved.ok()) {
      before.push_back(had);
      continue;
    }
    while (i-- > 0) all[i]->ShrinkTo(before[i]);
    return reserved;
  }
  return absl::OkStatus();
}

void ScratchDirectory::FindStripes() {
  for (const std::string& base : std::exchange(stripe_bases_, {})) {
    if (base == base_path_) continue;
    const std::string root_path = Cat(base, "/", wire::kScratchRoot);
    std::vector<std::string> names;
    {
      const AsUser as_user(user_);
      const Fd root = OpenDirectory(AT_FDCWD, root_path.c_str());
      if (root) names = NamesIn(root.get());
    }
    for (const std::string& name : names) {
      if (!IsScratchName(name) || !name.starts_with(Cat("p", owner_.own_pid, "-"))) continue;
      auto stripe = Claimed(Cat(root_path, "/", name), Fd(), owner_, user_);
      // One of another process is not opened.
      if (stripe.ok() && (*stripe)->Open().ok()) Join(std::move(*stripe));
    }
  }
}

}  // namespace parkade::daemon
