// The account of free HBM: who may set out for it, who waits, who is refused.
#include "daemon/gpu_account.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

using ByGpu = GpuAccount::ByGpu;

// A GPU "g" with so much free, as its driver says.
struct Gpu {
  explicit Gpu(Bytes bytes) : free(bytes) {}
  GpuAccount::Free Asked() {
    return [this](const auto& uuids) {
      ++looks;
      ByGpu answer;
      for (const auto& uuid : uuids) {
        if (uuid == "g") answer[uuid] = free.load();
      }
      return answer;
    };
  }
  std::atomic<Bytes> free;
  std::atomic<int> looks{0};
};

// A resume whose processes hold `resident`. Others may ask about it a moment after it has ended.
struct Resume {
  struct Processes {
    std::atomic<Bytes> resident{0};
    std::atomic<bool> ended{false};
  };
  explicit Resume(GpuAccount& account)
      : booking(account, {[asked = processes] {
                            return ByGpu{{"g", asked->resident.load()}};
                          },
                          [asked = processes] { return asked->ended.load(); }}) {}
  const std::shared_ptr<Processes> processes = std::make_shared<Processes>();
  std::atomic<Bytes>& resident = processes->resident;
  std::atomic<bool>& ended = processes->ended;
  GpuAccount::Booking booking;
};

const Deadline kNow = Deadline::InMs(0);
Deadline Soon() { return Deadline::InMs(10'000); }

}  // namespace

TEST_CASE("without time to wait the driver's word decides at once") {
  Gpu gpu(100);
  GpuAccount account(gpu.Asked());
  Resume a(account), b(account);
  CHECK(a.booking.Book({{"g", 100}}, kNow).ok());
  CHECK(a.booking.waited_seconds() == 0);
  // What another has booked may be more than it takes: only what is certain refuses.
  CHECK(b.booking.Book({{"g", 100}}, kNow).ok());
  const auto refused = b.booking.Book({{"g", 101}}, kNow);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReasonOf(refused) == "GPU_MEMORY");
}

TEST_CASE("a GPU that the driver does not know has room") {
  Gpu gpu(0);
  GpuAccount account(gpu.Asked());
  Resume a(account);
  CHECK(a.booking.Book({{"other", 1}}, kNow).ok());
}

TEST_CASE("one that waits sets out when the memory is free") {
  Gpu gpu(10);
  GpuAccount account(gpu.Asked());
  Resume a(account);
  std::thread pause([&] {
    while (gpu.looks < 3) sched_yield();
    gpu.free = 50;
    account.Changed();
  });
  CHECK(a.booking.Book({{"g", 50}}, Soon()).ok());
  CHECK(a.booking.waited_seconds() > 0);
  pause.join();
}

TEST_CASE("what one has booked another waits for, until it is taken or given back") {
  Gpu gpu(100);
  GpuAccount account(gpu.Asked());
  Resume other(account);
  auto first = std::make_unique<Resume>(account);
  REQUIRE(first->booking.Book({{"g", 60}}, Soon()).ok());
  CHECK(other.booking.Book({{"g", 40}}, Deadline::InMs(50)).ok());  // beside it
  const auto waits = [&](Bytes bytes, const std::function<void()>& until) {
    const int looks = gpu.looks;
    std::thread change([&] {
      while (gpu.looks < looks + 3) sched_yield();
      until();
    });
    const auto booked = other.booking.Book({{"g", bytes}}, Soon());
    change.join();
    return booked.ok() && gpu.looks >= looks + 3;
  };
  // Half of its bytes are there, so the driver has less free, and less of it is spoken for.
  CHECK(waits(60, [&] {
    gpu.free = 90;
    first->resident = 30;
  }));
  CHECK(waits(85, [&] { first.reset(); }));
}

TEST_CASE("two that want the same bytes get them one after the other") {
  Gpu gpu(60);
  GpuAccount account(gpu.Asked());
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> resumes;
  for (int i = 0; i < 4; ++i) {
    resumes.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        Resume mine(account);
        if (!mine.booking.Book({{"g", 60}}, Soon()).ok()) most = 99;
        most = std::max(most.load(), ++inside);
        sched_yield();
        --inside;
      }
    });
  }
  for (auto& thread : resumes) thread.join();
  CHECK(most == 1);
}

TEST_CASE("waiting ends with the deadline, with the process, and with the daemon") {
  Gpu gpu(10);
  GpuAccount account(gpu.Asked());
  Resume a(account);
  CHECK(ReasonOf(a.booking.Book({{"g", 50}}, Deadline::InMs(30))) == "GPU_MEMORY");
  CHECK(gpu.looks > 1);
  a.ended = true;
  CHECK(ReasonOf(a.booking.Book({{"g", 50}}, Soon())) == "GPU_MEMORY");
  a.ended = false;
  std::thread end([&] {
    while (gpu.looks < 6) sched_yield();
    account.Close();
  });
  const auto closed = a.booking.Book({{"g", 50}}, Soon());
  end.join();
  CHECK(ReasonOf(closed) == "SHUTTING_DOWN");
  a.booking.AwaitChange(Soon());  // returns
}

TEST_CASE("who looks for the last time looks again where something changed meanwhile") {
  Bytes free = 10;
  GpuAccount* account = nullptr;
  GpuAccount changing([&](const auto&) {
    const ByGpu answer{{"g", free}};
    if (free == 10) {
      free = 100;
      account->Changed();
    }
    return answer;
  });
  account = &changing;
  Resume a(changing);
  CHECK(a.booking.Book({{"g", 50}}, kNow).ok());
}

TEST_CASE("what others have booked beyond what is free takes nothing of what leaves") {
  GpuAccount::Room room{.free = 50, .booked = 100, .reserved = 0, .ahead = 0};
  CHECK_FALSE(room.HasFor(1));
  CHECK(room.HasFor(60, 60));
  CHECK_FALSE(room.HasFor(61, 60));
  room = {.free = 50, .booked = 10, .reserved = 20, .ahead = 5};
  CHECK(room.HasFor(75, 60));
  CHECK_FALSE(room.HasFor(76, 60));
  room.free.reset();
  CHECK_FALSE(room.HasFor(0, 60));
}

TEST_CASE("what is promised to a handoff nobody else sets out for, waiting or not") {
  Gpu gpu(50);
  GpuAccount account(gpu.Asked());
  Resume handoff(account), other(account);
  handoff.booking.Promise({{"g", 100}});
  CHECK_FALSE(other.booking.Book({{"g", 1}}, kNow).ok());
  gpu.free = 100;  // as the other side leaves
  CHECK_FALSE(other.booking.Book({{"g", 1}}, kNow).ok());
  handoff.resident = 100;
  gpu.free = 10;
  CHECK(other.booking.Book({{"g", 10}}, kNow).ok());
}

TEST_CASE("a wait for free memory ends when it is there beside what is booked, or in time") {
  Gpu gpu(100);
  GpuAccount account(gpu.Asked());
  const auto never = [] { return false; };
  CHECK(account.WaitForRoom("g", 100, kNow, never).HasFor(100));
  CHECK_FALSE(account.WaitForRoom("other", 1, Soon(), never).free.has_value());
  {
    Resume a(account);
    REQUIRE(a.booking.Book({{"g", 60}}, kNow).ok());
    const auto room = account.WaitForRoom("g", 50, kNow, never);
    CHECK_FALSE(room.HasFor(50));
    CHECK(room.booked == 60);
    CHECK(room.HasFor(40));
    std::atomic<bool> gives_up{false};
    std::thread leaves([&] { gives_up = true; });
    CHECK_FALSE(account.WaitForRoom("g", 50, Soon(), [&] { return gives_up.load(); }).HasFor(50));
    leaves.join();
  }
  gpu.free = 0;
  std::thread frees([&] {
    while (gpu.looks < 10) sched_yield();
    gpu.free = 70;
  });
  CHECK(account.WaitForRoom("g", 70, Soon(), never).HasFor(70));
  frees.join();
}
