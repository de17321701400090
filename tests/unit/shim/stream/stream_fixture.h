// StreamProcess: a process with a store on a fake driver; and ResidentRun: the same training with
// all state in memory, by the processor's own encodings, to compare with bit for bit.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "shim/kernels/store_quads.h"
#include "shim/pause/gate.h"
#include "shim/stream/step_engine.h"
#include "tests/unit/daemon/test_dir.h"
#include "tests/unit/shim/fake_driver.h"
#include "tests/unit/shim/pause/faulty_engine.h"

namespace parkade::shim {

// The tensors of a toy model: of every type, some in parts, one empty, one of a single element.
struct Model {
  struct Tensor {
    store::Entry entry;
    StoreType weight_type, gradient_type;
    std::vector<uint32_t> weight, gradient;  // room for fp32, in words
    uint64_t numel() const { return entry.flat_end - entry.flat_begin; }
  };
  std::vector<Tensor> tensors;

  explicit Model(bool bf16 = false) {
    const auto add = [&](const char* name, std::vector<uint64_t> shape, uint64_t begin,
                         uint64_t end, StoreType weight, StoreType gradient, uint32_t group) {
      store::Entry entry;
      entry.name = name;
      entry.global_shape = entry.local_shape = std::move(shape);
      entry.flat_begin = begin;
      entry.flat_end = end;
      entry.group = group;
      if (bf16) weight = kTypeBf16;
      const auto words = size_t(end - begin);
      tensors.push_back(
          {entry, weight, gradient, std::vector<uint32_t>(words), std::vector<uint32_t>(words)});
    };
    add("embedding", {50, 100}, 0, 5000, kTypeFp32, kTypeFp32, 0);
    add("empty", {64}, 5, 5, kTypeBf16, kTypeBf16, 0);
    add("part", {9, 1000}, 1037, 7777, kTypeBf16, kTypeBf16, 1);
    add("bias", {1}, 0, 1, kTypeFp16, kTypeFp16, 1);
    add("wide", {33, 70}, 0, 2310, kTypeFp16, kTypeFp32, 0);
    for (Tensor& t : tensors) {
      for (uint64_t i = 0; i < t.numel(); ++i) {
        SaveTyped(uint64_t(t.weight.data()), t.weight_type, i, Value(t, i, 77) * 0.5f);
      }
    }
  }

  // Between -1 and 1, of all magnitudes.
  static float Value(const Tensor& t, uint64_t i, uint64_t salt) {
    const uint64_t bits = store::Mix(store::Mix(salt) ^ (i + t.entry.name.size() * 1'000'003));
    const float unit = float(int32_t(uint32_t(bits))) / 2147483648.0f;
    return bits >> 60 == 0 ? unit * 1e-6f : unit;
  }
  void SetGradients(uint64_t step) {
    for (Tensor& t : tensors) {
      for (uint64_t i = 0; i < t.numel(); ++i) {
        SaveTyped(uint64_t(t.gradient.data()), t.gradient_type, i, Value(t, i, step) * 0.01f);
      }
    }
  }
  std::vector<store::Entry> entries() const {
    std::vector<store::Entry> all;
    for (const Tensor& t : tensors) all.push_back(t.entry);
    return all;
  }
};

inline StoreAdamArgs TestAdam(uint64_t step) {
  StoreAdamArgs args = {};
  args.first = 1;
  args.second = 2;
  args.gradient_factor = 0.5f;
  for (uint32_t group = 0; group < 2; ++group) {
    StoreAdamGroup& g = args.groups[group];
    g.beta1 = 0.9f;
    g.one_less_beta1 = 0.1f;
    g.beta2 = 0.999f;
    g.one_less_beta2 = 0.001f;
    g.step_size = 0.01f / float(step);
    g.root = 1.0f + 10.0f / float(step);
    g.eps = 1e-8f;
    g.l2 = group == 1 ? 0.01f : 0.0f;
    g.keep = group == 1 ? 1.0f : 0.999f;
  }
  return args;
}

inline std::vector<store::Segment> TestSegments(const char* main = "fp32",
                                                const char* first = "fp32",
                                                const char* second = "fp32") {
  const auto encoding = [](const char* text, const char* segment) {
    auto parsed = store::ParseEncoding(text, segment);
    REQUIRE(parsed.ok());
    return *parsed;
  };
  return {{"main", encoding(main, "main")},
          {"exp_avg", encoding(first, "exp_avg")},
          {"exp_avg_sq", encoding(second, "exp_avg_sq")}};
}

constexpr uint64_t kTestSeed = 4711;

class ResidentRun {
 public:
  ResidentRun(Model& m, const std::vector<store::Segment>& segments)
      : model(m), layout(*store::Layout::Make(m.entries(), segments, 1 << 20)) {
    const store::Bucket& bucket = layout.buckets()[0];
    for (const store::Segment& segment : segments) {
      encoded.emplace_back(store::EncodedBytes(segment, bucket.numel));
    }
    ties.resize(bucket.numel / 32);
    weights.resize(bucket.numel);
    std::vector<float> values(bucket.numel);
    for (const store::Piece& piece : bucket.pieces) {
      const Model::Tensor& t = model.tensors[piece.entry];
      for (uint64_t i = 0; i < piece.numel(); ++i) {
        values[piece.position + i] = LoadTyped(uint64_t(t.weight.data()), t.weight_type, i);
      }
    }
    Save(0, values, 0);
  }

  std::vector<float> Values(uint32_t segment) {
    const store::Bucket& bucket = layout.buckets()[0];
    std::vector<float> values(bucket.numel);
    for (const store::Piece& piece : bucket.pieces) {
      store::Decode(layout.segments()[segment], encoded[segment].data(), bucket.numel,
                    piece.positions(), Weights(segment), values.data());
    }
    return values;
  }
  void Save(uint32_t segment, const std::vector<float>& values, uint64_t step) {
    const store::Bucket& bucket = layout.buckets()[0];
    for (const store::Piece& piece : bucket.pieces) {
      store::Rounding rounding;
      rounding.key =
          store::RoundingKey(kTestSeed, store::ParameterId(layout.entries()[piece.entry].name));
      rounding.step = step;
      rounding.segment = segment;
      rounding.counter = piece.counter;
      auto saved =
          store::Encode(layout.segments()[segment], values.data(), bucket.numel, piece.positions(),
                        rounding, Weights(segment), encoded[segment].data());
      REQUIRE(saved.ok());
    }
  }
  void Step(uint64_t step) {
    const StoreAdamArgs adam = TestAdam(step);
    std::vector<float> main = Values(0), first = Values(1), second = Values(2);
    for (const store::Piece& piece : layout.buckets()[0].pieces) {
      Model::Tensor& t = model.tensors[piece.entry];
      for (uint64_t i = 0; i < piece.numel(); ++i) {
        const uint64_t at = piece.position + i;
        const float gradient = store::Mul(
            adam.gradient_factor, LoadTyped(uint64_t(t.gradient.data()), t.gradient_type, i));
        Adam(adam.groups[t.entry.group], gradient, &main[at], &first[at], &second[at]);
        SaveTyped(uint64_t(t.weight.data()), t.weight_type, i, main[at]);
      }
    }
    Save(0, main, step);
    Save(1, first, step);
    Save(2, second, step);
  }

  Model& model;
  const store::Layout layout;
  std::vector<std::vector<uint8_t>> encoded;
  std::vector<uint32_t> ties;
  std::vector<uint16_t> weights;

 private:
  store::Weights Weights(uint32_t segment) {
    if (int(segment) != layout.lo16()) return {};
    return {weights, ties};
  }
};

class StreamProcess {
 public:
  explicit StreamProcess(bool bf16 = false)
      : model(bf16), ledger(std::move(*LedgerWriter::Create())) {
    FaultyEngine::plan.Reset();
    Gate::Init();
    contexts.Add(fake.Context(0), 0);
    FakeDriver::MakeCurrent(fake.Context(0));
  }
  ~StreamProcess() {
    engine.reset();
    Gate::Open();
  }

  StepEngine::Options Options() const {
    StepEngine::Options options;
    options.directories = {dir.path()};
    options.bucket_numel = 1024;
    options.chunk = 4096;
    options.staging = 64_KiB;
    options.seed = kTestSeed;
    options.in_memory_too = true;  // wherever the build tree is
    return options;
  }
  Result<void> Open(const StepEngine::Options& options, std::vector<store::Segment> segments) {
    auto opened = StepEngine::Open({fake.driver(), contexts, pool, *ledger, FaultyEngine::Make},
                                   model.entries(), std::move(segments), options);
    if (!opened.ok()) return opened.error();
    engine = std::move(*opened);
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      Model::Tensor& t = model.tensors[i];
      engine->work().SetTensors(i, {CUdeviceptr(t.weight.data()), t.weight_type,
                                    CUdeviceptr(t.gradient.data()), t.gradient_type});
    }
    return {};
  }
  Result<void> Fill(uint64_t step = 0) {
    if (auto r = engine->BeginFill(step, nullptr); !r.ok()) return r;
    return Run([&](const StreamJob& job) {
      auto widened = engine->Widen(job);
      return widened.ok() ? engine->Submit(job) : widened;
    });
  }
  Result<void> Step(uint64_t step) {
    model.SetGradients(step);
    if (auto r = engine->BeginStep(step, nullptr); !r.ok()) return r;
    return Run([&](const StreamJob& job) { return engine->SubmitAdam(job, TestAdam(step)); },
               StepEngine::Form::kEncoded);
  }
  template <typename Work>
  Result<void> Run(Work work, StepEngine::Form form = StepEngine::Form::kViews) {
    for (;;) {
      auto job = engine->Acquire(Deadline::InMs(20'000), form);
      Result<void> done = job.ok() ? Result<void>() : Result<void>(job.error());
      if (done.ok() && !*job) return engine->EndStep();
      if (done.ok()) done = work(**job);
      if (done.ok()) continue;
      engine->AbortStep();
      return done;
    }
  }
  // What the store has of every segment, by the positions of `resident`'s one bucket. Reads by a
  // step that is given up.
  std::vector<std::vector<float>> Read(const store::Layout& resident) {
    const uint64_t numel = resident.buckets()[0].numel;
    std::vector<std::vector<float>> values(engine->layout().segments().size(),
                                           std::vector<float>(numel));
    const auto begun = engine->BeginStep(engine->committed() + 1, nullptr);
    INFO((begun.ok() ? "" : begun.error().what));
    REQUIRE(begun.ok());
    for (;;) {
      auto job = engine->Acquire(Deadline::InMs(20'000), StepEngine::Form::kViews);
      INFO((job.ok() ? "" : job.error().what));
      REQUIRE(job.ok());
      if (!*job) break;
      for (const store::Piece& piece : engine->layout().buckets()[(*job)->bucket].pieces) {
        const store::Piece* there = nullptr;
        for (const store::Piece& whole : resident.buckets()[0].pieces) {
          if (whole.entry == piece.entry) there = &whole;
        }
        REQUIRE(there != nullptr);
        for (uint32_t s = 0; s < values.size(); ++s) {
          const auto* view = reinterpret_cast<const float*>(engine->work().View(**job, s));
          memcpy(&values[s][there->position + piece.param_begin - there->param_begin],
                 view + piece.position, piece.numel() * sizeof(float));
        }
      }
      REQUIRE(engine->Release(**job).ok());
    }
    engine->AbortStep();
    return values;
  }

  testing::TestDir dir;
  FakeDriver fake;
  Model model;
  std::unique_ptr<LedgerWriter> ledger;
  Contexts contexts;
  HostPool pool{fake.driver()};
  std::unique_ptr<StepEngine> engine;
};

inline void RequireOk(const Result<void>& result) {
  INFO((result.ok() ? "" : result.error().what));
  REQUIRE(result.ok());
}

// State and weights are the same bits.
inline void RequireSame(StreamProcess& p, ResidentRun& resident) {
  const auto values = p.Read(resident.layout);
  for (uint32_t s = 0; s < values.size(); ++s) {
    INFO("segment " << s);
    const std::vector<float> wanted = resident.Values(s);
    for (const store::Piece& piece : resident.layout.buckets()[0].pieces) {
      INFO("entry " << piece.entry);
      REQUIRE(memcmp(&values[s][piece.position], &wanted[piece.position],
                     piece.numel() * sizeof(float)) == 0);
    }
  }
  for (size_t i = 0; i < p.model.tensors.size(); ++i) {
    INFO("weights of " << p.model.tensors[i].entry.name);
    REQUIRE(p.model.tensors[i].weight == resident.model.tensors[i].weight);
  }
}

}  // namespace parkade::shim
