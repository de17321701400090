// Finds scratch directories whose process is provably dead, says of each why it stays or goes, and
// removes those that go.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "daemon/identity.h"
#include "daemon/scratch_base.h"
#include "proto/scratch.h"

namespace parkade::daemon {

// What is done with directories, and which of them are looked at.
struct Sweep {
  enum class Mode { kRemove, kLook };
  Mode mode = Mode::kRemove;
  std::function<bool(uid_t)> concerns = {};  // by their user; empty: all
  std::function<Life(const wire::OwnerRecord&)> life = LifeOf;
};

// One directory that looks like scratch of some version of Parkade.
struct SweptDirectory {
  std::string path;
  int32_t pid = 0;  // of the owner in its own namespace; 0: unknown
  uid_t uid = 0;
  Bytes bytes = 0;    // allocated on disk
  bool dead = false;  // removed, or to be removed under kLook
  std::string reason;
};

// Goes through the layouts of every version in each of `bases`, once where two names lead to one
// directory. Dead is a directory whose lock is free and whose owner does not exist: another boot of
// this machine (which a network file system cannot tell from another machine), or no such process
// in a pid namespace that can be seen from here; and one that was never finished, which nobody is
// making. Everything else stays: what another user's record is in, what holds a file that is no
// scratch. Follows no link beneath the directory that `rules` allow. A base that is there and
// cannot be opened is an entry too, which concerns root. Blocks on slow file systems.
std::vector<SweptDirectory> SweepBases(const ScratchRules& rules,
                                       const std::vector<std::string>& bases, const Sweep& sweep);

// The bases that a sweep looks at: those configured, the parkade_<uid> beneath them, those of the
// last resort, and those `remembered`. Blocks as SweepBases.
std::vector<std::string> BasesToSweep(const std::vector<std::string>& configured,
                                      const std::vector<std::string>& remembered);

}  // namespace parkade::daemon
