// TestDir: a directory of one test's own, gone with it.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace parkade::testing {

// On the disk of the working directory (ctest's is the build folder): scratch must not be tmpfs.
class TestDir {
 public:
  TestDir() {
    std::string pattern = std::filesystem::current_path() / "t-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TestDir() { std::filesystem::remove_all(path_); }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Makes a directory in it.
  std::string Make(const std::string& name, mode_t mode = 0755) const {
    const std::string made = *this / name;
    std::filesystem::create_directory(made);
    std::filesystem::permissions(made, std::filesystem::perms(mode));
    return made;
  }

 private:
  std::string path_;
};

// Names in a directory; empty also when there is none.
inline size_t Entries(const std::string& dir) {
  if (!std::filesystem::exists(dir)) return 0;
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++n;
  return n;
}

}  // namespace parkade::testing
