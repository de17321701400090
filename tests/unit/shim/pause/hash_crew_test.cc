// The hash crew: digests, copies, what differs, several lanes at once, and an end in the middle.
#include "shim/pause/hash_crew.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

namespace parkade::shim {
namespace {

std::vector<char> Pattern(Bytes bytes, unsigned seed) {
  std::vector<char> memory(bytes);
  for (Bytes i = 0; i < bytes; ++i) memory[i] = char((i * 2654435761u + seed) >> 11);
  return memory;
}

std::vector<Digest> DigestsOf(const std::vector<char>& memory) {
  std::vector<Digest> digests;
  for (Bytes at = 0; at < memory.size(); at += kHashBlock) {
    digests.push_back(HashBlock(memory.data() + at, std::min(kHashBlock, memory.size() - at)));
  }
  return digests;
}

TEST_CASE("digests are those of each block, the last one short, in place and through a copy") {
  const auto memory = Pattern(5_MiB + 4096, 1);
  HashCrew crew(memory.size());
  HashLane lane(crew);
  std::vector<Digest> in_place(3), copied(3);
  std::vector<char> to(memory.size());
  lane.Start({memory.data(), nullptr, memory.size(), in_place.data(), nullptr, 1});
  lane.Start({memory.data(), to.data(), memory.size(), copied.data(), nullptr, 2});
  uint64_t tags = 0;
  while (const auto done = lane.Next(Patience::kWait)) tags += done->tag;
  CHECK(tags == 3);
  CHECK(lane.idle());
  CHECK(in_place == DigestsOf(memory));
  CHECK(copied == in_place);
  CHECK(to == memory);
}

TEST_CASE("the first block that differs is named, whichever thread came to it first") {
  auto memory = Pattern(9_MiB, 2);
  const auto digests = DigestsOf(memory);
  memory[4_MiB + 17] ^= 1;
  memory[8_MiB] ^= 1;
  HashCrew crew(memory.size());
  HashLane lane(crew);
  std::vector<char> to(memory.size());
  for (char* copy : {static_cast<char*>(nullptr), to.data()}) {
    lane.Start({memory.data(), copy, memory.size(), nullptr, digests.data(), 7});
    const auto done = lane.Next(Patience::kWait);
    REQUIRE(done.has_value());
    REQUIRE(done->wrong.has_value());
    CHECK(*done->wrong == 2);
  }
  memory[4_MiB + 17] ^= 1;
  memory[8_MiB] ^= 1;
  lane.Start({memory.data(), nullptr, memory.size(), nullptr, digests.data(), 8});
  CHECK_FALSE(lane.Next(Patience::kWait)->wrong.has_value());
}

TEST_CASE("without a thread whoever waits does the work") {
  const auto memory = Pattern(4_MiB, 3);
  HashCrew crew(0);
  HashLane lane(crew);
  std::vector<Digest> digests(2);
  lane.Start({memory.data(), nullptr, memory.size(), digests.data(), nullptr, 1});
  CHECK_FALSE(lane.Next(Patience::kLook).has_value());
  CHECK(lane.Next(Patience::kWait).has_value());
  CHECK(digests == DigestsOf(memory));
}

TEST_CASE("several lanes share a crew, and each gets its own work back") {
  const auto memory = Pattern(3_MiB, 4);
  const auto right = DigestsOf(memory);
  HashCrew crew(1_GiB);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      HashLane lane(crew);
      std::vector<std::vector<Digest>> digests(8, std::vector<Digest>(2));
      for (uint64_t i = 0; i < 8; ++i) {
        lane.Start(
            {memory.data(), nullptr, memory.size(), digests[i].data(), nullptr, t * 100 + i});
      }
      while (const auto done = lane.Next(Patience::kWait)) {
        if (done->tag / 100 == t && digests[done->tag % 100] == right) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 32);
}

TEST_CASE("a lane that is drained leaves no work behind that touches its memory") {
  HashCrew crew(1_GiB);
  for (int round = 0; round < 20; ++round) {
    HashLane lane(crew);
    const auto memory = Pattern(6_MiB, 5);
    std::vector<Digest> digests(3 * 8);
    for (uint64_t i = 0; i < 8; ++i) {
      lane.Start({memory.data(), nullptr, memory.size(), &digests[3 * i], nullptr, i});
    }
    if (round % 2 == 1) CHECK(lane.Next(Patience::kWait).has_value());
    lane.Drain();
    CHECK(lane.idle());
  }
}

}  // namespace
}  // namespace parkade::shim
