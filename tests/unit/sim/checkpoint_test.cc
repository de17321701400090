// The driver's checkpoint of another process: its states, its codes, and what becomes of its
// memory.
#include <cstdlib>
#include <string>

#include "tests/unit/sim/gpu.h"
#include "tests/unit/sim/peer.h"

using namespace parkade;
using namespace parkade::sim;

namespace {

constexpr int kShortMs = 100;

CUprocessState StateOf(const Peer& peer) {
  CUprocessState state{};
  REQUIRE(cuCheckpointProcessGetState(peer.pid(), &state) == CUDA_SUCCESS);
  return state;
}

CUresult Lock(const Peer& peer, unsigned timeout_ms = 1000) {
  CUcheckpointLockArgs args{};
  args.timeoutMs = timeout_ms;
  return cuCheckpointProcessLock(peer.pid(), &args);
}

}  // namespace

TEST_CASE("from lock to unlock the calls of the process wait, and its memory comes and goes") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  Peer peer;
  REQUIRE(peer.Do("alloc " + std::to_string(32_MiB)) == CUDA_SUCCESS);
  const Bytes with_peer = gpu.Free();
  REQUIRE(before - with_peer == 48_MiB);  // its context too

  REQUIRE(Lock(peer) == CUDA_SUCCESS);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_LOCKED);
  peer.Say("free");
  CHECK_FALSE(peer.HasAnswered(kShortMs));
  CHECK(gpu.Free() == with_peer);
  REQUIRE(cuCheckpointProcessCheckpoint(peer.pid(), nullptr) == CUDA_SUCCESS);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_CHECKPOINTED);
  CHECK(gpu.Free() == before);
  REQUIRE(cuCheckpointProcessRestore(peer.pid(), nullptr) == CUDA_SUCCESS);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_LOCKED);
  CHECK(gpu.Free() == with_peer);
  CHECK_FALSE(peer.HasAnswered(kShortMs));
  REQUIRE(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_SUCCESS);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_RUNNING);
  CHECK(peer.Answer() == CUDA_SUCCESS);
  CHECK(before - gpu.Free() == 16_MiB);
}

TEST_CASE("a call in the wrong state changes nothing") {
  const Gpu gpu;
  Peer peer;
  CHECK(cuCheckpointProcessCheckpoint(peer.pid(), nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessRestore(peer.pid(), nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_RUNNING);
  REQUIRE(Lock(peer) == CUDA_SUCCESS);
  CHECK(Lock(peer) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessRestore(peer.pid(), nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_LOCKED);
  REQUIRE(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_SUCCESS);
  CHECK(peer.Do("alloc 4096") == CUDA_SUCCESS);
}

TEST_CASE("a lock waits for calls that are inside, and gives up at its time-out") {
  const Gpu gpu;
  Peer peer;
  peer.Say("spin 500");
  REQUIRE_FALSE(peer.HasAnswered(kShortMs));
  CHECK(Lock(peer, 10) == CUDA_ERROR_NOT_READY);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_RUNNING);
  CHECK(Lock(peer, 10'000) == CUDA_SUCCESS);
  CHECK(peer.HasAnswered(10'000));
  REQUIRE(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a restore without room answers so, and works when there is some") {
  const Gpu gpu;
  Peer peer;
  REQUIRE(Lock(peer) == CUDA_SUCCESS);
  REQUIRE(cuCheckpointProcessCheckpoint(peer.pid(), nullptr) == CUDA_SUCCESS);
  {
    const Buffer all(gpu.Free());
    CHECK(cuCheckpointProcessRestore(peer.pid(), nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(StateOf(peer) == CU_PROCESS_STATE_CHECKPOINTED);
  }
  REQUIRE(cuCheckpointProcessRestore(peer.pid(), nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_SUCCESS);
  CHECK(peer.Do("alloc 4096") == CUDA_SUCCESS);
}

TEST_CASE("memory that others can open is refused") {
  const Gpu gpu;
  Peer peer;
  REQUIRE(peer.Do("export 8388608") == CUDA_SUCCESS);
  REQUIRE(Lock(peer) == CUDA_SUCCESS);
  CHECK(cuCheckpointProcessCheckpoint(peer.pid(), nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(StateOf(peer) == CU_PROCESS_STATE_LOCKED);
  REQUIRE(cuCheckpointProcessUnlock(peer.pid(), nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a process that ends while it is checkpointed leaves nothing behind") {
  const Gpu gpu;
  const Bytes before = gpu.Free();
  int pid;
  {
    Peer peer;
    pid = peer.pid();
    REQUIRE(Lock(peer) == CUDA_SUCCESS);
    REQUIRE(cuCheckpointProcessCheckpoint(pid, nullptr) == CUDA_SUCCESS);
    peer.Kill();
    CHECK(cuCheckpointProcessRestore(pid, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(gpu.Free() == before);
  // The next one in its place is as new.
  Peer next;
  CHECK(StateOf(next) == CU_PROCESS_STATE_RUNNING);
  CHECK(next.Do("alloc 4096") == CUDA_SUCCESS);
}

TEST_CASE("nobody's pid, and no room for the answer, are invalid values") {
  const Gpu gpu;
  Peer peer;
  CUprocessState state{};
  int tid = 0;
  CHECK(cuCheckpointProcessGetState(1, &state) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCheckpointProcessGetState(peer.pid(), nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCheckpointProcessGetRestoreThreadId(peer.pid(), nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCheckpointProcessGetRestoreThreadId(peer.pid(), &tid) == CUDA_SUCCESS);
  CHECK(tid == peer.pid());
}
