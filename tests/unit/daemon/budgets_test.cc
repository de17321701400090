// Budgets of the node and of jobs: what counts, what is refused and in which words, what is kept.
#include "daemon/budgets.h"

#include "daemon/host_budget.h"
#include "daemon/host_reclaim.h"
#include "daemon/status.h"
#include "tests/unit/daemon/scratch_parts.h"
#include "tests/unit/daemon/test_dir.h"
#include "tests/unit/daemon/wired_group.h"

namespace parkade::daemon {
namespace {

using parkade::testing::FakeShimSettings;
using parkade::testing::kToHost;
using parkade::testing::MakeIn;
using parkade::testing::Self;
using parkade::testing::TestDir;
using parkade::testing::Wired;
using wire::Policy;

// Processes of two jobs, of which those of `rl` are paused in host memory with 8 MiB each.
struct Jobs {
  Jobs() {
    for (const char* job : {"rl", "rl", "other"}) {
      FakeShimSettings settings;
      settings.allocations = {{8_MiB}};
      settings.job = job;
      wired.push_back(std::make_unique<Wired>(100 + int(wired.size()), settings));
      registry.Add(wired.back()->process());
    }
  }
  void Pause(size_t index) {
    std::vector<Member> members(1);
    members[0].process = wired[index]->process();
    members[0].grant.host = 8_MiB;
    Transition transition(members, events, {2000, 2000, 2000});
    REQUIRE(transition.Prepare({}).ok());
    REQUIRE(transition.Commit(kToHost).ok());
  }
  Demand DemandFor(size_t index, Bytes bytes = 8_MiB) {
    Demand demand;
    demand.pid = 100 + int(index);
    demand.by_tag["default"] = bytes;
    demand.largest = bytes;
    return demand;
  }
  absl::StatusOr<std::vector<Grant>> Plan(Policy policy, Demand demand) {
    HostBudget budget(budgets);
    HostBudget::Booking booking(budget);
    return booking.Plan({policy, {}}, std::span(&demand, 1));
  }

  Registry registry;
  Events events;
  std::vector<std::unique_ptr<Wired>> wired;
  Budgets budgets{std::nullopt, registry};
};

TEST_CASE("a job's budget counts what its processes hold, and names them where it is full") {
  Jobs jobs;
  jobs.Pause(0);
  REQUIRE(jobs.budgets.Set({"rl", 12_MiB, {}}).ok());
  const auto refused = jobs.Plan(Policy::kHost, jobs.DemandFor(1)).status();
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReasonOf(refused) == "HOST_MEMORY");
  const Metadata said = MetadataOf(refused);
  CHECK(said.at("budget") == "job");
  CHECK(said.at("job") == "rl");
  CHECK(said.at("budget_bytes") == std::to_string(12_MiB));
  CHECK(said.at("used_bytes") == std::to_string(8_MiB));
  CHECK(said.at("users") == "100=" + std::to_string(8_MiB));
  CHECK(said.at("needed_bytes") == std::to_string(8_MiB));
  CHECK(said.at("free_bytes") == std::to_string(4_MiB));
  CHECK_FALSE(said.contains("cgroup"));
  CHECK(MessageOf(refused).find("the budget of the job rl is 12.0 MiB") != std::string::npos);
  // Another job has none, and under auto the rest goes to disk.
  CHECK(jobs.Plan(Policy::kHost, jobs.DemandFor(2)).ok());
  const auto split = jobs.Plan(Policy::kAuto, jobs.DemandFor(1));
  REQUIRE(split.ok());
  CHECK(split->front().host == 4_MiB);
  CHECK(split->front().disk >= 4_MiB);
  CHECK_FALSE(split->front().spills);  // more host memory on the node would not help
}

TEST_CASE("the node's budget counts everybody, and 0 ends it") {
  Jobs jobs;
  jobs.Pause(0);
  REQUIRE(jobs.budgets.Set({"", 12_MiB, {}}).ok());
  const auto refused = jobs.Plan(Policy::kHost, jobs.DemandFor(2)).status();
  CHECK(ReasonOf(refused) == "HOST_MEMORY");
  CHECK(MetadataOf(refused).at("budget") == "node");
  CHECK(MetadataOf(refused).at("users") == "100=" + std::to_string(8_MiB));
  CHECK(MessageOf(refused).find("the budget of the node is 12.0 MiB") != std::string::npos);
  REQUIRE(jobs.budgets.Set({"", 0, {}}).ok());
  CHECK(jobs.Plan(Policy::kHost, jobs.DemandFor(2)).ok());
}

TEST_CASE("a disk budget is checked before anything moves, with what others have booked") {
  Jobs jobs;
  REQUIRE(jobs.budgets.Set({"", {}, 12_MiB}).ok());
  REQUIRE(jobs.budgets.Set({"rl", {}, 8_MiB}).ok());
  const auto large = jobs.Plan(Policy::kDisk, jobs.DemandFor(0, 10_MiB)).status();
  CHECK(large.code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReasonOf(large) == "DISK_SPACE");
  CHECK(MetadataOf(large).at("job") == "rl");
  CHECK(MetadataOf(large).at("needed_bytes") == std::to_string(10_MiB));
  CHECK(MessageOf(large).find("the budget of the job rl is 8.0 MiB") != std::string::npos);
  HostBudget budget(jobs.budgets);
  HostBudget::Booking first(budget), second(budget);
  const Demand mine = jobs.DemandFor(0), others = jobs.DemandFor(2);
  REQUIRE(first.Plan({Policy::kDisk, {}}, std::span(&mine, 1)).ok());
  const auto refused = second.Plan({Policy::kDisk, {}}, std::span(&others, 1)).status();
  CHECK(MetadataOf(refused).at("budget") == "node");
  CHECK(MetadataOf(refused).at("used_bytes") == std::to_string(8_MiB));
}

TEST_CASE("host memory that is kept is asked for, also of who is paused in part") {
  Jobs jobs;
  jobs.Pause(0);
  ProcessList asked;
  CHECK_FALSE(ReclaimHostMemory(jobs.registry, asked));  // its backup is all it has
  jobs.wired[0]->shim().KeepHost(4_MiB);
  CHECK(ReclaimHostMemory(jobs.registry, asked));
  CHECK(jobs.wired[0]->shim().Count(wire::Type::kReleaseHost) == 1);
  CHECK(asked == ProcessList{jobs.wired[0]->process()});
  CHECK_FALSE(ReclaimHostMemory(jobs.registry, asked));
}

TEST_CASE("what a process claims to have on disk counts up to what its directory holds") {
  const TestDir dir;
  Jobs jobs;
  std::vector<Member> members(1);
  members[0].process = jobs.wired[0]->process();
  members[0].scratch = MakeIn(dir.path(), Self());
  REQUIRE(members[0].scratch->Reserve(8_MiB).ok());
  Transition transition(members, jobs.events, {2000, 2000, 2000});
  REQUIRE(transition.Prepare({}).ok());
  REQUIRE(transition.Commit({{Policy::kDisk, {}}, 256_MiB}).ok());
  const auto on_disk = [&] { return jobs.budgets.Of("rl").use.DiskBytes(); };
  CHECK(members[0].process->View().ledger->disk_backup_bytes == 8_MiB);
  CHECK(on_disk() == 0);  // it has no directory
  REQUIRE(members[0].process->SetScratch(members[0].scratch));
  CHECK(on_disk() == 8_MiB);
  std::shared_ptr<ScratchDirectory> small = MakeIn(dir.path(), Self());
  REQUIRE(small->Reserve(2_MiB).ok());
  REQUIRE(members[0].process->SetScratch(small));
  CHECK(on_disk() == 2_MiB);
  CHECK(jobs.budgets.Of("rl").use.out.at(100) == 2_MiB);
  small->Join(MakeIn(dir.path(), Self()));
  REQUIRE(small->stripes()[0]->Reserve(3_MiB).ok());
  CHECK(on_disk() == 5_MiB);
}

TEST_CASE("what is out stays where a budget becomes smaller, and that is shown") {
  Jobs jobs;
  jobs.Pause(0);
  REQUIRE(jobs.budgets.Set({"rl", 4_MiB, 1_MiB}).ok());
  const auto entries = jobs.budgets.Look();
  REQUIRE(entries.size() == 2);
  CHECK_FALSE(entries[0].IsOver());
  CHECK(entries[1].IsOver());
  CHECK(entries[1].use.HostBytes() == 8_MiB);
  REQUIRE(jobs.budgets.Set({"rl", 8_MiB, {}}).ok());  // the disk's stays
  CHECK_FALSE(jobs.budgets.Of("rl").IsOver());
  CHECK(jobs.budgets.Of("rl").limits.disk == 1_MiB);
  REQUIRE(jobs.budgets.Set({"rl", 0, 0}).ok());
  CHECK(jobs.budgets.Look().size() == 1);
  CHECK(jobs.budgets.Of("rl").use.HostBytes() == 8_MiB);
}

TEST_CASE("the next daemon has the budgets, stronger than its configuration") {
  const TestDir dir;
  Registry registry;
  {
    Journal journal(dir.path(), "boot");
    Budgets budgets(1_GiB, registry, &journal);
    CHECK(budgets.Of("").limits.host == 1_GiB);
    REQUIRE(budgets.Set({"", 2_GiB, {}}).ok());
    REQUIRE(budgets.Set({"rl", {}, 5_GiB}).ok());
    REQUIRE(budgets.Set({"gone", 1, 1}).ok());
    REQUIRE(budgets.Set({"gone", 0, 0}).ok());
  }
  Journal journal(dir.path(), "boot");
  Budgets budgets(1_GiB, registry, &journal);
  CHECK(budgets.Look().size() == 2);
  CHECK(budgets.Of("").limits.host == 2_GiB);
  CHECK_FALSE(budgets.Of("").limits.disk);
  CHECK(budgets.Of("rl").limits.disk == 5_GiB);
  for (int i = 0; i < 255; ++i) REQUIRE(budgets.Set({std::to_string(i), 1, {}}).ok());
  CHECK(ReasonOf(budgets.Set({"more", 1, {}})) == "TOO_MANY_BUDGETS");
}

}  // namespace
}  // namespace parkade::daemon
