// collective: one rank of a job whose kernels wait for those of other ranks. Knows nothing of
// Parkade, and needs the simulated GPU: its collectives are host functions (kernels.h).
//
// Reads from standard input, on a thread of its own:
//   stop         the job ends after this round, if any rank is told so
//   hold kernel  this rank launches a kernel that does not end; answers "held"
//   hold host    this rank launches nothing more, in the middle of a step; answers "held"
//   release      ends either
// Prints a line for each round, with a digest that must be the same in every run of the same seed.
#include <getopt.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/apps/collective/gpu.h"
#include "tests/apps/collective/kernels.h"
#include "tests/apps/collective/rank.h"

namespace {

std::atomic<bool> stop{false};
std::atomic<bool> host_released{true};
std::atomic<Wish> wish{Wish::kNone};

void ReadInput() {
  char line[64];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    if (strcmp(line, "stop\n") == 0) stop = true;
    if (strcmp(line, "hold kernel\n") == 0) wish = Wish::kHoldKernel;
    if (strcmp(line, "hold host\n") == 0) {
      host_released = false;
      wish = Wish::kHoldHost;
    }
    if (strcmp(line, "release\n") == 0) {
      Release();
      host_released = true;
      host_released.notify_all();
    }
  }
}

// A data loader: fills memory of its own over and over, by calls that wait in the driver.
void Load() {
  UseGpu();
  uint8_t wanted[5000], found[sizeof wanted];
  for (uint8_t value = 0; !stop; ++value) {
    memset(wanted, value, sizeof wanted);
    const CUdeviceptr at = Allocate(sizeof wanted);
    Must(cuMemcpyHtoD(at, wanted, sizeof wanted), "cuMemcpyHtoD");
    Must(cuMemcpyDtoH(found, at, sizeof found), "cuMemcpyDtoH");
    Must(cuMemFree(at), "cuMemFree");
    if (memcmp(wanted, found, sizeof found) != 0) {
      fprintf(stderr, "collective: the loader found other bytes than it had written\n");
      _Exit(1);
    }
  }
}

bool ReadOptions(int argc, char** argv, RankOptions* options, uint64_t* rounds) {
  static const option kLong[] = {{"board", required_argument, nullptr, 'b'},
                                 {"rank", required_argument, nullptr, 'r'},
                                 {"ranks", required_argument, nullptr, 'n'},
                                 {"tp", required_argument, nullptr, 't'},
                                 {"seed", required_argument, nullptr, 's'},
                                 {"rounds", required_argument, nullptr, 'c'},
                                 {nullptr, 0, nullptr, 0}};
  int c;
  while ((c = getopt_long(argc, argv, "", kLong, nullptr)) != -1) {
    const uint64_t number = optarg == nullptr ? 0 : strtoull(optarg, nullptr, 10);
    if (c == 'b') options->board = optarg;
    if (c == 'r') options->rank = uint32_t(number);
    if (c == 'n') options->ranks = uint32_t(number);
    if (c == 't') options->tensor_parallel = uint32_t(number);
    if (c == 's') options->seed = number;
    if (c == 'c') *rounds = number;
    if (c == '?') return false;
  }
  const uint32_t wide = options->tensor_parallel;
  return options->board != nullptr && options->rank < options->ranks &&
         options->ranks <= kMaxRanks && wide != 0 && options->ranks % wide == 0 && optind == argc;
}

}  // namespace

int main(int argc, char** argv) {
  RankOptions options;
  uint64_t rounds = UINT64_MAX;
  if (!ReadOptions(argc, argv, &options, &rounds)) {
    fputs("usage: collective --board FILE --rank N [--ranks N] [--tp N] [--seed N] [--rounds N]\n",
          stderr);
    return 64;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Rank rank(options);
  printf("collective rank %u pid %d ready\n", options.rank, getpid());
  std::thread(ReadInput).detach();
  std::thread loader(Load);
  const auto held = [] {
    puts("held");
    host_released.wait(false);
  };
  bool ended = false;
  uint64_t round = 0;
  while (!ended && round < rounds) {
    ended = rank.Round(stop, wish.exchange(Wish::kNone), held);
    printf("round %" PRIu64 " %016" PRIx64 "\n", ++round, rank.digest());
  }
  stop = true;
  loader.join();
  printf("done after %" PRIu64 " rounds\n", round);
  fflush(stdout);
  _Exit(0);  // the input's thread may be in the middle of a line
}
