// The queue for GPU memory: turns by priority and arrival, on each GPU by itself.
#include "daemon/gpu_queue.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <thread>

#include "daemon/gpu_account.h"
#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

using Last = GpuAccount::Booking::Last;

// GPUs "g" and "h" with so much free, as their driver says, and what is reserved.
struct Gpus {
  std::atomic<Bytes> g{0}, h{0};
  std::atomic<Bytes> reserved{0};  // of g
  GpuAccount account{[this](const auto& uuids) {
                       ByGpu answer;
                       for (const auto& uuid : uuids) {
                         if (uuid == "g") answer[uuid] = g.load();
                         if (uuid == "h") answer[uuid] = h.load();
                       }
                       return answer;
                     },
                     [this] {
                       return ByGpu{{"g", reserved.load()}};
                     }};
};

// A request on a thread of its own, which keeps what it has booked until it is let go.
class Request {
 public:
  Request(Gpus& gpus, ByGpu needed, int32_t priority = 0, uint64_t wait_ms = 10'000,
          Last last = Last::kByDriver, std::string name = "")
      : thread_([this, &gpus, needed, priority, wait_ms, last, name] {
          GpuAccount::Booking booking(gpus.account,
                                      {[] { return ByGpu{}; }, [this] { return gives_up_.load(); },
                                       [this](std::vector<GpuWait> waits) {
                                         const MutexLock lock(mu_);
                                         waits_ = std::move(waits);
                                       },
                                       name, priority, last});
          const absl::Status status = booking.Book(needed, Deadline::InMs(wait_ms));
          {
            const MutexLock lock(mu_);
            status_ = status;
          }
          while (status.ok() && !let_go_) sched_yield();
        }) {}
  ~Request() {
    gives_up_ = let_go_ = true;
    thread_.join();
  }

  void GiveUp() { gives_up_ = true; }
  std::optional<absl::Status> status() {
    const MutexLock lock(mu_);
    return status_;
  }
  bool Has() {
    const auto now = status();
    return now && now->ok();
  }
  // Waits for what it hears to be so, 5 s at most.
  bool WaitsFor(const std::function<bool(const std::vector<GpuWait>&)>& wanted) {
    return Eventually([&] {
      const MutexLock lock(mu_);
      return wanted(waits_);
    });
  }
  bool WaitsAt(uint32_t position, Bytes ahead) {
    return WaitsFor([&](const auto& waits) {
      return waits.size() == 1 && waits[0].position == position && waits[0].ahead == ahead;
    });
  }
  bool Ends() {
    return Eventually([this] { return status().has_value(); });
  }
  static bool Eventually(const std::function<bool()>& condition) {
    for (const Deadline by = Deadline::InMs(5000); !condition(); sched_yield()) {
      if (by.Passed()) return false;
    }
    return true;
  }

 private:
  Mutex mu_;
  std::vector<GpuWait> waits_ GUARDED_BY(mu_);
  std::optional<absl::Status> status_ GUARDED_BY(mu_);
  std::atomic<bool> gives_up_{false}, let_go_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("those of one priority stand in the order of their arrival, behind those of a higher") {
  GpuQueue queue;
  GpuQueue::Place first{0}, second{0}, urgent{5}, idle{-1};
  queue.Enter(idle, {{"g", 1}}, "idle", 10);
  queue.Enter(first, {{"g", 10}, {"h", 3}}, "first", 11);
  queue.Enter(second, {{"g", 20}}, "second", 12);
  queue.Enter(urgent, {{"g", 40}}, "urgent", 13);
  std::vector<std::string> order;
  for (const auto& waiter : queue.On("g")) order.push_back(waiter.name);
  CHECK(order == std::vector<std::string>{"urgent", "first", "second", "idle"});
  CHECK(queue.On("g")[2].position == 3);
  CHECK(queue.On("h").size() == 1);
  const auto ahead = queue.AheadOf(second);
  CHECK(ahead.bytes.at("g") == 50);
  CHECK(ahead.count.at("g") == 2);
  CHECK(queue.AheadOf(idle).bytes.at("h") == 3);
  CHECK(queue.Leave(first));
  CHECK_FALSE(queue.Leave(first));
  CHECK(queue.AheadOf(second).bytes.at("g") == 40);
  // One that comes back has the place that it had.
  queue.Enter(first, {{"g", 10}}, "first", 99);
  CHECK(queue.AheadOf(second).bytes.at("g") == 50);
  CHECK(queue.On("g")[1].since_ns == 11);
}

TEST_CASE("a small request does not overtake an earlier one that is larger") {
  Gpus gpus;
  gpus.g = 50;
  Request large(gpus, {{"g", 80}});
  REQUIRE(large.WaitsAt(1, 0));
  Request small(gpus, {{"g", 10}});
  REQUIRE(small.WaitsAt(2, 80));
  // Nor one that does not wait.
  Request hasty(gpus, {{"g", 10}}, 0, 0);
  REQUIRE(hasty.Ends());
  CHECK(ReasonOf(*hasty.status()) == "GPU_MEMORY");
  CHECK(MetadataOf(*hasty.status()).at("ahead_bytes") == "90");
  gpus.g = 85;
  REQUIRE(large.Ends());
  CHECK(large.Has());
  CHECK_FALSE(small.status());
  gpus.g = 90;
  REQUIRE(small.Ends());
  CHECK(small.Has());
}

TEST_CASE("a higher priority goes first, and what is beside those ahead may be taken") {
  Gpus gpus;
  Request low(gpus, {{"g", 60}});
  REQUIRE(low.WaitsAt(1, 0));
  Request high(gpus, {{"g", 50}}, 1);
  REQUIRE(high.WaitsAt(1, 0));
  REQUIRE(low.WaitsAt(2, 50));
  gpus.g = 60;
  REQUIRE(high.Ends());
  CHECK(high.Has());
  CHECK_FALSE(low.status());
  gpus.g = 110;
  REQUIRE(low.Ends());
  CHECK(low.Has());
}

TEST_CASE("each GPU has a queue of its own") {
  Gpus gpus;
  gpus.h = 100;
  Request waits(gpus, {{"g", 10}});
  REQUIRE(waits.WaitsAt(1, 0));
  Request other(gpus, {{"h", 100}});
  REQUIRE(other.Ends());
  CHECK(other.Has());
  // One that needs both stands in both.
  Request both(gpus, {{"g", 5}, {"h", 5}});
  REQUIRE(both.WaitsFor([](const auto& all) {
    return all.size() == 2 && all[0].position == 2 && all[1].position == 1 && all[1].booked == 100;
  }));
  CHECK(gpus.account.WaitersOn("h").size() == 1);
  CHECK(gpus.account.WaitersOn("g").size() == 2);
}

TEST_CASE("one that gives up, or whose time is over, leaves the queue to the next") {
  Gpus gpus;
  gpus.g = 50;
  Request gone(gpus, {{"g", 80}});
  REQUIRE(gone.WaitsAt(1, 0));
  Request late(gpus, {{"g", 70}}, 0, 300);
  REQUIRE(late.WaitsAt(2, 80));
  Request next(gpus, {{"g", 40}});
  REQUIRE(next.WaitsAt(3, 150));
  gone.GiveUp();
  REQUIRE(gone.Ends());
  CHECK(ReasonOf(*gone.status()) == "GPU_MEMORY");
  REQUIRE(late.Ends());
  CHECK(ReasonOf(*late.status()) == "GPU_MEMORY");
  REQUIRE(next.Ends());
  CHECK(next.Has());
}

TEST_CASE("what is reserved nobody gets, at the end of his time neither") {
  Gpus gpus;
  gpus.g = 100;
  gpus.reserved = 70;
  Request hasty(gpus, {{"g", 40}}, 0, 0);
  REQUIRE(hasty.Ends());
  CHECK(ReasonOf(*hasty.status()) == "GPU_MEMORY");
  CHECK(MetadataOf(*hasty.status()).at("reserved_bytes") == "70");
  Request waits(gpus, {{"g", 40}});
  REQUIRE(waits.WaitsFor([](const auto& all) { return all.size() == 1 && all[0].reserved == 70; }));
  const auto room = gpus.account.RoomOn("g");
  CHECK(room.reserved == 70);
  CHECK(room.ahead == 40);
  CHECK_FALSE(room.HasFor(31));
  gpus.reserved = 60;
  REQUIRE(waits.Ends());
  CHECK(waits.Has());
}

TEST_CASE("the GPU that a refusal names is the one that is short, not the one with less free") {
  Gpus gpus;
  gpus.g = 100;
  gpus.reserved = 70;
  gpus.h = 10;
  Request both(gpus, {{"g", 40}, {"h", 10}}, 0, 0);
  REQUIRE(both.Ends());
  CHECK(MetadataOf(*both.status()).at("gpu_uuid") == "g");
  CHECK(MetadataOf(*both.status()).at("reserved_bytes") == "70");
}

TEST_CASE("who keeps memory for later must have it beside what resumes have booked") {
  Gpus gpus;
  gpus.g = 100;
  Request resume(gpus, {{"g", 60}});
  REQUIRE(resume.Ends());
  Request reserve(gpus, {{"g", 50}}, 0, 0, Last::kByAccount);
  REQUIRE(reserve.Ends());
  CHECK(ReasonOf(*reserve.status()) == "GPU_MEMORY");
  CHECK(MetadataOf(*reserve.status()).at("booked_bytes") == "60");
  Request fits(gpus, {{"g", 40}}, 0, 0, Last::kByAccount);
  REQUIRE(fits.Ends());
  CHECK(fits.Has());
}

TEST_CASE("after a refusal of the driver's one has its place before those that came later") {
  Gpus gpus;
  gpus.g = 60;
  GpuAccount::Booking first(gpus.account, {[] { return ByGpu{}; }, [] { return false; }});
  REQUIRE(first.Book({{"g", 60}}, Deadline::InMs(0)).ok());
  Request second(gpus, {{"g", 50}});
  REQUIRE(second.WaitsAt(1, 0));
  first.AwaitChange(Deadline::InMs(5000));
  REQUIRE(second.WaitsAt(2, 60));
  CHECK(first.Book({{"g", 60}}, Deadline::InMs(5000)).ok());
}
