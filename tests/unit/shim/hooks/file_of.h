// FileOf: which loaded file a function belongs to.
#pragma once

#include <dlfcn.h>

#include <string>

// The name, without folders, of the file that holds `address`; empty for null.
inline std::string FileOf(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return "";
  const std::string path(info.dli_fname);
  return path.substr(path.rfind('/') + 1);
}

template <typename F>
std::string FileOf(F* function) {
  return FileOf(reinterpret_cast<const void*>(function));
}
