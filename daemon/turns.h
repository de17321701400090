// Turns: in which order those who lack GPU memory get it from others, and how long who has come in
// keeps it. Knows no process and no clock but the times that it is given; its owner locks.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/gpu_queue.h"

namespace parkade::daemon {

class Turns {
 public:
  explicit Turns(uint64_t quantum_ns) : quantum_ns_(quantum_ns) {}

  // Who asks now, each by its key. Those who did before keep their places; others come last.
  void SetAsking(const std::set<std::string>& keys);
  // First come, first served. Those put off are among them.
  const std::list<std::string>& order() const { return order_; }
  // It goes to the end, and has to wait until then; 0: it has not.
  void PutOff(const std::string& key, uint64_t until_ns);
  uint64_t put_off_until_ns(const std::string& key) const;

  // It has come in, or room was made for it, by a turn that took `cost_ns`.
  void CameIn(const std::string& key, uint64_t now_ns, uint64_t cost_ns);
  // It has its memory since `since_ns` and has come in by no turn later than that: until when it
  // keeps it. At least the quantum; as long as its turn took, where that is more, so that half the
  // time at most goes to moving.
  uint64_t KeepsUntil(const std::string& key, uint64_t since_ns) const;
  // Forgets the turns of others than these.
  void Keep(const std::set<std::string>& keys);

  // One that has memory, and may be paused for others.
  struct Holder {
    std::string key;
    ByGpu holds;
    uint64_t keeps_until_ns = 0;
  };
  struct Choice {
    enum class What { kGo, kWait, kNever } what;
    std::vector<std::string> leave = {};  // who is paused for it; nobody: there is room
    uint64_t until_ns = 0;                // when to look again; of kWait
  };
  // What can be done now for one who needs so much beside what it has. Those who have kept their
  // memory longest leave first, and nobody who need not.
  static Choice Choose(const ByGpu& needs, const ByGpu& free, std::vector<Holder> holders,
                       uint64_t now_ns);

 private:
  struct Turn {
    uint64_t since_ns;
    uint64_t cost_ns;
  };

  const uint64_t quantum_ns_;
  std::list<std::string> order_;
  std::map<std::string, uint64_t> put_off_;
  std::map<std::string, Turn> last_;
};

}  // namespace parkade::daemon
