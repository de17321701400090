// The tree hash in the instructions that every processor has, and the choice of better ones.
#include "common/hash/block_hash.h"

#include <atomic>

#include "common/hash/leaf_tree.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace parkade {
namespace {

static_assert(kLeafBytes == kHashLeaf && kMostLeaves * kLeafBytes == kHashBlock);

#if defined(__x86_64__)
constexpr char kBaseline[] = "sse2";

// Asked by hand: __builtin_cpu_supports brings a static constructor that asks for everything, in
// every process that the shim is loaded into.
bool HasAvx2() {
  constexpr unsigned kSavesYmm = 6;  // XMM and YMM in XCR0: the kernel keeps them over a switch
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kSavesYmm) != kSavesYmm) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_AVX2) != 0;
}

HashVariant Choose() { return HasAvx2() ? HashBlockAvx2 : HashTree; }
#else
#if defined(__ARM_NEON)
constexpr char kBaseline[] = "neon";
#else
constexpr char kBaseline[] = "scalar";
#endif

HashVariant Choose() { return HashTree; }
#endif

HashVariant Variant() {
  static std::atomic<HashVariant> chosen{nullptr};
  HashVariant variant = chosen.load(std::memory_order_relaxed);
  if (variant == nullptr) {
    variant = Choose();  // the same on every thread
    chosen.store(variant, std::memory_order_relaxed);
  }
  return variant;
}

}  // namespace

Digest HashBlock(const void* memory, Bytes bytes) {
  uint64_t digest[2];
  Variant()(static_cast<const char*>(memory), bytes, digest);
  return {digest[0], digest[1]};
}

const char* HashInstructions() { return Variant() == HashTree ? kBaseline : "avx2"; }

}  // namespace parkade
