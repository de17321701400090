// Threads that make, map, use and give back memory of their own while the process is paused and
// resumed, all of it through the gate.
#include <atomic>
#include <random>
#include <thread>

#include "shim/hooks/gate_pass.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

constexpr int kThreads = 4;
constexpr size_t kPlaces = 6;
constexpr Bytes kPage = 2_MiB;

// One thread of the application, with places of its own.
class Worker {
 public:
  Worker(ParkedProcess& process, unsigned seed) : process_(process), random_(seed) {
    REQUIRE(process.driver.mem_address_reserve(&base_, kPlaces * kPage, 0, 0, 0) == CUDA_SUCCESS);
  }

  void Turn() {
    const size_t i = random_() % kPlaces;
    if (pages_[i].handle == 0) {
      Make(i);
    } else if (random_() % 2 == 0) {
      Use(i);
    } else {
      GiveBack(i);
    }
  }
  void Clear() {
    for (size_t i = 0; i < kPlaces; ++i) {
      if (pages_[i].handle != 0) GiveBack(i);
    }
  }
  int wrong() const { return wrong_; }

 private:
  struct Page {
    CUmemGenericAllocationHandle handle = 0;
    uint64_t word = 0;
  };

  void Expect(bool right) { wrong_ += right ? 0 : 1; }
  uint64_t* Words(size_t i) { return reinterpret_cast<uint64_t*>(base_ + i * kPage); }

  // Each call by itself, so that a pause may come between any two.
  template <typename F>
  void Through(Gate::Call kind, F call) {
    const GatePass pass(kind);
    Expect(call() == CUDA_SUCCESS);
  }
  void Make(size_t i) {
    Page& page = pages_[i];
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUdeviceptr at = base_ + i * kPage;
    const auto kind = Gate::Call::kAllocation;
    Through(kind, [&] { return memory_.Create(&page.handle, kPage, prop, 0, "default"); });
    Through(kind, [&] { return memory_.Map(at, kPage, 0, page.handle, 0); });
    Through(kind, [&] { return memory_.SetAccess(at, kPage, &access, 1); });
    page.word = random_();
    const GatePass work;
    for (Bytes n = 0; n < kPage / 8; n += 512) Words(i)[n] = page.word + n;
  }
  void Use(size_t i) {
    const GatePass work;
    for (Bytes n = 0; n < kPage / 8; n += 512) Expect(Words(i)[n] == pages_[i].word + n);
    const auto retained = memory_.Retain(base_ + i * kPage);
    Expect(retained == pages_[i].handle);
    Expect(memory_.Release(*retained) == CUDA_SUCCESS);
  }
  void GiveBack(size_t i) {
    Page& page = pages_[i];
    const auto release = [&] { return memory_.Release(page.handle); };
    const bool early = random_() % 2 == 0;
    if (early) Through(Gate::Call::kFree, release);
    Through(Gate::Call::kFree, [&] { return memory_.Unmap(base_ + i * kPage, kPage); });
    if (!early) Through(Gate::Call::kFree, release);
    page.handle = 0;
  }

  ParkedProcess& process_;
  VirtualMemory& memory_ = process_.heap.virtual_memory();
  std::mt19937 random_;
  CUdeviceptr base_ = 0;
  Page pages_[kPlaces];
  int wrong_ = 0;
};

TEST_CASE("threads work on memory of their own through pauses and resumes") {
  constexpr int kPauses = 60;
  ParkedProcess p;
  p.files_in_memory = true;
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < kThreads; ++i) workers.push_back(std::make_unique<Worker>(p, i));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&stop, &worker] {
      while (!stop) worker->Turn();
    });
  }
  for (int n = 0; n < kPauses; ++n) {
    const auto policy = n % 2 == 0 ? wire::Policy::kHost : wire::Policy::kDisk;
    EvictionPlan plan;
    plan.chunk_bytes = 2_MiB;
    REQUIRE(p.Pause(policy, plan).result.ok());
    CHECK(p.fake.handle_bytes() == 0);
    REQUIRE(p.Resume().result.ok());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (auto& worker : workers) {
    worker->Clear();
    CHECK(worker->wrong() == 0);
  }
  CHECK(p.fake.handle_bytes() == 0);
  CHECK(p.fake.held().reservations == kThreads);
  CHECK(p.fake.mistakes() == 0);
  CHECK(wire::ReadLedger(p.ledger->fd())->records.empty());
  CHECK(p.heap.Count().resident == 0);
}

}  // namespace
}  // namespace parkade::shim
