// A preloaded program on a machine without CUDA, where the driver may still arrive late.
#include <dlfcn.h>
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "tests/unit/emulated.h"
#include "tests/unit/shim/hooks/file_of.h"

namespace {

struct Ended {
  int status;
  std::string output;
};

Ended Shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 256> piece;
  while (size_t got = fread(piece.data(), 1, piece.size(), pipe)) output.append(piece.data(), got);
  return {pclose(pipe), output};
}

}  // namespace

TEST_CASE("a program without CUDA runs as before, and prints nothing of ours") {
  if (EmulatorLacks("a shell of its own machine")) return;
  for (const char* command : {"/bin/true", "PARKADE=off /bin/true", "/bin/sh -c 'exit 0'"}) {
    const Ended ended = Shell(command);
    CHECK(ended.status == 0);
    CHECK(ended.output.empty());
  }
}

TEST_CASE("the shim starts no thread and keeps no descriptor in a program without CUDA") {
  if (EmulatorLacks("a shell of its own machine")) return;
  const std::string look = "grep Threads /proc/self/status; ls /proc/self/fd | wc -l";
  const std::string with_shim = Shell(look).output;
  CHECK(with_shim == Shell("unset LD_PRELOAD; " + look).output);
  CHECK(with_shim.starts_with("Threads:\t1\n"));
}

TEST_CASE("without libcuda the driver is not found, until it is loaded") {
  REQUIRE(dlopen("libcuda.so.1", RTLD_LAZY) == nullptr);
  CHECK(std::string(dlerror()).find("libcuda.so.1") != std::string::npos);
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == nullptr);
  const char* words = dlerror();
  REQUIRE(words != nullptr);
  CHECK(std::string(words).find("undefined symbol: cuInit") != std::string::npos);
  CHECK(dlsym(RTLD_NEXT, "cuInit") == nullptr);

  void* driver = dlopen(PARKADE_FAKE_LIBCUDA, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(driver != nullptr);
  CHECK(FileOf(dlsym(driver, "cuInit")) == "libparkade.so");
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == dlsym(driver, "cuInit"));
  auto* init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  CHECK(init(0) == 0);
}
