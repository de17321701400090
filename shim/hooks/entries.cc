// Searches the generated tables of entry points.
#include "shim/hooks/entries.h"

#include <algorithm>
#include <cstring>

namespace parkade::shim {

const char* NameOf(Entry entry) { return kEntryNames + kEntryNameOffsets[int(entry)]; }

Policy PolicyOf(Entry entry) { return kEntryPolicies[int(entry)]; }

std::optional<Entry> FindEntry(const char* name) {
  // Nearly every look-up of a process is for something else.
  if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') return {};
  int low = 0;
  int high = kEntryCount;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int order = strcmp(name, NameOf(Entry(middle)));
    if (order == 0) return Entry(middle);
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {};
}

EntryVersions VersionsOf(const char* base) {
  const EntryVersion* end = kEntryVersions + kEntryVersionCount;
  const auto entry = FindEntry(base);
  if (!entry) return {end, end};
  const auto less = [](const EntryVersion& a, const EntryVersion& b) { return a.base < b.base; };
  const auto range = std::equal_range(kEntryVersions, end, EntryVersion{*entry, {}, 0, {}}, less);
  return {range.first, range.second};
}

std::optional<Entry> FindVersion(const char* base, int version, bool per_thread) {
  if (version > kToolkitVersion) return {};
  std::optional<Entry> shared;
  std::optional<Entry> threads_own;
  for (const EntryVersion& form : VersionsOf(base)) {
    if (form.since <= version) (form.per_thread ? threads_own : shared) = form.entry;
  }
  return per_thread && threads_own ? threads_own : shared;
}

bool IsGraphicsName(const char* name) {
  for (const char* known = kGraphicsNames; *known != '\0'; known += strlen(known) + 1) {
    if (strcmp(known, name) == 0) return true;
  }
  return false;
}

}  // namespace parkade::shim
