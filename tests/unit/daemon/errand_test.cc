// Errand: what processes find in their backups, and what ends their work on them.
#include "daemon/errand.h"

#include <sched.h>

#include <thread>

#include "daemon/status.h"
#include "tests/unit/daemon/wired_group.h"

namespace parkade::daemon {
namespace {

using parkade::testing::Act;
using parkade::testing::FakeShim;
using parkade::testing::kToHost;
using parkade::testing::WiredGroup;

// A group of two, paused.
struct Paused : WiredGroup {
  Paused() : WiredGroup({2000, 2000, 2000}, 2) {
    auto transition = Begin();
    REQUIRE(transition.Prepare({}).ok());
    REQUIRE(transition.Commit(kToHost).ok());
    for (const auto& w : wired) processes.push_back(w->process());
  }
  ProcessList processes;
  Errand::Ask verify = [this](size_t i, const auto& round) {
    processes[i]->Send(wire::Make<wire::Verify>(), round, i);
  };
  Course course{Origin{"op-1", "uid 1", "", 0}};
};

wire::WrongBlock WrongAt(uint64_t address, bool missing) {
  wire::WrongBlock wrong{};
  wrong.address = address;
  wrong.bytes = 4096;
  wrong.device = 1;
  wrong.place = uint32_t(missing ? wire::Place::kDisk : wire::Place::kHost);
  wrong.file = missing ? 2 : 0;
  wrong.offset = missing ? 8192 : 0;
  wrong.missing = missing ? 1 : 0;
  return wrong;
}

bool WaitForVerify(const FakeShim& shim, int count = 1) {
  for (const Deadline by = Deadline::InMs(5000); !by.Passed(); sched_yield()) {
    if (shim.Count(wire::Type::kVerify) >= count) return true;
  }
  return false;
}

TEST_CASE("whole backups are read, and their processes stay paused") {
  Paused p;
  Errand errand(p.processes, p.course, 2000, p.verify);
  REQUIRE(errand.Run().ok());
  REQUIRE(errand.outcomes().size() == 2);
  for (const Outcome& outcome : errand.outcomes()) {
    CHECK(outcome.stats.host_bytes == 1_MiB);
    CHECK(outcome.stats.wrong_blocks == 0);
    CHECK(outcome.state == wire::ProcessState::kPaused);
  }
  CHECK(p.AllAre(wire::ProcessState::kPaused));
}

TEST_CASE(
    "each wrong block is told of with its address and place, and the first one is the error") {
  Paused p;
  p.shim(0).SetWrong({WrongAt(0x7000, true), WrongAt(0x9000, false)});
  p.shim(1).SetWrong({WrongAt(0x5000, false)});
  Errand errand(p.processes, p.course, 2000, p.verify);
  const absl::Status failed = errand.Run();
  CHECK(failed.code() == absl::StatusCode::kDataLoss);
  CHECK(ReasonOf(failed) == "BACKUP_MISSING");
  CHECK(MetadataOf(failed).at("pid") == "100");
  CHECK(MetadataOf(failed).at("wrong_blocks") == "3");
  const auto& first = errand.outcomes()[0].wrong_blocks;
  REQUIRE(first.size() == 2);
  CHECK(first[0].address == 0x7000);
  CHECK(first[0].on_disk);
  CHECK(first[0].file == 2);
  CHECK(first[0].offset == 8192);
  CHECK(first[0].missing);
  CHECK(first[1].device == 1);
  CHECK_FALSE(first[1].on_disk);
  CHECK_FALSE(first[1].missing);
  CHECK(errand.outcomes()[1].wrong_blocks[0].address == 0x5000);
}

TEST_CASE("each of several is told what it is granted, and what has moved is told") {
  Paused p;
  const Bytes grants[] = {1_MiB, 4096};
  const auto to = [&](wire::Place place) {
    return [&p, &grants, place](size_t i, const auto& round) {
      auto shift = wire::Make<wire::Shift>();
      shift.to = uint32_t(place);
      shift.host_bytes = grants[i];
      p.processes[i]->Send(shift, round, i);
    };
  };
  Errand to_disk(p.processes, p.course, 2000, to(wire::Place::kDisk));
  REQUIRE(to_disk.Run().ok());
  for (const Outcome& outcome : to_disk.outcomes()) CHECK(outcome.stats.disk_bytes == 1_MiB);
  Errand to_host(p.processes, p.course, 2000, to(wire::Place::kHost));
  REQUIRE(to_host.Run().ok());
  CHECK(to_host.outcomes()[0].stats.host_bytes == 1_MiB);
  CHECK(to_host.outcomes()[0].stats.left_bytes == 0);
  CHECK(to_host.outcomes()[1].stats.host_bytes == 4096);
  CHECK(to_host.outcomes()[1].stats.left_bytes == 1_MiB - 4096);
  CHECK(p.shim(1).last_shift().host_bytes == 4096);
  CHECK(p.AllAre(wire::ProcessState::kPaused));
}

TEST_CASE("a wish to cancel ends the reading") {
  Paused p;
  p.shim(0).HoldVerify();
  std::thread cancels([&] {
    CHECK(WaitForVerify(p.shim(0)));
    p.course.Cancel("uid 1");
  });
  Errand errand(p.processes, p.course, 20'000, p.verify);
  const absl::Status failed = errand.Run();
  cancels.join();
  CHECK(ReasonOf(failed) == "CANCELLED");
  CHECK(MetadataOf(failed).at("operation") == "op-1");
  CHECK(p.AllAre(wire::ProcessState::kPaused));
}

TEST_CASE("a reading that comes to nothing is stopped, so that it does not go on unheard") {
  Paused p;
  p.shim(0).HoldVerify();
  Errand errand(p.processes, p.course, 200, p.verify);
  const absl::Status failed = errand.Run();
  CHECK(ReasonOf(failed) == "SHIM_STALLED");
  CHECK(MetadataOf(failed).at("pid") == "100");
  CHECK(WaitForVerify(p.shim(0), 2));
  CHECK(errand.outcomes()[1].stats.host_bytes == 1_MiB);
  CHECK(p.AllAre(wire::ProcessState::kPaused));
}

TEST_CASE("the progress of a reading does not run backwards when one of several has read all") {
  Paused p;
  p.course.Concerns(p.processes);
  p.course.Moves();
  p.shim(0).SetMoving(7, 30, 100);
  p.shim(1).SetMoving(8, 10, 50);
  CHECK((p.course.progress()->done == 40 && p.course.progress()->total == 150));
  p.shim(0).SetMoving(0, 100, 100);
  CHECK((p.course.progress()->done == 110 && p.course.progress()->total == 150));
  p.shim(1).SetMoving(0, 50, 50);
  CHECK((p.course.progress()->done == 150 && p.course.progress()->total == 150));
}

TEST_CASE("a resume in the middle wins") {
  Paused p;
  p.shim(0).HoldVerify();
  std::thread resumes([&] {
    CHECK(WaitForVerify(p.shim(0)));
    auto transition = p.Begin();
    CHECK(transition.Resume({}).ok());
  });
  Errand errand(p.processes, p.course, 20'000, p.verify);
  const absl::Status failed = errand.Run();
  resumes.join();
  CHECK(failed.code() == absl::StatusCode::kCancelled);
  CHECK(MetadataOf(failed).at("pid") == "100");
  CHECK(p.AllAre(wire::ProcessState::kRunning));
}

TEST_CASE("a process that ends, disconnects or hangs is named") {
  Paused p;
  p.shim(0).On(wire::Type::kVerify, Act::kDisconnect);
  {
    Errand errand(p.processes, p.course, 2000, p.verify);
    const absl::Status failed = errand.Run();
    CHECK(ReasonOf(failed) == "SHIM_DISCONNECTED");
    CHECK(MetadataOf(failed).at("pid") == "100");
  }
  Paused hung;
  hung.shim(1).On(wire::Type::kVerify, Act::kHang);
  Errand errand(hung.processes, hung.course, 200, hung.verify);
  const absl::Status failed = errand.Run();
  CHECK(ReasonOf(failed) == "SHIM_STALLED");
  CHECK(MetadataOf(failed).at("pid") == "101");
}

}  // namespace
}  // namespace parkade::daemon
