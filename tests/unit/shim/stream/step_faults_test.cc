// A failure at every driver call and every I/O of a step, one at a time, and an end of the process
// at every I/O: the store is at the step before, or after, or says that it is torn, and never has a
// wrong bit.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

#include "tests/unit/shim/stream/stream_fixture.h"

namespace parkade::shim {
namespace {

const char* const kCalls[] = {"cuEventCreate",      "cuEventRecord",     "cuEventSynchronize",
                              "cuEventQuery",       "cuMemAlloc",        "cuLaunchKernel",
                              "cuMemcpyDtoHAsync",  "cuMemcpyHtoDAsync", "cuMemsetD32Async",
                              "cuStreamWaitEvent",  "cuStreamCreate",    "cuModuleLoadData",
                              "cuModuleGetFunction"};

// A store of few buckets after its first step, and what it must have then and after the next.
struct Trained {
  StreamProcess p;
  Model model;
  ResidentRun resident{model, TestSegments()};

  Result<void> Open() {
    auto options = p.Options();
    options.bucket_numel = 4096;
    options.slots = 2;
    options.chunk = 8192;
    return p.Open(options, TestSegments());
  }
  Result<void> Train() {
    auto done = p.Fill();
    if (done.ok()) done = p.Step(1);
    if (done.ok()) done = p.engine->Drain(Deadline::InMs(20'000));
    return done;
  }
  Result<void> TrainOnce(uint64_t step) {
    auto done = p.Step(step);
    return done.ok() ? p.engine->Drain(Deadline::InMs(20'000)) : done;
  }
  void StepResident(uint64_t step) {
    model.SetGradients(step);
    resident.Step(step);
  }
  bool Same() {
    const auto values = p.Read(resident.layout);
    for (uint32_t s = 0; s < values.size(); ++s) {
      const std::vector<float> wanted = resident.Values(s);
      for (const store::Piece& piece : resident.layout.buckets()[0].pieces) {
        if (memcmp(&values[s][piece.position], &wanted[piece.position],
                   piece.numel() * sizeof(float)) != 0) {
          return false;
        }
      }
    }
    return true;
  }
};

// After a step 2 that may have failed: clean at 1 or at 2 with the right bits, or torn.
void CheckAfter(Trained& t, const Result<void>& result) {
  if (t.p.engine->torn()) {
    CHECK_FALSE(result.ok());
    const auto again = t.p.engine->BeginStep(2, nullptr);
    REQUIRE_FALSE(again.ok());
    CHECK(std::string_view(again.error().reason) == "TORN");
    return;
  }
  if (!result.ok()) {
    CHECK(t.p.engine->committed() == 1);
    CHECK(t.Same());
    // What was only in the way is gone: the same step again.
    INFO("the step again");
    const auto again = t.TrainOnce(2);
    INFO((again.ok() ? "" : again.error().what));
    REQUIRE(again.ok());
  }
  CHECK(t.p.engine->committed() == 2);
  t.StepResident(2);
  CHECK(t.Same());
}

TEST_CASE("every driver call of a step may fail") {
  std::map<std::string, int> calls;
  {
    Trained clean;
    REQUIRE(clean.Open().ok());
    REQUIRE(clean.Train().ok());
    for (const char* name : kCalls) calls[name] = clean.p.fake.Calls(name);
    REQUIRE(clean.TrainOnce(2).ok());
    for (const char* name : kCalls) calls[name] = clean.p.fake.Calls(name) - calls[name];
  }
  int tried = 0, failed = 0, torn = 0;
  for (const char* name : kCalls) {
    // Which call is the nth depends on threads; all of one kind are tried all the same.
    for (int n = 1; n <= calls[name]; n += calls[name] > 24 ? 3 : 1) {
      INFO(name << " number " << n);
      Trained t;
      REQUIRE(t.Open().ok());
      REQUIRE(t.Train().ok());
      t.StepResident(1);
      t.p.fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
      const auto result = t.TrainOnce(2);
      t.p.fake.FaultPending(name);
      ++tried;
      failed += result.ok() ? 0 : 1;
      torn += t.p.engine->torn() ? 1 : 0;
      CheckAfter(t, result);
    }
  }
  printf("step: %d driver calls failed in turn, %d of them the step, %d tore it\n", tried, failed,
         torn);
  CHECK(failed > 20);
  CHECK(torn < failed);
}

TEST_CASE("every driver call of opening and filling a store may fail") {
  std::map<std::string, int> calls;
  {
    Trained clean;
    REQUIRE(clean.Open().ok());
    REQUIRE(clean.Train().ok());
    for (const char* name : kCalls) calls[name] = clean.p.fake.Calls(name);
  }
  int failed = 0;
  for (const char* name : kCalls) {
    for (int n = 1; n <= calls[name]; n += calls[name] > 24 ? 5 : 1) {
      INFO(name << " number " << n);
      Trained t;
      t.p.fake.Fail(name, n, CUDA_ERROR_UNKNOWN);
      auto result = t.Open();
      if (result.ok()) result = t.Train();
      t.p.fake.FaultPending(name);
      failed += result.ok() ? 0 : 1;
      if (result.ok()) {
        t.StepResident(1);
        CHECK(t.Same());
      }
      t.p.engine.reset();
      CHECK(t.p.fake.used(0) == 0);
      CHECK(t.p.fake.held().events == 0);
      CHECK(t.p.fake.held().streams == 0);
      CHECK(t.p.fake.held().modules == 0);
      CHECK(t.p.pool.used() == 0);
      CHECK(testing::Entries(t.p.dir.path()) == 0);
    }
  }
  CHECK(failed > 20);
}

TEST_CASE("every read and every write of a step may fail") {
  int last = 0;
  {
    Trained clean;
    REQUIRE(clean.Open().ok());
    REQUIRE(clean.Train().ok());
    const int before = FaultyEngine::plan.completions;
    REQUIRE(clean.TrainOnce(2).ok());
    last = FaultyEngine::plan.completions - before;
  }
  const Error errors[] = {OsError(EIO, "disk"), OsError(ENOSPC, "disk")};
  int failed = 0, torn = 0;
  for (const Error& error : errors) {
    for (int n = 1; n <= last; ++n) {
      INFO("completion " << n << " of " << last);
      Trained t;
      REQUIRE(t.Open().ok());
      REQUIRE(t.Train().ok());
      t.StepResident(1);
      FaultyEngine::plan.error = error;
      FaultyEngine::plan.fail_at = FaultyEngine::plan.completions + n;
      const auto result = t.TrainOnce(2);
      FaultyEngine::plan.fail_at = 0;
      failed += result.ok() ? 0 : 1;
      torn += t.p.engine->torn() ? 1 : 0;
      CheckAfter(t, result);
    }
  }
  printf("step: %d I/O failures, %d of them tore the step\n", failed, torn);
  CHECK(failed == 2 * last);
  CHECK(torn < failed);
}

// Ends the process at the nth completion, wherever the step is then.
class EndingEngine final : public IoEngine {
 public:
  static inline std::atomic<int> left{0};  // 0: never
  static IoEngineChoice Make(uint32_t depth) {
    IoEngineChoice choice = FaultyEngine::Make(depth);
    choice.engine = std::make_unique<EndingEngine>(std::move(choice.engine));
    return choice;
  }
  explicit EndingEngine(std::unique_ptr<IoEngine> real) : real_(std::move(real)) {}
  void UseFiles(std::span<const int> files) override { real_->UseFiles(files); }
  bool UseMemory(std::span<const std::span<char>> blocks) override {
    return real_->UseMemory(blocks);
  }
  Result<void> Submit(const IoRequest& request) override { return real_->Submit(request); }
  Result<IoCompletion> WaitAny(Deadline by) override {
    auto completion = real_->WaitAny(by);
    if (completion.ok() && left != 0 && --left == 0) _exit(9);
    return completion;
  }
  void Abandon() override { real_->Abandon(); }
  uint32_t in_flight() const override { return real_->in_flight(); }
  uint32_t depth() const override { return real_->depth(); }

 private:
  std::unique_ptr<IoEngine> real_;
};

// Runs fill, step 1 and step 2 in a child that ends at the nth completion of step 2. False: it came
// to the end.
bool EndAt(int n, const std::string& directory, store::Redundancy redundancy) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    StreamProcess p;
    rmdir(p.dir.path().c_str());  // nobody else would
    auto options = p.Options();
    options.directories = {directory};
    options.bucket_numel = 4096;
    options.slots = 2;
    options.chunk = 8192;
    options.redundancy = redundancy;
    auto opened =
        StepEngine::Open({p.fake.driver(), p.contexts, p.pool, *p.ledger, EndingEngine::Make},
                         p.model.entries(), TestSegments(), options);
    if (!opened.ok()) _exit(1);
    p.engine = std::move(*opened);
    for (uint32_t i = 0; i < p.model.tensors.size(); ++i) {
      Model::Tensor& t = p.model.tensors[i];
      p.engine->work().SetTensors(i, {CUdeviceptr(t.weight.data()), t.weight_type,
                                      CUdeviceptr(t.gradient.data()), t.gradient_type});
    }
    const auto drained = [&p] { return p.engine->Drain(Deadline::InMs(20'000)).ok(); };
    if (!p.Fill().ok() || !p.Step(1).ok() || !drained()) _exit(2);
    EndingEngine::left = n;
    if (!p.Step(2).ok() || !drained() || !p.engine->Keep().ok()) _exit(3);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  const int code = WEXITSTATUS(status);
  REQUIRE((code == 0 || code == 9));
  return code == 9;
}

// The thread sanitizer makes each process some twenty times slower, and sees nothing new in it.
#if defined(__SANITIZE_THREAD__)
constexpr int kStride = 8;
#else
constexpr int kStride = 1;
#endif

TEST_CASE("a store whose process ended at any I/O is whole at a step, or refused as torn") {
  for (const auto redundancy : {store::Redundancy::kInplace, store::Redundancy::kShadow}) {
    int whole_before = 0, refused = 0;
    testing::TestDir kept;
    for (int n = 1;; n += kStride) {
      INFO("completion " << n);
      const bool ended = EndAt(n, kept.path(), redundancy);
      StreamProcess p;
      auto options = p.Options();
      options.directories = {kept.path()};
      options.bucket_numel = 4096;
      options.redundancy = redundancy;
      options.slots = 2;
      options.take = StoreFiles::Take::kKept;
      const auto opened = p.Open(options, TestSegments());
      if (!opened.ok()) {
        const std::string_view reason = opened.error().reason;
        INFO(opened.error().what);
        REQUIRE((reason == "TORN" || reason == "INTERRUPTED"));
        CHECK(redundancy == store::Redundancy::kInplace);
        CHECK(ended);
        ++refused;
      } else {
        const uint64_t step = p.engine->committed();
        REQUIRE((step == 1 || step == 2));
        CHECK(step == (ended ? 1 : 2));
        whole_before += step == 1 ? 1 : 0;
        Model model;
        ResidentRun resident(model, TestSegments());
        for (uint64_t i = 1; i <= step; ++i) {
          model.SetGradients(i);
          resident.Step(i);
        }
        const auto values = p.Read(resident.layout);
        for (uint32_t s = 0; s < values.size(); ++s) {
          const std::vector<float> wanted = resident.Values(s);
          for (const store::Piece& piece : resident.layout.buckets()[0].pieces) {
            REQUIRE(memcmp(&values[s][piece.position], &wanted[piece.position],
                           piece.numel() * sizeof(float)) == 0);
          }
        }
      }
      p.engine.reset();
      if (!ended) break;
    }
    CHECK(whole_before > 0);
    CHECK((refused > 0) == (redundancy == store::Redundancy::kInplace));
  }
}

}  // namespace
}  // namespace parkade::shim
