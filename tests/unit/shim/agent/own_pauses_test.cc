// Pauses and resumes of the program's own, from several threads, beside those of a daemon that the
// test plays.
#include "shim/agent/own_pauses.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::ProcessState;

struct Saver : ParkedProcess {
  Saver() { REQUIRE(operations.Init().ok()); }

  // As the agent does with a packet of the daemon's; waits for the answer.
  template <typename M>
  wire::Reply Ask(const M& message) {
    auto packet = std::make_unique<wire::Packet>();
    memcpy(packet->bytes, &message, sizeof message);
    packet->size = sizeof message;
    REQUIRE(operations.Queue(std::move(packet)).ok());
    for (;;) {
      for (const wire::Reply& reply : operations.TakeReplies()) {
        if (reply.header.op_id == message.header.op_id) return reply;
      }
      sched_yield();
    }
  }

  PauseHooks hooks;
  Operations operations{freezer, hooks, driver, *ledger};
  OwnPauses own{heap, freezer, operations, *ledger};
};

wire::Prepare PrepareFor(uint64_t op_id) {
  auto prepare = wire::Make<wire::Prepare>(op_id);
  prepare.drain_timeout_ns = 30'000'000'000;
  prepare.gate_mode = uint32_t(wire::GateMode::kClosed);
  prepare.gated_work = uint32_t(wire::GatedWork::kBlock);
  prepare.gated_allocations = uint32_t(wire::GatedAllocations::kAsWork);
  return prepare;
}

wire::Commit CommitFor(uint64_t op_id) {
  auto commit = wire::Make<wire::Commit>(op_id);
  commit.policy = uint32_t(wire::Policy::kHost);
  commit.host_bytes = 1_GiB;
  commit.chunk_bytes = 8_MiB;
  commit.block_bytes = 4_MiB;
  commit.depth = 4;
  return commit;
}

TEST_CASE("threads pause and resume each its own, while a daemon pauses and resumes all") {
  Saver p;
  const char* const tags[] = {"a", "b", "c"};
  for (const char* tag : tags) {
    for (const Saving saving : {Saving::kPinned, Saving::kPageable}) {
      p.Allocate(300'000, tag, 0, saving);
    }
  }
  p.Allocate(5000, "rest");
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (const char* tag : tags) {
    threads.emplace_back([&p, &wrong, &refused, tag] {
      for (int i = 0; i < 30; ++i) {
        refused += p.own.Pause(tag) == CUDA_SUCCESS ? 0 : 1;
        refused += p.own.Resume(tag) == CUDA_SUCCESS ? 0 : 1;
        // Work of the program's: from here the memory stays.
        if (!Gate::Enter()) continue;
        for (const ParkedProcess::Buffer& b : p.app) {
          wrong += b.tag != tag || ParkedProcess::Right(b) ? 0 : 1;
        }
        Gate::Leave();
      }
    });
  }
  for (uint64_t i = 1; i <= 20; ++i) {
    CHECK(p.Ask(PrepareFor(10 * i)).code == 0);
    const wire::Reply out = p.Ask(CommitFor(10 * i + 1));
    CHECK(out.code == 0);
    CHECK(ProcessState(out.state) == ProcessState::kPaused);
    CHECK(p.fake.handle_bytes() == 0);
    const wire::Reply back = p.Ask(wire::Make<wire::Resume>(10 * i + 2));
    CHECK(back.code == 0);
    CHECK(ProcessState(back.state) == ProcessState::kRunning);
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == 0);
  CHECK(wrong == 0);
  CHECK(p.Runs());
  CHECK(p.BytesRight());
}

TEST_CASE("the loss of the daemon forgets what it asked for, and not what the program did") {
  Saver p;
  p.Allocate(3_MiB, "a", 0, Saving::kPinned);
  std::atomic<bool> ended{false};
  std::thread losing([&] {
    while (!ended) p.operations.Settle();
  });
  for (int i = 0; i < 20; ++i) {
    CHECK(p.own.Pause("") == CUDA_SUCCESS);
    CHECK(p.fake.handle_bytes() == 0);
    CHECK(p.own.Resume("a") == CUDA_SUCCESS);
  }
  ended = true;
  losing.join();
  CHECK(p.Runs());
  CHECK(p.BytesRight());
}

TEST_CASE("a resume without room says so, and a later one succeeds") {
  Saver p;
  p.Allocate(3_MiB, "a", 0, Saving::kPinned);
  REQUIRE(p.own.Pause("a") == CUDA_SUCCESS);
  p.fake.Fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p.own.Resume("a") == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p.fake.handle_bytes() == 0);
  CHECK(p.own.Resume("a") == CUDA_SUCCESS);
  CHECK(p.BytesRight());
  CHECK(p.pool.held() == 0);
}

TEST_CASE("what a pause could neither finish nor undo is refused another, and a resume ends it") {
  Saver p;
  p.Allocate(3_MiB, "a", 0, Saving::kPinned);
  p.Allocate(300'000, "b", 0, Saving::kPinned);
  const Bytes all = p.fake.handle_bytes();
  // The second range does not leave, and for the first there is no memory any more.
  p.fake.Fail("cuMemUnmap", 2, CUDA_ERROR_UNKNOWN);
  p.fake.Fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(p.own.Pause("") != CUDA_SUCCESS);
  REQUIRE(p.Is(ProcessState::kPartlyMoved));
  CHECK(p.own.Pause("") == CUDA_ERROR_NOT_READY);
  CHECK(p.own.Resume("") == CUDA_SUCCESS);
  CHECK(p.Runs());
  CHECK(p.fake.handle_bytes() == all);
  CHECK(p.BytesRight());
}

TEST_CASE("a hook of the program's that fails refuses its own pause too") {
  Saver p;
  p.Allocate(3_MiB, "a", 0, Saving::kDiscard);
  const int hook = p.hooks.Add(
      PauseHooks::When::kBeforePause, "refusing", [](void*) { return 3; }, nullptr, 5000);
  REQUIRE(hook > 0);
  CHECK(p.own.Pause("a") == CUDA_ERROR_UNKNOWN);
  CHECK(p.BytesRight());
  REQUIRE(p.hooks.Remove(hook) == PauseHooks::Removal::kRemoved);
  CHECK(p.own.Pause("a") == CUDA_SUCCESS);
  CHECK(p.own.Resume("a") == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
