// One account over all processes: a second process allocates, imports, and is killed.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/fd.h"
#include "tests/unit/emulated.h"
#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/peer.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

std::string Hex(const CUipcMemHandle& token) {
  std::string text;
  for (const char c : token.reserved) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", unsigned(uint8_t(c)));
    text += digits;
  }
  return text;
}

// A mapped handle of 8 MiB whose first word is 41, and a descriptor of it.
struct Exported {
  explicit Exported(const Gpu& gpu) {
    const auto prop = gpu.Exportable();
    const auto access = gpu.ReadWrite();
    int number = -1;
    REQUIRE(cuMemAddressReserve(&at, 8_MiB, 0, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemCreate(&handle, 8_MiB, &prop, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(at, 8_MiB, 0, handle, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemSetAccess(at, 8_MiB, &access, 1) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32(at, 41, 1) == CUDA_SUCCESS);
    REQUIRE(cuMemExportToShareableHandle(&number, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0) == CUDA_SUCCESS);
    fd.Reset(number);
  }
  std::string ImportLine() const {
    return "import " + std::to_string(getpid()) + " " + std::to_string(fd.get()) + " " +
           std::to_string(8_MiB);
  }
  void Release() {
    fd.Reset();
    REQUIRE(cuMemUnmap(at, 8_MiB) == CUDA_SUCCESS);
    REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  }
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  Fd fd;
};

}  // namespace

TEST_CASE("memory of another process counts here until it is freed or the process is killed") {
  if (EmulatorLacks("starting programs of its own machine")) return;
  const Gpu gpu;
  const Bytes before = gpu.Free();
  Peer peer;
  REQUIRE(gpu.Free() == before - 16_MiB);
  REQUIRE(peer.Do("alloc 67108864") == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 80_MiB);
  REQUIRE(peer.Do("free") == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 16_MiB);
  REQUIRE(peer.Do("alloc 67108864") == CUDA_SUCCESS);
  CUdeviceptr at = 0;
  REQUIRE(cuMemAlloc(&at, before - 64_MiB) == CUDA_ERROR_OUT_OF_MEMORY);
  peer.Kill();
  REQUIRE(gpu.Free() == before);
}

TEST_CASE("memory that another process maps stays allocated until it lets go") {
  if (EmulatorLacks("starting programs of its own machine")) return;
  const Gpu gpu;
  const bool killed = GENERATE(false, true);
  const Bytes before = gpu.Free() - 16_MiB;
  Peer peer;
  Exported exported(gpu);
  REQUIRE(gpu.Free() == before - 8_MiB);
  REQUIRE(peer.Do(exported.ImportLine()) == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before - 8_MiB);
  REQUIRE(peer.Do("add") == CUDA_SUCCESS);
  REQUIRE(ReadWords(exported.at, 1)[0] == 42);
  exported.Release();
  REQUIRE(gpu.Free() == before - 8_MiB);
  REQUIRE(peer.Do("add") == CUDA_SUCCESS);
  if (killed) {
    peer.Kill();
    REQUIRE(gpu.Free() == before + 16_MiB);
  } else {
    REQUIRE(peer.Do("drop") == CUDA_SUCCESS);
    REQUIRE(gpu.Free() == before);
  }
}

TEST_CASE("legacy IPC shares native memory, and refuses memory of cuMemCreate") {
  if (EmulatorLacks("starting programs of its own machine")) return;
  const Gpu gpu;
  Peer peer;
  const Bytes before = gpu.Free();
  CUipcMemHandle token;
  {
    const Buffer buffer(4_MiB);
    REQUIRE(cuMemsetD32(buffer.at(), 41, 1) == CUDA_SUCCESS);
    REQUIRE(cuIpcGetMemHandle(&token, buffer.at()) == CUDA_SUCCESS);
    REQUIRE(peer.Do("open " + Hex(token)) == CUDA_SUCCESS);
    REQUIRE(peer.Do("add") == CUDA_SUCCESS);
    REQUIRE(ReadWords(buffer.at(), 1)[0] == 42);
    REQUIRE(gpu.Free() == before - 4_MiB);
  }
  REQUIRE(gpu.Free() == before - 4_MiB);
  REQUIRE(peer.Do("close") == CUDA_SUCCESS);
  REQUIRE(gpu.Free() == before);
  Exported exported(gpu);
  REQUIRE(cuIpcGetMemHandle(&token, exported.at) == CUDA_ERROR_INVALID_VALUE);
  exported.Release();
}

TEST_CASE("a forked child has no driver, and its end takes nothing from the parent") {
  const Gpu gpu;
  const Buffer buffer(4_MiB);
  const Bytes before = gpu.Free();
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr at = 0;
    const bool refused = cuMemAlloc(&at, 4096) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(gpu.Free() == before);
}
