// Turns: the order of those who ask, how long who came in stays, and who leaves for whom.
#include "daemon/turns.h"

#include <catch2/catch.hpp>

using namespace parkade;
using namespace parkade::daemon;
using What = Turns::Choice::What;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kQuantum = 5 * kSecond;

std::vector<std::string> Order(const Turns& turns) {
  return {turns.order().begin(), turns.order().end()};
}

}  // namespace

TEST_CASE("who asks stands where it began to ask, until it asks no more") {
  Turns turns(kQuantum);
  turns.SetAsking({"b"});
  turns.SetAsking({"a", "b"});
  turns.SetAsking({"a", "b", "c"});
  CHECK(Order(turns) == std::vector<std::string>{"b", "a", "c"});
  turns.SetAsking({"a", "c"});
  turns.SetAsking({"a", "b", "c"});
  CHECK(Order(turns) == std::vector<std::string>{"a", "c", "b"});
}

TEST_CASE("who is put off stands last, and waits until then") {
  Turns turns(kQuantum);
  turns.SetAsking({"a", "b"});
  turns.PutOff("a", 7 * kSecond);
  CHECK(Order(turns) == std::vector<std::string>{"b", "a"});
  CHECK(turns.put_off_until_ns("a") == 7 * kSecond);
  CHECK(turns.put_off_until_ns("b") == 0);
  turns.SetAsking({"b"});
  turns.SetAsking({"a", "b"});  // asks anew
  CHECK(turns.put_off_until_ns("a") == 0);
}

TEST_CASE("who came in keeps its memory for the quantum, or as long as its turn took") {
  Turns turns(kQuantum);
  CHECK(turns.KeepsUntil("a", 10 * kSecond) == 15 * kSecond);
  turns.CameIn("a", 20 * kSecond, kSecond);
  CHECK(turns.KeepsUntil("a", 10 * kSecond) == 25 * kSecond);
  turns.CameIn("a", 20 * kSecond, 30 * kSecond);
  CHECK(turns.KeepsUntil("a", 10 * kSecond) == 50 * kSecond);
  // Somebody else has brought it in since.
  CHECK(turns.KeepsUntil("a", 40 * kSecond) == 45 * kSecond);
  turns.Keep({"b"});
  CHECK(turns.KeepsUntil("a", 10 * kSecond) == 15 * kSecond);
}

TEST_CASE("nobody leaves where there is room") {
  const auto choice = Turns::Choose({{"gpu", 4}}, {{"gpu", 4}}, {{"a", {{"gpu", 9}}, 0}}, 100);
  CHECK(choice.what == What::kGo);
  CHECK(choice.leave.empty());
}

TEST_CASE("who has kept its memory longest leaves, when its time is over") {
  const std::vector<Turns::Holder> holders{{"young", {{"gpu", 8}}, 300},
                                           {"old", {{"gpu", 8}}, 200}};
  const auto early = Turns::Choose({{"gpu", 10}}, {{"gpu", 2}}, holders, 100);
  CHECK(early.what == What::kWait);
  CHECK(early.until_ns == 200);
  const auto late = Turns::Choose({{"gpu", 10}}, {{"gpu", 2}}, holders, 200);
  CHECK(late.what == What::kGo);
  CHECK(late.leave == std::vector<std::string>{"old"});
}

TEST_CASE("as many leave as are needed, all of them at their time") {
  const std::vector<Turns::Holder> holders{{"a", {{"gpu", 8}}, 100}, {"b", {{"gpu", 8}}, 300}};
  const auto choice = Turns::Choose({{"gpu", 16}}, {}, holders, 200);
  CHECK(choice.what == What::kWait);
  CHECK(choice.until_ns == 300);
  CHECK(choice.leave.size() == 2);
}

TEST_CASE("a small one does not leave for nothing, nor who is on another GPU") {
  const std::vector<Turns::Holder> holders{
      {"small", {{"gpu", 1}}, 10}, {"elsewhere", {{"other", 50}}, 20}, {"large", {{"gpu", 8}}, 30}};
  const auto choice = Turns::Choose({{"gpu", 8}}, {}, holders, 200);
  CHECK(choice.what == What::kGo);
  CHECK(choice.leave == std::vector<std::string>{"large"});
}

TEST_CASE("one who needs room on several GPUs gets it on all of them, or nobody leaves") {
  const std::vector<Turns::Holder> holders{{"a", {{"0", 8}}, 10}, {"b", {{"1", 8}}, 20}};
  const auto both = Turns::Choose({{"0", 8}, {"1", 8}}, {}, holders, 200);
  CHECK(both.leave.size() == 2);
  const auto never = Turns::Choose({{"0", 8}, {"1", 9}}, {}, holders, 200);
  CHECK(never.what == What::kNever);
  CHECK(never.leave.empty());
}
