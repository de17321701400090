// Measures the block hash: GB/s by number of threads, each on memory of its own that fits no cache.
//   hash_bench [THREADS [MIB_A_THREAD]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "common/deadline.h"
#include "common/hash/block_hash.h"

namespace parkade::bench {
namespace {

// The best of some rounds: what others do to the machine makes a round slower, never faster.
constexpr int kRounds = 5;

double BestGbps(size_t threads, Bytes bytes_each, char* memory) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> crew;
    const uint64_t begin = MonotonicNs();
    for (size_t t = 0; t < threads; ++t) {
      crew.emplace_back([memory, bytes_each, t] {
        static thread_local volatile uint64_t kept = 0;
        for (Bytes at = 0; at < bytes_each; at += kHashBlock) {
          kept = kept ^ HashBlock(memory + t * bytes_each + at, kHashBlock).low;
        }
      });
    }
    for (std::thread& thread : crew) thread.join();
    best = std::max(best, double(threads * bytes_each) / double(MonotonicNs() - begin));
  }
  return best;
}

}  // namespace
}  // namespace parkade::bench

int main(int argc, char** argv) {
  using namespace parkade;
  const size_t most =
      argc > 1 ? strtoul(argv[1], nullptr, 10) : std::thread::hardware_concurrency();
  const Bytes each = (argc > 2 ? strtoul(argv[2], nullptr, 10) : 256) / 2 * 2_MiB;
  if (most == 0 || each == 0) {
    fprintf(stderr, "usage: hash_bench [THREADS [MIB_A_THREAD]]\n");
    return 64;
  }
  std::unique_ptr<char[]> memory(new char[most * each]);
  for (Bytes i = 0; i < most * each; ++i) memory[i] = char(i * 2654435761u >> 13);
  for (size_t threads = 1; threads <= most; ++threads) {
    printf("hash_%s_threads_%zu_gbps %.2f\n", HashInstructions(), threads,
           bench::BestGbps(threads, each, memory.get()));
  }
  return 0;
}
