// A resume in turn: HBM only as it is allowed, every failure of it, and both ways on from its end.
#include <cstdio>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include "shim/pause/freezer.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

const char* const kCalls[] = {"cuCtxPushCurrent",   "cuEventCreate",  "cuEventRecord",
                              "cuEventSynchronize", "cuMemCreate",    "cuMemMap",
                              "cuMemRelease",       "cuMemSetAccess", "cuMemUnmap",
                              "cuMemcpyHtoDAsync",  "cuStreamCreate", "cuMemGetInfo",
                              "cuStreamSynchronize"};

EvictionPlan Plan() {
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;
  return plan;
}

Bytes Sum(const uint64_t (&by_device)[wire::kMaxDevices]) {
  return std::accumulate(std::begin(by_device), std::end(by_device), Bytes(0));
}
Bytes Shifted(const ParkedProcess& p) {
  const auto ledger = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(ledger.ok());
  return Sum(ledger->shifted_bytes);
}
Bytes Out(const ParkedProcess& p) {
  const auto ledger = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(ledger.ok());
  return Sum(ledger->out_bytes);
}

std::unique_ptr<ParkedProcess> Paused(Policy policy = Policy::kHost) {
  auto p = std::make_unique<ParkedProcess>(FakeDriver::Options{.devices = 2});
  p->files_in_memory = true;
  p->Allocate(1_MiB, "a", 0);
  p->Allocate(700'000, "b", 1);
  p->Allocate(5000, "c", 1);
  p->MapOwn(0, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  REQUIRE(p->Pause(policy, Plan()).result.ok());
  REQUIRE(p->fake.handle_bytes() == 0);
  REQUIRE(Out(*p) == 4 * 2_MiB);  // three slabs, and memory of its own
  p->freezer.ClearAbort();
  p->freezer.room().Reset();
  return p;
}

void AllowAll(ParkedProcess& p) {
  for (int device = 0; device < 2; ++device) p.freezer.room().Allow(device, 1_GiB);
}

// Paused with whole backups, it resumes in the ordinary way.
void RequireResumes(ParkedProcess& p) {
  REQUIRE(p.Is(ProcessState::kPaused));
  REQUIRE(p.fake.handle_bytes() == 0);
  REQUIRE(Shifted(p) == 0);
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(Out(p) == 0);
  REQUIRE(p.BytesRight());
  REQUIRE(p.OnlyKept());
  REQUIRE(p.fake.mistakes() == 0);
}

std::map<std::string, int> CallsSoFar(const ParkedProcess& p) {
  std::map<std::string, int> calls;
  for (const char* name : kCalls) calls[name] = p.fake.Calls(name);
  return calls;
}

TEST_CASE("what has arrived runs after a resume, and its backups go then") {
  for (const Policy policy : {Policy::kHost, Policy::kDisk}) {
    auto p = Paused(policy);
    AllowAll(*p);
    const auto arrived = p->freezer.Arrive(7, 1);
    REQUIRE(arrived.result.ok());
    CHECK(p->Is(ProcessState::kPartlyMoved));
    CHECK(arrived.stats.released_bytes == p->fake.handle_bytes());
    CHECK(Shifted(*p) == p->fake.handle_bytes());
    if (policy == Policy::kHost) CHECK(p->pool.used() > 0);
    CHECK(p->freezer.Arrive(8, 1).result.ok());  // again: nothing is left to do
    CHECK(p->Resume().result.ok());
    CHECK(p->Runs());
    CHECK(p->BytesRight());
    CHECK(p->OnlyKept());
    CHECK(Shifted(*p) == 0);
    CHECK(p->freezer.Arrive(9, 1).already);
  }
}

TEST_CASE("what has arrived goes back when it is sent") {
  auto p = Paused();
  AllowAll(*p);
  REQUIRE(p->freezer.Arrive(7, 1).result.ok());
  CHECK(p->freezer.Abort().result.ok());
  RequireResumes(*p);
}

TEST_CASE("memory that the application frees meanwhile is gone either way") {
  for (const bool keep : {true, false}) {
    auto p = Paused();
    AllowAll(*p);
    REQUIRE(p->freezer.Arrive(7, 1).result.ok());
    CUresult freed = CUDA_ERROR_UNKNOWN;
    REQUIRE(p->heap.Free(p->app[0].ptr, &freed));
    REQUIRE(freed == CUDA_SUCCESS);
    p->app.erase(p->app.begin());
    if (keep) {
      REQUIRE(p->Resume().result.ok());
    } else {
      REQUIRE(p->freezer.Abort().result.ok());
      REQUIRE(p->Resume().result.ok());
    }
    CHECK(p->Runs());
    CHECK(p->BytesRight());
    CHECK(p->OnlyKept());
  }
}

TEST_CASE("no more HBM is taken than is allowed, and all of it in the end") {
  auto p = Paused();
  Freezer::Outcome arrived;
  std::thread arrives([&] { arrived = p->freezer.Arrive(7, 1); });
  Bytes allowed = 0;
  for (const Deadline by = Deadline::InMs(20'000);
       p->ledger->state() != ProcessState::kPartlyMoved;) {
    REQUIRE_FALSE(by.Passed());
    CHECK(p->fake.handle_bytes() <= 2 * allowed);
    allowed += 1_MiB;
    for (int device = 0; device < 2; ++device) p->freezer.room().Allow(device, allowed);
    sched_yield();
  }
  arrives.join();
  REQUIRE(arrived.result.ok());
  REQUIRE(p->Resume().result.ok());
  CHECK(p->BytesRight());
}

TEST_CASE("one that waits for room stops when it is aborted") {
  auto p = Paused();
  p->freezer.room().Allow(0, 2_MiB);
  Freezer::Outcome arrived;
  std::thread arrives([&] { arrived = p->freezer.Arrive(7, 1); });
  for (const Deadline by = Deadline::InMs(5000); p->fake.handle_bytes() == 0 && !by.Passed();) {
    sched_yield();
  }
  CHECK(p->fake.handle_bytes() == 2_MiB);
  p->freezer.RequestAbort();
  arrives.join();
  CHECK(std::string(arrived.result.error().reason) == "CANCELLED");
  p->freezer.ClearAbort();
  RequireResumes(*p);
}

TEST_CASE("memory that is allowed and not there is waited for, but not for ever") {
  for (const int refusals : {3, 1'000'000}) {
    auto p = Paused();
    AllowAll(*p);
    p->fake.Fail("cuMemCreate", 2, CUDA_ERROR_OUT_OF_MEMORY, refusals);
    const auto arrived = p->freezer.Arrive(7, 1);
    CHECK(arrived.result.ok() == (refusals == 3));
    p->fake.FaultPending("cuMemCreate");
    if (!arrived.result.ok()) {
      CHECK(std::string(arrived.result.error().reason) == "GPU_MEMORY");
      CHECK(arrived.stats.needed_bytes > 0);
      CHECK(p->fake.handle_bytes() == 0);
      continue;
    }
    REQUIRE(p->freezer.Abort().result.ok());
    RequireResumes(*p);
  }
}

TEST_CASE("every driver call of a resume in turn may fail") {
  int tried = 0, refused = 0;
  for (const Policy policy : {Policy::kHost, Policy::kDisk}) {
    auto clean = Paused(policy);
    AllowAll(*clean);
    const auto before = CallsSoFar(*clean);
    REQUIRE(clean->freezer.Arrive(7, 1).result.ok());
    const auto after = CallsSoFar(*clean);
    clean.reset();
    for (const char* name : kCalls) {
      for (int n = 1; n <= after.at(name) - before.at(name); ++n) {
        INFO(name << " number " << n);
        auto p = Paused(policy);
        AllowAll(*p);
        p->fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
        const auto arrived = p->freezer.Arrive(7, 1);
        ++tried;
        refused += arrived.result.ok() ? 0 : 1;
        p->fake.FaultPending(name);
        if (arrived.result.ok()) REQUIRE(p->freezer.Abort().result.ok());
        RequireResumes(*p);
      }
    }
  }
  printf("resume in turn: %d driver calls failed in turn, %d left it paused\n", tried, refused);
  CHECK(refused > 20);
}

}  // namespace
}  // namespace parkade::shim
