// Entries: every entry point of libcuda that the shim knows, by name, policy and version.
#pragma once

#include <cstdint>
#include <optional>

#if !defined(__CUDA_API_VERSION_INTERNAL)
#error "names of entries are macros of cuda.h: link shim_entries, which defines them away"
#endif
#include "shim/hooks/entries.gen.h"  // enum Entry, kEntryCount, kToolkitVersion

namespace parkade::shim {

// What a wrapper does; see shim/hooks/policy.txt.
enum class Policy : uint8_t { kForward, kWait, kQuery, kGate, kCopy, kFree, kTrack, kCustom };

const char* NameOf(Entry entry);
Policy PolicyOf(Entry entry);

// The entry that is exported under exactly `name`.
std::optional<Entry> FindEntry(const char* name);

// The names that cuGetProcAddress may mean by `base`, oldest first; `since` is the CUDA version
// that brought the form, `per_thread` whether it uses the thread's own default stream.
struct EntryVersion {
  Entry base;
  Entry entry;
  int since;
  bool per_thread;
};
struct EntryVersions {
  const EntryVersion* first;
  const EntryVersion* last;
  const EntryVersion* begin() const { return first; }
  const EntryVersion* end() const { return last; }
};
EntryVersions VersionsOf(const char* base);

// What the driver hands out for (base, version, per-thread streams): the newest form that is not
// newer than `version`; a name without a per-thread form has one for both. Nothing for a version
// newer than the toolkit that the table was made from: its forms are not known.
std::optional<Entry> FindVersion(const char* base, int version, bool per_thread);

// Names of libcuda that belong to OpenGL, EGL or VDPAU: registering a graphics object submits
// nothing, and is no gap in the hooks.
bool IsGraphicsName(const char* name);

// Writes the address of the shim's wrapper of every entry to out[0..kEntryCount).
void FillWrapperAddresses(const void** out);

// The generated tables behind the functions above.
extern const char kEntryNames[];  // NUL-separated, sorted
extern const uint16_t kEntryNameOffsets[kEntryCount];
extern const Policy kEntryPolicies[kEntryCount];
extern const EntryVersion kEntryVersions[];  // sorted by base
extern const int kEntryVersionCount;
extern const char kGraphicsNames[];  // NUL-separated, ended by an empty one

}  // namespace parkade::shim
