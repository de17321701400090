// Measures steps of optimizer stores and what they are measured beside; tests/bench/stores.py runs
// it. Each command answers a line of input with a line.
//   store_probe steps DIRECTORY|host MAIN MOMENTS ELEMENTS BUCKETS [phased]   wants the preload
//   store_probe turns FOLDER BYTES             the disk alone, both ways
//   store_probe peer FOLDER ELEMENTS CHUNK     one thing after the other
#include <cuda.h>

#include <cstdlib>
#include <cstring>

#include "tests/bench/measure.h"
#include "tests/bench/store_loops.h"
#include "tests/bench/store_steps.h"

namespace {

void OpenContext() {
  using parkade::bench::Check;
  CUdevice device;
  CUcontext context;
  Check(cuInit(0), "cuInit");
  Check(cuDeviceGet(&device, 0), "cuDeviceGet");
  Check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

uint64_t Number(const char* text) { return strtoull(text, nullptr, 10); }

}  // namespace

int main(int argc, char** argv) {
  using namespace parkade::bench;
  const auto asked = [&](const char* word, int words) {
    return argc == words && strcmp(argv[1], word) == 0;
  };
  const bool phased = argc == 8 && strcmp(argv[7], "phased") == 0;
  if (asked("steps", 7) || (phased && asked("steps", 8))) {
    OpenContext();
    ServeSteps({argv[2], argv[3], argv[4], Number(argv[5]), Number(argv[6]), phased});
  } else if (asked("turns", 4)) {
    ServeDiskTurns(argv[2], Number(argv[3]));
  } else if (asked("peer", 5)) {
    OpenContext();
    ServePeer(argv[2], Number(argv[3]), Number(argv[4]));
  } else {
    fprintf(stderr,
            "usage: store_probe steps DIRECTORY|host MAIN MOMENTS ELEMENTS BUCKETS [phased] | "
            "turns FOLDER BYTES | peer FOLDER ELEMENTS CHUNK\n");
    return 64;
  }
  return 0;
}
