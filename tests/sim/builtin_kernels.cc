// The built-in kernels. Each computes what a CUDA kernel of the same name and parameters would.
#include "tests/sim/builtin_kernels.h"

#include <time.h>

#include "tests/sim/hash_twin.h"
#include "tests/sim/store_twin.h"

namespace parkade::sim {
namespace {

constexpr uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ x >> 16;
}

void FillWords(const Launch& launch, uint32_t* p, uint64_t n, uint32_t seed) {
  if (!launch.Touch(p, n * sizeof *p)) return;
  for (uint64_t i = 0; i < n; ++i) p[i] = Mix(uint32_t(i) + seed);
}

void AddWords(const Launch& launch, uint32_t* p, uint64_t n, uint32_t delta) {
  if (!launch.Touch(p, n * sizeof *p)) return;
  for (uint64_t i = 0; i < n; ++i) p[i] += delta;
}

void VerifyWords(const Launch& launch, const uint32_t* p, uint64_t n, uint32_t seed,
                 uint64_t* mismatches) {
  if (!launch.Touch(p, n * sizeof *p) || !launch.Touch(mismatches, sizeof *mismatches)) return;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < n; ++i) wrong += p[i] != Mix(uint32_t(i) + seed);
  *mismatches += wrong;
}

void Axpy(const Launch& launch, float* y, const float* x, uint64_t n, float a) {
  if (!launch.Touch(y, n * sizeof *y) || !launch.Touch(x, n * sizeof *x)) return;
  for (uint64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// Depends on every word, on its place, and on the state that an earlier launch left.
void Checksum(const Launch& launch, const uint32_t* p, uint64_t n, uint64_t* state) {
  if (!launch.Touch(p, n * sizeof *p) || !launch.Touch(state, sizeof *state)) return;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += uint64_t(Mix(p[i] ^ uint32_t(i))) * (2 * i + 1);
  *state = *state * 0x9e3779b97f4a7c15 + sum;
}

void SpinMs(const Launch&, uint32_t ms) {
  const timespec time = {ms / 1000, long(ms % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

// Each block of the grid reads what is its own.
void HashOnGpu(const Launch& launch, const HashPart* parts, const HashBlockParts* blocks,
               HashedBlock* results) {
  const size_t count = launch.shape().grid[0];
  if (!launch.Touch(blocks, count * sizeof *blocks)) return;
  if (!launch.Touch(parts, (blocks[count - 1].first + blocks[count - 1].count) * sizeof *parts)) {
    return;
  }
  if (!launch.Touch(results, count * sizeof *results)) return;
  HashBlocks(parts, blocks, results, count,
             [&launch](const char* from, Bytes part) { return launch.Touch(from, part); });
}

void CompareOnGpu(const Launch& launch, const ComparePart* parts, uint32_t* differs) {
  const size_t count = launch.shape().grid[0];
  if (!launch.Touch(parts, count * sizeof *parts)) return;
  if (!launch.Touch(differs, (parts[count - 1].block + 1) * sizeof *differs)) return;
  CompareBlocks(parts, differs, count,
                [&launch](const char* from, Bytes part) { return launch.Touch(from, part); });
}

// All that a store's kernel may touch, for the simulated GPU to say where it is wrong.
bool TouchBucket(const Launch& launch, const StoreBucketArgs& b) {
  const auto at = [](uint64_t address) { return reinterpret_cast<char*>(address); };
  const auto* const pieces = reinterpret_cast<const StorePiece*>(b.pieces);
  if (!launch.Touch(pieces, b.piece_count * sizeof *pieces) ||
      !launch.Touch(at(b.findings), sizeof(StoreFindings))) {
    return false;
  }
  for (uint32_t s = 0; s < b.segment_count; ++s) {
    const StoreSegment& segment = b.segments[s];
    const Bytes elements = b.groups * 32;
    if (segment.view != 0 && !launch.Touch(at(segment.view), elements * 4)) return false;
    if (segment.encoding == kStoreFp32 && !launch.Touch(at(segment.bytes), elements * 4))
      return false;
  }
  for (uint32_t i = 0; i < b.piece_count; ++i) {
    const StorePiece& piece = pieces[i];
    const auto bytes = [&](uint32_t type) { return piece.numel * (type == kTypeFp32 ? 4 : 2); };
    if (piece.weight != 0 && !launch.Touch(at(piece.weight), bytes(piece.weight_type)))
      return false;
    if (piece.gradient != 0 && !launch.Touch(at(piece.gradient), bytes(piece.gradient_type))) {
      return false;
    }
  }
  return true;
}

void StoreDecodeOnGpu(const Launch& launch, StoreBucketArgs b) {
  if (TouchBucket(launch, b)) StoreDecode(b);
}
void StoreEncodeOnGpu(const Launch& launch, StoreBucketArgs b, uint32_t main) {
  if (TouchBucket(launch, b)) StoreEncode(b, main);
}
void StoreAdamOnGpu(const Launch& launch, StoreBucketArgs b, StoreAdamArgs adam) {
  if (TouchBucket(launch, b)) StoreAdam(b, adam);
}
void StoreWidenOnGpu(const Launch& launch, StoreBucketArgs b, uint32_t main) {
  if (TouchBucket(launch, b)) StoreWiden(b, main);
}
void StoreLookOnGpu(const Launch& launch, StoreBucketArgs b) {
  if (TouchBucket(launch, b)) StoreLook(b);
}

struct Named {
  std::string_view name;
  SimKernel kernel;
};
constexpr Named kBuiltin[] = {
    {"fill_words", HostKernel<&FillWords>()},
    {"add_words", HostKernel<&AddWords>()},
    {"verify_words", HostKernel<&VerifyWords>()},
    {"axpy", HostKernel<&Axpy>()},
    {"checksum_words", HostKernel<&Checksum>()},
    {"spin_ms", HostKernel<&SpinMs>()},
    {"parkade_hash_blocks", HostKernel<&HashOnGpu>()},
    {"parkade_compare_blocks", HostKernel<&CompareOnGpu>()},
    {"parkade_store_decode", HostKernel<&StoreDecodeOnGpu>()},
    {"parkade_store_encode", HostKernel<&StoreEncodeOnGpu>()},
    {"parkade_store_adam", HostKernel<&StoreAdamOnGpu>()},
    {"parkade_store_widen", HostKernel<&StoreWidenOnGpu>()},
    {"parkade_store_look", HostKernel<&StoreLookOnGpu>()},
};

}  // namespace

const SimKernel* BuiltinKernel(std::string_view name) {
  for (const Named& builtin : kBuiltin)
    if (builtin.name == name) return &builtin.kernel;
  return nullptr;
}

}  // namespace parkade::sim
