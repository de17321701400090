// Asks the loader, and looks through LD_PRELOAD.
#include "shim/libc/own_name.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

bool Has(const char* path, std::string_view part) {
  return FileName(path).find(part) != std::string_view::npos;
}

// statx: stat became a symbol of its own in glibc 2.33, which is too new for the shim.
bool IsSameFile(const char* a, const char* b) {
  struct statx one = {}, other = {};
  return statx(AT_FDCWD, a, 0, STATX_INO, &one) == 0 &&
         statx(AT_FDCWD, b, 0, STATX_INO, &other) == 0 && one.stx_ino == other.stx_ino &&
         one.stx_dev_major == other.stx_dev_major && one.stx_dev_minor == other.stx_dev_minor;
}

}  // namespace

bool IsLoadedAs(std::string_view part) {
  const auto own = LoadedObject::ByAddress(reinterpret_cast<const void*>(&IsLoadedAs));
  if (!own) return false;
  if (Has(own->path(), part)) return true;
  // The loader keeps the first name of a file that is preloaded under several.
  const char* preload = getenv("LD_PRELOAD");
  std::string_view left = preload == nullptr ? "" : preload;
  while (!left.empty()) {
    const size_t end = std::min(left.find_first_of(": "), left.size());
    const std::string entry(left.substr(0, end));
    if (Has(entry.c_str(), part) && IsSameFile(entry.c_str(), own->path())) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

}  // namespace parkade::shim
