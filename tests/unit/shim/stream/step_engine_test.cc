// Training with state that streams is training with state in memory, bit for bit, whatever the
// slots, the buckets and the requests.
#include "shim/stream/step_engine.h"

#include "tests/unit/shim/stream/stream_fixture.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kSteps = 3;

IoEngineChoice MakePool(uint32_t depth) {
  IoEngineChoice choice;
  choice.engine = std::make_unique<PoolEngine>(depth, std::make_unique<PthreadStarter>());
  return choice;
}

void RequireGoldenRun(const StepEngine::Options& options, StreamProcess& p,
                      const std::vector<store::Segment>& segments, bool bf16 = false) {
  Model model(bf16);
  ResidentRun resident(model, segments);
  RequireOk(p.Open(options, segments));
  RequireOk(p.Fill());
  for (uint64_t step = 1; step <= kSteps; ++step) {
    model.SetGradients(step);
    resident.Step(step);
    RequireOk(p.Step(step));
  }
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  CHECK(p.engine->committed() == kSteps);
  RequireSame(p, resident);
}

TEST_CASE("streamed fp32 is resident fp32 for any slots, buckets and requests") {
  for (const uint32_t slots : {1u, 2u, 3u, 4u}) {
    for (const uint64_t numel : {uint64_t(64), uint64_t(1024), uint64_t(1) << 20}) {
      for (const Bytes chunk : {4_KiB, 1_MiB}) {
        INFO(slots << " slots, " << numel << " elements, chunk " << chunk);
        StreamProcess p;
        auto options = p.Options();
        options.slots = slots;
        options.bucket_numel = numel;
        options.chunk = chunk;
        options.staging = numel == 1024 ? 2 * chunk : 16 * chunk;
        RequireGoldenRun(options, p, TestSegments());
      }
    }
  }
}

TEST_CASE("every encoding streams as the processor encodes it") {
  const char* const ways[][3] = {{"fp32", "bf16", "bf16"}, {"fp32", "bf16-nearest", "bf16-nearest"},
                                 {"fp32", "q8", "q8"},     {"fp32", "fp8", "fp8"},
                                 {"fp32", "fp16", "fp32"}, {"lo16", "fp32", "fp32"},
                                 {"lo16", "bf16", "bf16"}, {"lo16", "q8", "q8"}};
  for (const auto& way : ways) {
    for (const uint64_t numel : {uint64_t(96), uint64_t(1) << 20}) {
      INFO(way[0] << " " << way[1] << " " << way[2] << ", " << numel << " elements");
      const bool lo16 = std::string_view(way[0]) == "lo16";
      StreamProcess p(lo16);
      auto options = p.Options();
      options.bucket_numel = numel;
      RequireGoldenRun(options, p, TestSegments(way[0], way[1], way[2]), lo16);
    }
  }
}

TEST_CASE("state in host memory, all or the first buckets, is the same state") {
  for (const Bytes host : {Bytes(100'000), UINT64_MAX}) {
    for (const bool lo16 : {false, true}) {
      INFO(host << " bytes in host memory" << (lo16 ? ", lo16" : ""));
      StreamProcess p(lo16);
      auto options = p.Options();
      options.host_bytes = host;
      if (host == UINT64_MAX) options.directories.clear();
      RequireGoldenRun(options, p, TestSegments(lo16 ? "lo16" : "fp32"), lo16);
      CHECK((p.engine->stats().read_bytes == 0) == (host == UINT64_MAX));
      CHECK(p.engine->stats().host_bytes <= host);
    }
  }
}

TEST_CASE("threads in io_uring's place, turns at the disk and spare files change no bit") {
  for (const auto redundancy : {store::Redundancy::kRotate, store::Redundancy::kShadow}) {
    for (const auto schedule :
         {DiskTurn::Schedule::kMixed, DiskTurn::Schedule::kPhased, DiskTurn::Schedule::kMeasured}) {
      StreamProcess p;
      auto options = p.Options();
      options.redundancy = redundancy;
      options.schedule = schedule;
      RequireGoldenRun(options, p, TestSegments());
    }
  }
  StreamProcess p;
  Model model;
  ResidentRun resident(model, TestSegments());
  auto opened = StepEngine::Open({p.fake.driver(), p.contexts, p.pool, *p.ledger, MakePool},
                                 p.model.entries(), TestSegments(), p.Options());
  REQUIRE(opened.ok());
  p.engine = std::move(*opened);
  for (uint32_t i = 0; i < p.model.tensors.size(); ++i) {
    Model::Tensor& t = p.model.tensors[i];
    p.engine->work().SetTensors(i, {CUdeviceptr(t.weight.data()), t.weight_type,
                                    CUdeviceptr(t.gradient.data()), t.gradient_type});
  }
  RequireOk(p.Fill());
  model.SetGradients(1);
  resident.Step(1);
  RequireOk(p.Step(1));
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  RequireSame(p, resident);
}

TEST_CASE("a callback's views are the state, and what it leaves there becomes the state") {
  StreamProcess p;
  RequireOk(p.Open(p.Options(), TestSegments()));
  RequireOk(p.Fill());
  // Counts its visits of every element in exp_avg.
  for (uint64_t step = 1; step <= 2; ++step) {
    RequireOk(p.engine->BeginStep(step, nullptr));
    RequireOk(p.Run([&](const StreamJob& job) {
      auto* const seen = reinterpret_cast<float*>(p.engine->work().View(job, 1));
      for (const store::Piece& piece : p.engine->layout().buckets()[job.bucket].pieces) {
        for (uint64_t i = 0; i < piece.numel(); ++i) seen[piece.position + i] += 1;
      }
      return p.engine->Submit(job);
    }));
  }
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  const auto whole = *store::Layout::Make(p.model.entries(), TestSegments(), 1 << 20);
  const auto values = p.Read(whole);
  for (const store::Piece& piece : whole.buckets()[0].pieces) {
    for (uint64_t i = 0; i < piece.numel(); ++i) REQUIRE(values[1][piece.position + i] == 2.0f);
  }
}

TEST_CASE("a step that is given up before anything is written leaves the step before") {
  StreamProcess p;
  Model model;
  ResidentRun resident(model, TestSegments());
  auto options = p.Options();
  options.slots = 4;
  RequireOk(p.Open(options, TestSegments()));
  RequireOk(p.Fill());
  REQUIRE(p.engine->BeginStep(1, nullptr).ok());
  REQUIRE(p.engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews).ok());
  p.engine->AbortStep();
  CHECK_FALSE(p.engine->torn());
  RequireSame(p, resident);
  model.SetGradients(1);
  resident.Step(1);
  RequireOk(p.Step(1));
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  RequireSame(p, resident);
}

TEST_CASE("a step that is given up midway is torn, and says so to every call") {
  StreamProcess p;
  RequireOk(p.Open(p.Options(), TestSegments()));
  RequireOk(p.Fill());
  REQUIRE(p.engine->BeginStep(1, nullptr).ok());
  int buckets = 0;
  const auto failed = p.Run([&](const StreamJob& job) -> Result<void> {
    if (++buckets == 8) return MakeError(Code::kAborted, "CALLBACK", "enough");
    return p.engine->Submit(job);
  });
  REQUIRE_FALSE(failed.ok());
  REQUIRE(p.engine->torn());
  CHECK(std::string_view(p.engine->BeginStep(1, nullptr).error().reason) == "TORN");
  CHECK(std::string_view(p.engine->Drain(Deadline::InMs(1000)).error().reason) == "TORN");
}

TEST_CASE("steps come one after the other, and every bucket in each") {
  StreamProcess p;
  RequireOk(p.Open(p.Options(), TestSegments()));
  CHECK(std::string_view(p.engine->BeginStep(1, nullptr).error().reason) == "NOT_FILLED");
  RequireOk(p.Fill(7));
  CHECK(std::string_view(p.engine->BeginStep(7, nullptr).error().reason) == "STEP_ORDER");
  CHECK(std::string_view(p.engine->BeginStep(9, nullptr).error().reason) == "STEP_ORDER");
  REQUIRE(p.engine->BeginStep(8, nullptr).ok());
  CHECK(std::string_view(p.engine->BeginStep(9, nullptr).error().reason) == "STEP_ORDER");
  CHECK(std::string_view(p.engine->EndStep().error().reason) == "UNFINISHED");
  for (uint32_t i = 0; i < p.engine->stats().slots; ++i) {
    REQUIRE(p.engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews).ok());
  }
  const auto more = p.engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews);
  CHECK(std::string_view(more.error().reason) == "ALL_HELD");
  p.engine->AbortStep();
  CHECK_FALSE(p.engine->torn());
}

TEST_CASE("a value that its encoding does not hold fails the step before it is written") {
  StreamProcess p;
  RequireOk(p.Open(p.Options(), TestSegments("fp32", "q8", "q8")));
  RequireOk(p.Fill());
  REQUIRE(p.engine->BeginStep(1, nullptr).ok());
  auto job = p.engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews);
  REQUIRE(job.ok());
  reinterpret_cast<float*>(p.engine->work().View(**job, 2))[3] = -1.0f;
  REQUIRE(p.engine->Submit(**job).ok());
  Result<void> failed;
  while (failed.ok()) {
    auto next = p.engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews);
    if (!next.ok()) failed = next.error();
    if (failed.ok() && !*next) failed = p.engine->EndStep();
    if (failed.ok() && *next) failed = p.engine->Submit(**next);
  }
  CHECK(std::string_view(failed.error().reason) == "NON_FINITE");
  p.engine->AbortStep();
  CHECK_FALSE(p.engine->torn());
}

TEST_CASE("weights that changed outside a step are noticed before lo16 is joined to them") {
  StreamProcess p(true);
  RequireOk(p.Open(p.Options(), TestSegments("lo16")));
  RequireOk(p.Fill());
  RequireOk(p.Step(1));
  auto* const weights = reinterpret_cast<uint16_t*>(p.model.tensors[2].weight.data());
  weights[17] ^= 1;
  CHECK(std::string_view(p.Step(2).error().reason) == "WEIGHTS_CHANGED");
  weights[17] ^= 1;
  RequireOk(p.Step(2));
}

TEST_CASE("device memory is as said, two first segments in a fill, and all of it goes") {
  StreamProcess p;
  auto options = p.Options();
  options.slots = 3;
  const auto before = p.fake.held();
  RequireOk(p.Open(options, TestSegments()));
  const Bytes opened = p.fake.used(0);
  CHECK(opened < kFixedDevice);
  RequireOk(p.Fill());
  CHECK(p.fake.used(0) - opened == 2 * SlotBytes(TestSegments(), 1024, SlotKind::kFirstSegment));
  CHECK(SlotBytes(TestSegments(), 1024, SlotKind::kFirstSegment) <= 2 * 1024 * 4 + 8192);
  RequireOk(p.Step(1));
  CHECK(p.fake.used(0) - opened == p.engine->stats().device_bytes);
  CHECK(p.engine->stats().device_bytes <= 3 * (3 * 1024 * 8 + 16384));
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  p.engine.reset();
  CHECK(p.fake.used(0) == 0);
  const auto after = p.fake.held();
  CHECK(after.native == before.native);
  CHECK(after.events == before.events);
  CHECK(after.streams == before.streams);
  CHECK(after.modules == before.modules);
  CHECK(p.fake.mistakes() == 0);
  CHECK(p.pool.used() == 0);
  CHECK(testing::Entries(p.dir.path()) == 0);
}

TEST_CASE("a closed gate stops the lanes at a bucket, and the step goes on when it opens") {
  StreamProcess p;
  Model model;
  ResidentRun resident(model, TestSegments());
  RequireOk(p.Open(p.Options(), TestSegments()));
  RequireOk(p.Fill());
  p.model.SetGradients(1);
  model.SetGradients(1);
  resident.Step(1);
  REQUIRE(p.engine->BeginStep(1, nullptr).ok());
  const std::atomic<bool> never{false};
  int closed = 0;
  RequireOk(p.Run(
      [&](const StreamJob& job) {
        if (job.bucket % 5 != 2) return p.engine->SubmitAdam(job, TestAdam(1));
        auto shut = Gate::Close(Deadline::InMs(20'000), never);
        if (!shut.ok()) return shut;
        ++closed;
        const auto before = p.engine->stats();
        // Nobody is inside, so nothing moves for as long as it is closed.
        const timespec nap{0, 2'000'000};
        nanosleep(&nap, nullptr);
        CHECK(p.engine->stats().read_bytes == before.read_bytes);
        CHECK(p.engine->stats().written_bytes == before.written_bytes);
        Gate::Open();
        return p.engine->SubmitAdam(job, TestAdam(1));
      },
      StepEngine::Form::kEncoded));
  RequireOk(p.engine->Drain(Deadline::InMs(20'000)));
  CHECK(closed > 1);
  RequireSame(p, resident);
}

}  // namespace
}  // namespace parkade::shim
