// torch_memory_saver's C functions, by which frameworks mark regions, pause and resume. What they
// mean here, where it is not the same, is in docs/frameworks.md.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/log.h"
#include "common/text.h"
#include "shim/agent/own_pauses.h"
#include "shim/agent/settings.h"
#include "shim/heap/saver_settings.h"
#include "shim/heap/tag_name.h"

namespace parkade::shim {
namespace {

constexpr char kPinned[] = "pinned";
constexpr char kMapped[] = "mmap";

void Refuse(const char* function, const char* value, const char* why) {
  Log(LogLevel::kError, "%s(%s) changes nothing: %s", function, value == nullptr ? "NULL" : value,
      why);
}

const char* Environment(const char* name) { return getenv(name); }

// Pause or resume of a tag, null or empty for all.
template <typename Move>
int MoveTag(const char* tag, Move move) {
  if (!SaverSettings::InForce() || IsOff(Environment)) return CUDA_ERROR_NOT_SUPPORTED;
  const std::string_view name = tag == nullptr ? "" : tag;
  if (!name.empty() && !IsTagName(name)) return CUDA_ERROR_INVALID_VALUE;
  OwnPauses* const own = OwnPauses::Live();
  return own == nullptr ? CUDA_SUCCESS : (own->*move)(name);
}

}  // namespace
}  // namespace parkade::shim

using parkade::shim::OwnPauses;
using parkade::shim::SaverSettings;

#pragma GCC visibility push(default)
extern "C" {

void tms_set_interesting_region(bool region) { SaverSettings::Mine().region = region; }
bool tms_get_interesting_region() { return SaverSettings::Mine().region; }

void tms_set_current_tag(const char* tag) {
  if (tag == nullptr || !parkade::shim::IsTagName(tag)) {
    parkade::shim::Refuse("tms_set_current_tag", tag,
                          "a tag is 1 to 31 letters, digits and _ - . : /");
    return;
  }
  parkade::CopyText(SaverSettings::Mine().tag, tag);
}
// Until this thread sets another one.
const char* tms_get_current_tag() { return SaverSettings::Mine().tag; }

void tms_set_enable_cpu_backup(bool enable) { SaverSettings::Mine().cpu_backup = enable; }
bool tms_get_enable_cpu_backup() { return SaverSettings::Mine().cpu_backup; }

void tms_set_cpu_backup_backend(const char* backend) {
  const bool mapped = backend != nullptr && strcmp(backend, parkade::shim::kMapped) == 0;
  if (!mapped && (backend == nullptr || strcmp(backend, parkade::shim::kPinned) != 0)) {
    parkade::shim::Refuse("tms_set_cpu_backup_backend", backend, "pinned and mmap are known");
    return;
  }
  SaverSettings::Mine().pageable = mapped;
}
const char* tms_get_cpu_backup_backend() {
  return SaverSettings::Mine().pageable ? parkade::shim::kMapped : parkade::shim::kPinned;
}

void tms_set_enable_disk_backup(bool enable) { SaverSettings::Mine().disk_backup = enable; }
bool tms_get_enable_disk_backup() { return SaverSettings::Mine().disk_backup; }

void tms_set_disk_backup_dir(const char* directory) {
  if (directory == nullptr || *directory == '\0') {
    parkade::shim::Refuse("tms_set_disk_backup_dir", directory, "a directory is expected");
    return;
  }
  SaverSettings::SetDirectory(directory);
}

void set_memory_margin_bytes(uint64_t bytes) { SaverSettings::SetMargin(bytes); }

void tms_set_retain_cpu_backup(bool retain) { SaverSettings::SetRetains(retain); }
bool tms_get_retain_cpu_backup() { return SaverSettings::retains(); }

int tms_pause(const char* tag) { return parkade::shim::MoveTag(tag, &OwnPauses::Pause); }
int tms_resume(const char* tag) { return parkade::shim::MoveTag(tag, &OwnPauses::Resume); }

// How many devices have memory of the tag; the first `room` of them go to `devices`.
uint32_t tms_affected_devices(const char* tag, int* devices, uint32_t room) {
  OwnPauses* const own = OwnPauses::Live();
  if (own == nullptr) return 0;
  parkade::shim::Wanted wanted;
  if (tag != nullptr && *tag != '\0') wanted.tags.emplace_back(tag);
  const auto found = own->heap().DevicesOfSaved(wanted);
  std::copy_n(found.begin(), std::min<size_t>(room, found.size()), devices);
  return uint32_t(found.size());
}

// Null when there is no backup of all these bytes in host memory.
uint8_t* tms_get_cpu_backup_pointer(const uint8_t* gpu, uint64_t bytes) {
  OwnPauses* const own = OwnPauses::Live();
  if (own == nullptr) return nullptr;
  const char* copy = own->heap().SavedCopy(reinterpret_cast<CUdeviceptr>(gpu), bytes);
  return reinterpret_cast<uint8_t*>(const_cast<char*>(copy));
}
}
#pragma GCC visibility pop
