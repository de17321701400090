// Faults from a file, and the counts of calls.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/sim/call_counts.h"
#include "tests/unit/sim/gpu.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

// What the file holds stands from here on; a new file takes the place of the old one at once.
void SetFaults(const std::string& text) {
  const std::string path = getenv("SIM_FAULTS");
  std::ofstream(path + ".new") << text;
  REQUIRE(rename((path + ".new").c_str(), path.c_str()) == 0);
}

uint64_t Calls(const std::string& name) {
  std::ifstream file(getenv("SIM_COUNT_FILE"), std::ios::binary);
  for (CallCount count; file.read(reinterpret_cast<char*>(&count), sizeof count);)
    if (name == count.name) return count.calls;
  return 0;
}

CUresult Fill(const Buffer& buffer) { return cuMemsetD8(buffer.at(), 1, 1); }

}  // namespace

TEST_CASE("the Nth call of a name fails once, whatever its version") {
  const Gpu gpu;
  SetFaults("# a comment\ncuMemAlloc 2 fail 2\n");
  CUdeviceptr first = 0, second = 0;
  REQUIRE(cuMemAlloc(&first, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc(&second, 4096) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(second == 0);
  REQUIRE(cuMemAlloc(&second, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemFree(first) == CUDA_SUCCESS);
  REQUIRE(cuMemFree(second) == CUDA_SUCCESS);
  SetFaults("");
}

TEST_CASE("a line that stands keeps its count when the file is edited") {
  const Gpu gpu;
  const Buffer buffer(4096);
  SetFaults("cuMemsetD8 3 fail 1\n");
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  SetFaults("cuMemsetD8 3 fail 1\ncuMemsetD16 1 fail 800\n");
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  REQUIRE(Fill(buffer) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD16(buffer.at(), 1, 1) == CUDA_ERROR_NOT_PERMITTED);
  SetFaults("");
}

TEST_CASE("a call can say that all went well without having done anything") {
  const Gpu gpu;
  SetFaults("cuMemAlloc 1 fail 0\n");
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, 4096) == CUDA_SUCCESS);
  REQUIRE(at == 0);
  REQUIRE(cuMemAlloc(&at, 4096) == CUDA_SUCCESS);
  REQUIRE(at != 0);
  REQUIRE(cuMemFree(at) == CUDA_SUCCESS);
  SetFaults("");
}

TEST_CASE("a call can be made to wait") {
  const Gpu gpu;
  const Buffer buffer(4096);
  SetFaults("cuMemsetD8 1 wait 60ms\n");
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  REQUIRE(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(60));
  SetFaults("");
}

TEST_CASE("a fault for another process does nothing here, and one for this process can kill it") {
  const Gpu gpu;
  const Buffer buffer(4096);
  SetFaults("cuMemsetD8 1 fail 1 pid=1\n");
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(getenv("SIM_FAULTS")) << "cuMemsetD8 1 kill pid=" << getpid() << "\n";
    Fill(buffer);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == 9);
  SetFaults("");
}

TEST_CASE("calls are counted by name where every process can read it") {
  const Gpu gpu;
  const Buffer buffer(4096);
  const uint64_t fills = Calls("cuMemsetD8");
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  REQUIRE(Fill(buffer) == CUDA_SUCCESS);
  REQUIRE(Calls("cuMemsetD8") == fills + 2);
  REQUIRE(Calls("cuInit") > 0);
  REQUIRE(Calls("cuMemsetD8_v2") == 0);
}
