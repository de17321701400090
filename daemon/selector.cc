// Compares a process with a selector.
#include "daemon/selector.h"

#include <algorithm>
#include <cstdio>

namespace parkade::daemon {
namespace {

template <typename T>
bool Holds(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool UsesGpu(const ProcessView& process, const std::vector<std::string>& uuids) {
  if (!process.ledger) return false;
  return std::any_of(std::begin(process.ledger->devices), std::end(process.ledger->devices),
                     [&](const wire::LedgerDevice& device) {
                       return device.used != 0 && Holds(uuids, GpuUuid(device.uuid));
                     });
}

}  // namespace

bool Matches(const Selector& s, const ProcessView& p) {
  const Introduction& in = p.introduction;
  if (!s.pids.empty() && !Holds(s.pids, p.identity.pid)) return false;
  if (!s.job.empty() && s.job != in.job) return false;
  if (!s.role.empty() && s.role != in.role) return false;
  if (!s.cell.empty() && s.cell != in.cell) return false;
  if (!s.ranks.empty() && (!in.rank || !Holds(s.ranks, *in.rank))) return false;
  if (!s.gpu_uuids.empty() && !UsesGpu(p, s.gpu_uuids)) return false;
  return std::all_of(s.also.begin(), s.also.end(),
                     [&](const Selector& other) { return Matches(other, p); });
}

std::string GpuUuid(const unsigned char (&uuid)[16]) {
  char text[48];
  int n = snprintf(text, sizeof text, "GPU-");
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    n += snprintf(text + n, sizeof text - size_t(n), dash ? "-%02x" : "%02x", uuid[i]);
  }
  return text;
}

}  // namespace parkade::daemon
