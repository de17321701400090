// The tree hash of common/hash/block_hash.h on the GPU: XXH3-128 after xxHash 0.8's specification
// (doc/xxhash_spec.md of libxxhash-dev, "XXH3 algorithm for long inputs"), bit for bit.
//
// One grid block hashes one block of 2 MiB. Four threads hash one leaf of 4 KiB, each with two of
// the eight accumulators, so that a thread loads 16 bytes at once and needs no other's data; then
// the first four hash the digests of the leaves.
#include "shim/kernels/hash_blocks.h"

using parkade::ComparePart;
using parkade::HashBlockParts;
using parkade::HashedBlock;
using parkade::HashPart;

namespace {

typedef unsigned long long u64;

constexpr unsigned kLeaf = 4096;
constexpr unsigned kLeaves = 512;  // of a block of 2 MiB
constexpr unsigned kThreadsPerLeaf = 4;
constexpr unsigned kStripe = 64;           // bytes that go into the accumulators at once
constexpr unsigned kStripesPerRound = 16;  // then they are scrambled
constexpr unsigned kSecretBytes = 192;

constexpr u64 kPrime32_1 = 0x9E3779B1, kPrime32_2 = 0x85EBCA77, kPrime32_3 = 0xC2B2AE3D;
constexpr u64 kPrime64_1 = 0x9E3779B185EBCA87, kPrime64_2 = 0xC2B2AE3D27D4EB4F;
constexpr u64 kPrime64_3 = 0x165667B19E3779F9, kPrime64_4 = 0x85EBCA77C2B2AE63;
constexpr u64 kPrime64_5 = 0x27D4EB2F165667C5;

__constant__ u64 kStart[8] = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                              kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};

// The specification's default secret, as little-endian words.
__constant__ u64 kSecret[kSecretBytes / 8] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

struct __align__(16) Digest {
  u64 low, high;
};

// A secret and what one thread needs of it in its registers.
struct Key {
  const u64* secret;                // in shared memory
  u64 words[kStripesPerRound + 2];  // from this thread's first accumulator on
};

__device__ u64 SecretAt(const u64* secret, unsigned byte) {
  const u64 low = secret[byte / 8], high = secret[byte / 8 + 1];
  const unsigned shift = byte % 8 * 8;
  return low >> shift | high << (64 - shift);  // `byte` is no multiple of 8 where this is used
}

__device__ void Accumulate(u64 acc[2], ulonglong2 data, u64 key0, u64 key1) {
  const u64 a = data.x ^ key0, b = data.y ^ key1;
  acc[0] += data.y + u64(unsigned(a)) * (a >> 32);
  acc[1] += data.x + u64(unsigned(b)) * (b >> 32);
}

__device__ void Scramble(u64 acc[2], u64 key0, u64 key1) {
  acc[0] = ((acc[0] ^ acc[0] >> 47) ^ key0) * kPrime32_1;
  acc[1] = ((acc[1] ^ acc[1] >> 47) ^ key1) * kPrime32_1;
}

// Over the four threads of a leaf; each gets the sum.
__device__ u64 Merge(const u64 acc[2], u64 start, u64 key0, u64 key1) {
  const u64 a = acc[0] ^ key0, b = acc[1] ^ key1;
  u64 sum = a * b ^ __umul64hi(a, b);
  for (int lane = 1; lane < int(kThreadsPerLeaf); lane *= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, lane, kThreadsPerLeaf);
  }
  sum += start;
  sum ^= sum >> 37;
  sum *= 0x165667919E3779F9ull;
  return sum ^ sum >> 32;
}

// XXH3-128 of kBytes bytes at `data`, by four threads of one warp, all of whose threads are here.
template <unsigned kBytes>
__device__ Digest Hash(const ulonglong2* data, const Key& key) {
  constexpr unsigned kRounds = (kBytes - 1) / (kStripe * kStripesPerRound);
  const unsigned mine = threadIdx.x % kThreadsPerLeaf;
  u64 acc[2] = {kStart[2 * mine], kStart[2 * mine + 1]};
  data += mine;
  for (unsigned round = 0; round < kRounds; ++round) {
#pragma unroll
    for (unsigned stripe = 0; stripe < kStripesPerRound; ++stripe) {
      Accumulate(acc, data[stripe * kThreadsPerLeaf], key.words[stripe], key.words[stripe + 1]);
    }
    Scramble(acc, key.words[kStripesPerRound], key.words[kStripesPerRound + 1]);
    data += kStripesPerRound * kThreadsPerLeaf;
  }
  // The last round has all stripes as well, but the last one another secret and no scrambling.
#pragma unroll
  for (unsigned stripe = 0; stripe + 1 < kStripesPerRound; ++stripe) {
    Accumulate(acc, data[stripe * kThreadsPerLeaf], key.words[stripe], key.words[stripe + 1]);
  }
  const unsigned at = 16 * mine;
  constexpr unsigned kLast = kSecretBytes - kStripe - 7, kLow = 11,
                     kHigh = kSecretBytes - kStripe - 11;
  Accumulate(acc, data[(kStripesPerRound - 1) * kThreadsPerLeaf], SecretAt(key.secret, kLast + at),
             SecretAt(key.secret, kLast + at + 8));
  return {Merge(acc, kBytes * kPrime64_1, SecretAt(key.secret, kLow + at),
                SecretAt(key.secret, kLow + at + 8)),
          Merge(acc, ~(kBytes * kPrime64_2), SecretAt(key.secret, kHigh + at),
                SecretAt(key.secret, kHigh + at + 8))};
}

__device__ void Prepare(Key& key, const u64* secret) {
  key.secret = secret;
#pragma unroll
  for (unsigned i = 0; i < kStripesPerRound + 2; ++i) {
    key.words[i] = secret[2 * (threadIdx.x % kThreadsPerLeaf) + i];
  }
}

// The part in which a leaf lies: the last that does not begin behind it.
__device__ const HashPart& PartOf(const HashPart* parts, unsigned count, unsigned leaf) {
  unsigned first = 0;
  for (unsigned step = 1u << 31 - __clz(count); step != 0; step /= 2) {
    if (first + step < count && parts[first + step].first_leaf <= leaf) first += step;
  }
  return parts[first];
}

__device__ bool Equal(ulonglong2 a, ulonglong2 b) { return a.x == b.x && a.y == b.y; }

}  // namespace

// A block of the grid hashes the block of the same number. `parts`, `blocks` and `results` may be
// host memory: each is read or written once.
extern "C" __global__ void __launch_bounds__(PARKADE_HASH_THREADS)
    parkade_hash_blocks(const HashPart* all_parts, const HashBlockParts* blocks,
                        HashedBlock* results) {
  __shared__ HashPart parts[PARKADE_HASH_PARTS];
  __shared__ Digest leaves[kLeaves];
  __shared__ u64 secret[kSecretBytes / 8];
  const HashBlockParts block = blocks[blockIdx.x];
  if (threadIdx.x < block.count) parts[threadIdx.x] = all_parts[block.first + threadIdx.x];
  if (threadIdx.x < kSecretBytes / 8) secret[threadIdx.x] = kSecret[threadIdx.x];
  __syncthreads();
  const unsigned here = parts[block.count - 1].first_leaf + parts[block.count - 1].leaves;
  Key key;
  Prepare(key, secret);
  // Whole warps stay together, for the sums; those beyond the last leaf hash that again.
  for (unsigned leaf = threadIdx.x / kThreadsPerLeaf; leaf < kLeaves;
       leaf += PARKADE_HASH_THREADS / kThreadsPerLeaf) {
    const unsigned number = min(leaf, here - 1);
    const HashPart& part = PartOf(parts, block.count, number);
    const u64 address = part.address + u64(number - part.first_leaf) * kLeaf;
    const Digest digest = Hash<kLeaf>(reinterpret_cast<const ulonglong2*>(address), key);
    if (threadIdx.x % kThreadsPerLeaf == 0) leaves[leaf] = leaf < here ? digest : Digest{0, 0};
  }
  __syncthreads();
  // Where all leaves are equal, and the first is 16 bytes again and again, so is the block.
  const ulonglong2* first = reinterpret_cast<const ulonglong2*>(parts[0].address);
  bool same = Equal(first[threadIdx.x], first[0]);
  for (unsigned leaf = threadIdx.x; leaf < here; leaf += PARKADE_HASH_THREADS) {
    same = same && leaves[leaf].low == leaves[0].low && leaves[leaf].high == leaves[0].high;
  }
  const bool repeats = __syncthreads_and(same);
  // A seed goes into the secret: added to its even words, taken from its odd ones.
  const u64 seed = u64(here) * kLeaf;
  if (threadIdx.x < kSecretBytes / 8) {
    secret[threadIdx.x] += threadIdx.x % 2 == 0 ? seed : 0 - seed;
  }
  __syncthreads();
  if (threadIdx.x >= warpSize) return;
  Prepare(key, secret);
  const Digest root = Hash<sizeof leaves>(reinterpret_cast<const ulonglong2*>(leaves), key);
  if (threadIdx.x != 0) return;
  results[blockIdx.x] = {{root.low, root.high}, {first[0].x, first[0].y}, repeats ? 1u : 0u, 0};
}

// A block of the grid compares the part of the same number, and says 1 in `differs` for its block
// when it finds something else.
extern "C" __global__ void __launch_bounds__(PARKADE_HASH_THREADS)
    parkade_compare_blocks(const ComparePart* parts, unsigned* differs) {
  const ComparePart part = parts[blockIdx.x];
  const ulonglong2* words = reinterpret_cast<const ulonglong2*>(part.address);
  const ulonglong2* others = reinterpret_cast<const ulonglong2*>(part.other);
  const ulonglong2 pattern = {part.pattern[0], part.pattern[1]};
  bool equal = true;
  for (unsigned i = threadIdx.x; i < part.words; i += PARKADE_HASH_THREADS) {
    equal = equal && Equal(words[i], others != nullptr ? others[i] : pattern);
  }
  if (!__syncthreads_and(equal) && threadIdx.x == 0) differs[part.block] = 1;
}
