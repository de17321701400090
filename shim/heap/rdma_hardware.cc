// Looks for what registers GPU memory.
#include "shim/heap/rdma_hardware.h"

#include <dirent.h>
#include <unistd.h>

namespace parkade::shim {
namespace {

bool HasVisibleEntry(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(dir)) found = found || entry->d_name[0] != '.';
  closedir(dir);
  return found;
}

}  // namespace

bool HasRdmaHardware(const std::string& root) {
  return HasVisibleEntry(root + "/sys/class/infiniband") ||
         access((root + "/dev/gdrdrv").c_str(), F_OK) == 0 ||
         access((root + "/proc/driver/nvidia-fs").c_str(), F_OK) == 0;
}

}  // namespace parkade::shim
