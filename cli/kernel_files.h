// KernelFiles: where the kernel's files are, and how the small ones are read.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace parkade::cli {

// Tests give trees of their own.
struct KernelFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
};

// The whole file; empty when it cannot be read.
inline std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

}  // namespace parkade::cli
