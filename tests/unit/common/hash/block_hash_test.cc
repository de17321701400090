// The block hash against known answers and another implementation, and what it must tell apart.
#include "common/hash/block_hash.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/hash/leaf_tree.h"

namespace parkade {
namespace {

std::vector<uint64_t> Pattern(uint64_t seed, Bytes bytes) {
  std::vector<uint64_t> words(bytes / 8);
  for (uint64_t& word : words) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    word = seed;
  }
  return words;
}

Digest HashOf(const std::vector<uint64_t>& words) {
  return HashBlock(words.data(), words.size() * 8);
}

// The variant that this processor need not have chosen.
Digest BaselineOf(const std::vector<uint64_t>& words) {
  uint64_t digest[2];
  HashTree(reinterpret_cast<const char*>(words.data()), words.size() * 8, digest);
  return {digest[0], digest[1]};
}

// From reference.py, whose XXH3 agreed with Debian's libxxhash 0.8.1 on random inputs.
struct Known {
  uint64_t seed;
  Bytes bytes;
  Digest digest;
};
constexpr Known kKnown[] = {
    {1, 4096, {0xeeb5804530b9b9e6, 0xc8e23a7f8cda5710}},
    {2, 8192, {0x0ce619f84dcb8a2a, 0xca4d237850e56607}},
    {3, 65536, {0x6b5416b3af5840c5, 0x4085b599d40ce461}},
    {4, 1_MiB + 4096, {0x449003924dde9c52, 0x5c80ccb69d9222be}},
    {5, 2_MiB - 4096, {0x730518323dfe4533, 0x57f87e42a38aeb92}},
    {6, 2_MiB, {0x1d02ac87f2d234a9, 0x4708b6be1440501d}},
};

TEST_CASE("known answers, in the chosen instructions and in those of every processor") {
  printf("hashing with %s\n", HashInstructions());
  for (const Known& known : kKnown) {
    INFO(known.bytes << " bytes");
    const auto words = Pattern(known.seed, known.bytes);
    CHECK(HashOf(words) == known.digest);
    CHECK(BaselineOf(words) == known.digest);
  }
}

TEST_CASE("every length agrees with an implementation of its own") {
  std::string command = "python3 '" PARKADE_HASH_REFERENCE "'";
  std::vector<std::pair<uint64_t, Bytes>> inputs;
  for (Bytes leaves = 1; leaves <= 512; leaves += leaves < 20 ? 1 : 41) {
    inputs.push_back({1000 + leaves, leaves * kHashLeaf});
    command += " " + std::to_string(1000 + leaves) + ":" + std::to_string(leaves * kHashLeaf);
  }
  FILE* answers = popen(command.c_str(), "r");
  REQUIRE(answers != nullptr);
  for (const auto& [seed, bytes] : inputs) {
    INFO(bytes << " bytes");
    unsigned long long low = 0, high = 0;
    REQUIRE(fscanf(answers, "%llx %llx", &low, &high) == 2);
    CHECK(HashOf(Pattern(seed, bytes)) == Digest{low, high});
  }
  CHECK(pclose(answers) == 0);
}

TEST_CASE("one flipped bit changes both halves of the digest, wherever it stands") {
  for (const Bytes bytes : {Bytes(4096), Bytes(16384), 1_MiB, 2_MiB}) {
    auto words = Pattern(77, bytes);
    auto* memory = reinterpret_cast<unsigned char*>(words.data());
    const Digest whole = HashOf(words);
    // First and last byte of the block, of leaves, of XXH3's stripes of 64 and blocks of 1024
    // bytes; and every bit of one stripe.
    std::vector<Bytes> bits;
    for (const Bytes leaf : {Bytes(0), bytes / kHashLeaf / 2 * kHashLeaf, bytes - kHashLeaf}) {
      for (const Bytes at : {0, 1, 63, 64, 1023, 1024, 2048, 4032, 4094, 4095}) {
        bits.push_back((leaf + at) * 8);
        bits.push_back((leaf + at) * 8 + 7);
      }
    }
    if (bytes <= 16384) {
      for (Bytes bit = 0; bit < 64 * 8; ++bit) bits.push_back(bytes / 2 * 8 + 1024 * 8 + bit);
    }
    for (const Bytes bit : bits) {
      INFO("bit " << bit << " of " << bytes << " bytes");
      memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
      const Digest flipped = HashOf(words);
      memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
      REQUIRE(flipped.low != whole.low);
      REQUIRE(flipped.high != whole.high);
    }
    REQUIRE(HashOf(words) == whole);
  }
}

TEST_CASE("a short block differs from one that is padded with zeros, and leaves have an order") {
  std::vector<Digest> digests;
  for (Bytes bytes = kHashLeaf; bytes <= kHashBlock; bytes += kHashLeaf) {
    digests.push_back(HashOf(std::vector<uint64_t>(bytes / 8)));
  }
  for (size_t a = 0; a < digests.size(); ++a) {
    for (size_t b = 0; b < a; ++b) REQUIRE_FALSE(digests[a] == digests[b]);
  }
  auto words = Pattern(5, 8192);
  const Digest before = HashOf(words);
  std::swap_ranges(words.begin(), words.begin() + 512, words.begin() + 512);
  CHECK_FALSE(HashOf(words) == before);
}

TEST_CASE("memory needs no alignment") {
  const auto words = Pattern(9, 1_MiB);
  const Digest aligned = HashOf(words);
  std::vector<char> memory(1_MiB + 64);
  for (const size_t shift : {1, 3, 8, 31, 63}) {
    memcpy(memory.data() + shift, words.data(), 1_MiB);
    CHECK(HashBlock(memory.data() + shift, 1_MiB) == aligned);
  }
}

TEST_CASE("blocks are counted with the short last one") {
  CHECK(HashBlocksIn(0) == 0);
  CHECK(HashBlocksIn(4096) == 1);
  CHECK(HashBlocksIn(2_MiB) == 1);
  CHECK(HashBlocksIn(2_MiB + 4096) == 2);
}

}  // namespace
}  // namespace parkade
