// The application's hooks: their order, their deadlines, and what becomes of those that fail.
#include "shim/agent/pause_hooks.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

using When = PauseHooks::When;

const std::atomic<bool> kNever{false};

// A hook that notes its name, waits while it is held, and returns what it is told to.
struct Noting {
  std::string name;
  std::vector<std::string>* log = nullptr;
  int returns = 0;
  std::atomic<bool> held{false};
  std::atomic<int> calls{0};

  static int Call(void* self) {
    auto& noting = *static_cast<Noting*>(self);
    if (noting.log != nullptr) noting.log->push_back(noting.name);
    ++noting.calls;
    while (noting.held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return noting.returns;
  }
};

struct Hooks {
  Result<void> Run(When when) { return hooks.Run(when, fake.driver(), kNever); }
  int Add(When when, Noting& noting, uint64_t timeout_ms = 5000) {
    return hooks.Add(when, noting.name, Noting::Call, &noting, timeout_ms);
  }
  // Until the thread of the last Run has ended.
  void Settle() {
    for (int i = 0; i < 5000; ++i) {
      if (Run(When::kNever).ok()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL("a hook never ended");
  }
  FakeDriver fake;
  PauseHooks hooks;
};

bool Says(const Result<void>& result, std::string_view reason, std::string_view words) {
  INFO(result.error().reason << ": " << result.error().what);
  CHECK(std::string_view(result.error().reason) == reason);
  return std::string_view(result.error().what).find(words) != std::string_view::npos;
}

TEST_CASE("hooks run in the order they were registered, each in its place") {
  Hooks h;
  std::vector<std::string> log;
  Noting first{"first", &log}, second{"second", &log}, after{"after", &log};
  const int one = h.Add(When::kBeforePause, first);
  REQUIRE(one > 0);
  REQUIRE(h.Add(When::kAfterResume, after) > one);
  REQUIRE(h.Add(When::kBeforePause, second) > one);
  REQUIRE(h.Run(When::kBeforePause).ok());
  CHECK(log == std::vector<std::string>{"first", "second"});
  REQUIRE(h.Run(When::kAfterResume).ok());
  CHECK(log.back() == "after");
  CHECK(h.hooks.Remove(one) == PauseHooks::Removal::kRemoved);
  CHECK(h.hooks.Remove(one) == PauseHooks::Removal::kUnknown);
  CHECK(h.hooks.Remove(0) == PauseHooks::Removal::kUnknown);
  CHECK(h.hooks.Remove(-1) == PauseHooks::Removal::kUnknown);
  REQUIRE(h.Run(When::kBeforePause).ok());
  CHECK(log.back() == "second");
  CHECK(first.calls == 1);
}

TEST_CASE("one that fails before a pause is the last, after a resume all run") {
  Hooks h;
  Noting good{"good"}, bad{"bad"}, worse{"worse"}, last{"last"};
  bad.returns = 3;
  worse.returns = 4;
  for (const When when : {When::kBeforePause, When::kAfterResume}) {
    for (Noting* noting : {&good, &bad, &worse, &last}) REQUIRE(h.Add(when, *noting) > 0);
  }
  CHECK(Says(h.Run(When::kBeforePause), "HOOK_FAILED", "hook bad returned 3"));
  CHECK(good.calls == 1);
  CHECK(worse.calls == 0);
  CHECK(last.calls == 0);
  CHECK(Says(h.Run(When::kAfterResume), "HOOK_FAILED", "hook bad returned 3"));
  CHECK(worse.calls == 1);
  CHECK(last.calls == 1);
}

TEST_CASE("one that takes too long is named, and none runs until it has ended") {
  Hooks h;
  Noting slow{"slow"}, next{"next"}, after{"after"};
  slow.held = true;
  REQUIRE(h.Add(When::kAfterResume, after) > 0);
  REQUIRE(h.Add(When::kBeforePause, slow, 20) > 0);
  REQUIRE(h.Add(When::kBeforePause, next) > 0);
  CHECK(Says(h.Run(When::kBeforePause), "HOOK_TIMEOUT", "hook slow"));
  CHECK(Says(h.Run(When::kAfterResume), "HOOK_TIMEOUT", "hook slow"));
  CHECK(after.calls == 0);
  slow.held = false;
  h.Settle();
  CHECK(next.calls == 0);
  CHECK(after.calls == 1);  // it was owed
  CHECK(h.Run(When::kBeforePause).ok());
  CHECK(next.calls == 1);
}

TEST_CASE("a cancellation does not wait for the hook") {
  Hooks h;
  Noting slow{"slow"};
  slow.held = true;
  REQUIRE(h.Add(When::kBeforePause, slow) > 0);
  std::atomic<bool> cancel{false};
  std::thread other([&] {
    while (slow.calls == 0) std::this_thread::yield();
    cancel = true;
  });
  CHECK(Says(h.hooks.Run(When::kBeforePause, h.fake.driver(), cancel), "CANCELLED", "hooks"));
  other.join();
  slow.held = false;
  h.Settle();
}

TEST_CASE("a hook that is removed does not run any more once that has returned") {
  Hooks h;
  Noting slow{"slow"};
  slow.held = true;
  const int number = h.Add(When::kBeforePause, slow);
  std::atomic<bool> removed{false};
  std::thread run([&] { CHECK(h.Run(When::kBeforePause).ok()); });
  while (slow.calls == 0) std::this_thread::yield();
  std::thread remove([&] {
    CHECK(h.hooks.Remove(number) == PauseHooks::Removal::kRemoved);
    removed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(removed);
  slow.held = false;
  remove.join();
  run.join();
  CHECK(h.Run(When::kBeforePause).ok());
  CHECK(slow.calls == 1);
}

TEST_CASE("a hook may remove itself and register others") {
  struct Self {
    PauseHooks* hooks;
    int number;
    PauseHooks::Removal removed;
    Noting other{"other"};
    static int Call(void* arg) {
      auto& self = *static_cast<Self*>(arg);
      self.removed = self.hooks->Remove(self.number);
      self.hooks->Add(When::kBeforePause, "other", Noting::Call, &self.other, 5000);
      return 0;
    }
  };
  Hooks h;
  Self self{&h.hooks, 0, PauseHooks::Removal::kUnknown};
  self.number = h.hooks.Add(When::kBeforePause, "self", Self::Call, &self, 5000);
  REQUIRE(h.Run(When::kBeforePause).ok());
  CHECK(self.removed == PauseHooks::Removal::kRemoved);
  CHECK(self.other.calls == 0);  // or one that registers itself anew would never end
  REQUIRE(h.Run(When::kBeforePause).ok());
  CHECK(self.other.calls == 1);
}

TEST_CASE("as many as there is room for") {
  Hooks h;
  Noting noting{"n"};
  int last = 0;
  for (size_t i = 0; i < PauseHooks::kMost; ++i) {
    last = h.Add(When::kAfterResume, noting);
    REQUIRE(last > 0);
  }
  CHECK(h.Add(When::kAfterResume, noting) == 0);
  CHECK(h.hooks.Remove(last) == PauseHooks::Removal::kRemoved);
  CHECK(h.Add(When::kAfterResume, noting) > last);
  REQUIRE(h.Run(When::kAfterResume).ok());
  CHECK(noting.calls == int(PauseHooks::kMost));
}

TEST_CASE("what hooks do harms no capture") {
  Hooks h;
  CUstreamCaptureMode found = CU_STREAM_CAPTURE_MODE_GLOBAL;
  struct Asking {
    const Driver& driver;
    CUstreamCaptureMode* found;
    static int Call(void* self) {
      auto& asking = *static_cast<Asking*>(self);
      *asking.found = CU_STREAM_CAPTURE_MODE_RELAXED;
      return int(asking.driver.capture_mode_exchange(asking.found));
    }
  } asking{h.fake.driver(), &found};
  REQUIRE(h.hooks.Add(When::kBeforePause, "asking", Asking::Call, &asking, 5000) > 0);
  REQUIRE(h.Run(When::kBeforePause).ok());
  CHECK(found == CU_STREAM_CAPTURE_MODE_RELAXED);
}

}  // namespace
}  // namespace parkade::shim
