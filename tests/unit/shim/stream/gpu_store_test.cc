// The kernels of stores make the processor's bits: encoded bytes, scales, tie maps, weights and
// findings. On the simulated GPU this shows all but the kernels themselves, whose host twins run
// there; tests/gpu/store_kernels.py runs it on a card.
#include "tests/unit/shim/stream/kernel_bed.h"
#include "tests/unit/shim/stream/store_values.h"

namespace parkade::shim {
namespace {

using store::Encoding;
constexpr uint64_t kMany = 1'000'003;
constexpr uint64_t kSome = 120'011;

// Every encoding with a view, and one without.
std::vector<store::Segment> AllSegments(Encoding main) {
  return {{"main", main},
          {"bf16", Encoding::kBf16},
          {"nearest", Encoding::kBf16Nearest},
          {"fp16", Encoding::kFp16},
          {"q8", Encoding::kQ8First},
          {"q8_sq", Encoding::kQ8Second},
          {"raw", Encoding::kRaw, 65},
          {"fp8", Encoding::kFp8First},
          {"fp8_sq", Encoding::kFp8Second}};
}
std::vector<store::Segment> Moments(Encoding main, Encoding first, Encoding second) {
  return {{"main", main}, {"exp_avg", first}, {"exp_avg_sq", second}};
}

void SetTyped(uint8_t* base, StoreType type, uint64_t numel, uint64_t salt, int most, bool wild) {
  for (uint64_t i = 0; i < numel; ++i) {
    float x = AnyFloat(salt, i, wild);
    if (store::IsFinite(x)) x = Below(type == kTypeFp16 ? std::min(most, 15) : most, x);
    SaveTyped(uint64_t(base), type, i, x);
  }
}
// Gradients below 2^most of every type; `wild`: some are infinite or NaN.
void SetGradients(ProcessorStore& s, uint64_t salt, int most, bool wild = false) {
  for (const StoreTensor& t : s.tensors) {
    SetTyped(&s.gradients[t.gradient_at], t.gradient_type, t.numel(), salt + t.gradient_at, most,
             wild);
  }
}
void SetWeights(ProcessorStore& s, uint64_t salt) {
  for (const StoreTensor& t : s.tensors) {
    SetTyped(&s.weights[t.weight_at], t.weight_type, t.numel(), salt + t.weight_at, 127, true);
  }
}

// Which segment's values by position, those of padding too: they are not to be used.
std::vector<float> SomeValues(const ProcessorStore& s, uint32_t segment, bool fit) {
  const Encoding encoding = s.layout.segments()[segment].encoding;
  std::vector<float> values(s.bucket().numel);
  for (uint64_t i = 0; i < values.size(); ++i) {
    const float x = AnyFloat(segment + 100, i, !fit);
    values[i] = fit ? Held(encoding, x) : x;
  }
  return values;
}
// Makes zeroes of what the encoding does not hold, in pieces alone; how many.
uint32_t DropUnfit(const ProcessorStore& s, uint32_t segment, std::vector<float>& values) {
  uint32_t unfit = 0;
  for (const store::Piece& piece : s.bucket().pieces) {
    store::Range range = piece.positions();
    const Encoding encoding = s.layout.segments()[segment].encoding;
    while ((range.begin = store::FirstUnfit(encoding, values.data(), range)) != range.end) {
      values[range.begin] = 0.0f;
      ++unfit;
    }
  }
  return unfit;
}
void RequireFindings(const StoreFindings& found, uint32_t unfit, uint64_t sum) {
  CHECK(found.unfit == unfit);
  CHECK(found.non_finite == 0);
  CHECK(found.weight_sum == sum);
}

// From views to bytes on both sides; whatever is not held is counted.
void EncodeAll(Encoding main, StoreType weight, bool nearest, bool fit, uint64_t numel) {
  const sim::Gpu context{0};
  INFO("main " << store::NameOf(main) << (nearest ? ", nearest" : "") << (fit ? "" : ", unfit"));
  ProcessorStore s(AllSegments(main), numel, nearest, weight);
  REQUIRE(s.bucket().numel / 32 % 32 != 0);  // the last block of the grid is not full
  KernelBed bed(s);
  bed.PutTensors();
  const uint64_t step = 5'000'000'123;
  uint32_t unfit = 0;
  for (uint32_t i = 0; i < s.encoded.size(); ++i) {
    if (s.layout.segments()[i].encoding == Encoding::kRaw) {
      std::fill(s.encoded[i].begin(), s.encoded[i].end(), uint8_t(0xa5));  // as memory begins
      continue;
    }
    std::vector<float> values = SomeValues(s, i, fit);
    bed.views[i]->Put(values);
    unfit += DropUnfit(s, i, values);
    s.Save(i, values, step);
  }
  CHECK((unfit == 0) == fit);
  uint32_t segment = 0;
  const StoreFindings found = bed.Run(kStoreEncode, step, &segment);
  bed.RequireSame();
  RequireFindings(found, unfit, main == Encoding::kLo16 ? s.WeightSum() : 0);
}

TEST_CASE("every encoding's bytes of a million elements are the processor's") {
  EncodeAll(Encoding::kFp32, kTypeNone, false, true, kMany);
}

TEST_CASE("lo16 has its ties, its weights and their sum") {
  EncodeAll(Encoding::kLo16, kTypeBf16, false, true, kSome);
  EncodeAll(Encoding::kLo16, kTypeBf16, false, false, kSome);
}

TEST_CASE("main in any encoding, rounded at random or to the nearest, and values that do not fit") {
  for (const Encoding main : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    EncodeAll(main, kTypeNone, true, true, kSome);
    EncodeAll(main, kTypeNone, false, false, kSome);
  }
}

// Codes of every kind under every scale; bytes that no encoder makes too.
void SetCodes(ProcessorStore& s, uint64_t salt) {
  for (uint32_t i = 0; i < s.encoded.size(); ++i) {
    std::vector<uint8_t>& bytes = s.encoded[i];
    for (size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] = uint8_t(store::Mix(salt + i + at * 31) >> 20);
    }
    const store::Segment& segment = s.layout.segments()[i];
    if (segment.encoding == Encoding::kRaw) continue;
    uint8_t* const scales = bytes.data() + store::ScalesAt(segment, s.bucket().numel);
    const size_t count = bytes.size() - store::ScalesAt(segment, s.bucket().numel);
    const bool q8 =
        segment.encoding == Encoding::kQ8First || segment.encoding == Encoding::kQ8Second;
    for (size_t group = 0; group < count / (q8 ? 2 : 1); ++group) {
      // Finite ones: a NaN that arithmetic makes has no certain bits.
      const auto code = uint16_t(group * 7919 % (q8 ? 0x7f80 : 255));
      memcpy(scales + group * (q8 ? 2 : 1), &code, q8 ? 2 : 1);
    }
  }
}

TEST_CASE("every code decodes as on the processor, and padding to zero") {
  for (const bool lo16 : {false, true}) {
    const sim::Gpu context{0};
    ProcessorStore s(AllSegments(lo16 ? Encoding::kLo16 : Encoding::kFp32), lo16 ? kSome : kMany,
                     false, lo16 ? kTypeBf16 : kTypeNone);
    KernelBed bed(s);
    SetWeights(s, 3);
    SetCodes(s, 9);
    for (size_t i = 0; i < s.ties.size(); ++i) s.ties[i] = uint32_t(store::Mix(i));
    for (const store::Piece& piece : s.bucket().pieces) {
      if (!lo16) continue;
      memcpy(&s.bf16[piece.position], reinterpret_cast<const void*>(s.WeightOf(piece)),
             piece.numel() * 2);
    }
    bed.PutState();
    bed.Run(kStoreDecode, 1);
    for (uint32_t i = 0; i < s.encoded.size(); ++i) {
      if (s.layout.segments()[i].encoding == Encoding::kRaw) continue;
      INFO("segment " << s.layout.segments()[i].name);
      RequireEqual("values", bed.views[i]->Get<float>(), s.Values(i));
    }
    bed.RequireSame();
  }
}

// ---- Adam ----

// Three groups: beta2 of 0.999, of 0.95, and L2 with little bias correction left.
StoreAdamArgs AdamOf(uint64_t step) {
  StoreAdamArgs args = {};
  args.first = 1;
  args.second = 2;
  args.gradient_factor = 0.3f;
  const double betas[] = {0.999, 0.95, 0.999}, decay[] = {0.1, 0.01, 0.0};
  for (int i = 0; i < 3; ++i) {
    const double t = double(i == 2 ? step + 1000 : step), lr = 0.003 * (i + 1);
    StoreAdamGroup& g = args.groups[i];
    g.beta1 = 0.9f;
    g.one_less_beta1 = float(1 - 0.9);
    g.beta2 = float(betas[i]);
    g.one_less_beta2 = float(1 - betas[i]);
    g.step_size = float(lr / (1 - std::pow(0.9, t)));
    g.root = float(1 / std::sqrt(1 - std::pow(betas[i], t)));
    g.eps = i == 1 ? 1e-15f : 1e-8f;
    g.l2 = i == 2 ? 0.01f : 0.0f;
    g.keep = float(1 - lr * decay[i]);
  }
  return args;
}

struct Trained {
  Encoding main, first, second;
  uint64_t numel;
  int most = 60;  // gradients are below two to this
  bool nearest = false;
  bool l2 = true;
};

void Train(const Trained& t, uint64_t steps) {
  const sim::Gpu context{0};
  const bool lo16 = t.main == Encoding::kLo16;
  ProcessorStore s(Moments(t.main, t.first, t.second), t.numel, t.nearest,
                   lo16 ? kTypeBf16 : kTypeNone);
  KernelBed bed(s);
  std::vector<float> values(s.bucket().numel);
  for (uint64_t i = 0; i < values.size(); ++i) {
    values[i] = Below(t.main == Encoding::kFp16 ? 14 : t.most, AnyFloat(17, i));
  }
  s.Save(0, values, 0);
  SetGradients(s, 1, t.most);
  bed.PutState();
  for (uint64_t step = 1; step <= steps; ++step) {
    INFO(store::NameOf(t.main) << ", " << store::NameOf(t.first) << ", " << store::NameOf(t.second)
                               << ", step " << step);
    SetGradients(s, step, t.most);
    bed.gradients.Put(s.gradients);
    StoreAdamArgs adam = AdamOf(step);
    if (!t.l2) adam.groups[2].l2 = 0.0f;
    s.Step(adam, step);
    const StoreFindings found = bed.Run(kStoreAdam, step, &adam);
    bed.RequireSame();
    RequireFindings(found, 0, lo16 ? s.WeightSum() : 0);
  }
}

TEST_CASE("steps of Adam over a million elements are the processor's") {
  Train({Encoding::kFp32, Encoding::kFp32, Encoding::kFp32, kMany}, 3);
  Train({Encoding::kLo16, Encoding::kQ8First, Encoding::kQ8Second, kMany}, 3);
}

TEST_CASE("steps of Adam in every encoding are the processor's") {
  Train({Encoding::kFp32, Encoding::kBf16, Encoding::kBf16, kSome}, 8);
  Train({Encoding::kFp32, Encoding::kBf16Nearest, Encoding::kBf16Nearest, kSome}, 5);
  Train({Encoding::kBf16, Encoding::kBf16, Encoding::kFp32, kSome}, 5);
  Train({Encoding::kFp16, Encoding::kFp16, Encoding::kFp32, kSome, 7}, 5);
  // A second moment that fp16 has lost makes steps so large that L2 would leave its range.
  Train({Encoding::kFp32, Encoding::kFp32, Encoding::kFp16, kSome, 7, false, false}, 5);
  Train({Encoding::kLo16, Encoding::kBf16, Encoding::kBf16, kSome}, 8);
  Train({Encoding::kFp32, Encoding::kFp8First, Encoding::kFp8Second, kSome}, 8);
  Train({Encoding::kLo16, Encoding::kFp8First, Encoding::kQ8Second, kSome}, 5);
  Train({Encoding::kBf16, Encoding::kQ8First, Encoding::kFp8Second, kSome, 60, true}, 5);
}

TEST_CASE("moments that a gradient has made infinite are counted, and become zero") {
  const sim::Gpu context{0};
  ProcessorStore s(Moments(Encoding::kFp32, Encoding::kBf16, Encoding::kQ8Second), kSome, false);
  KernelBed bed(s);
  SetGradients(s, 2, 15, true);
  bed.PutState();
  uint32_t wild = 0;
  for (const store::Piece& piece : s.bucket().pieces) {
    for (uint64_t i = 0; i < piece.numel(); ++i) {
      const StoreType type = s.tensors[piece.entry].gradient_type;
      wild += store::IsFinite(LoadTyped(s.GradientOf(piece), type, i)) ? 0 : 2;
    }
  }
  REQUIRE(wild > 100);
  StoreAdamArgs adam = AdamOf(1);
  RequireFindings(bed.Run(kStoreAdam, 1, &adam), wild, 0);
}

// ---- what is made of weights, and looked at before a step ----

TEST_CASE("views are made of weights of every type, whatever their bits") {
  const sim::Gpu context{0};
  ProcessorStore s(Moments(Encoding::kFp32, Encoding::kFp32, Encoding::kFp32), kMany, false);
  KernelBed bed(s);
  SetWeights(s, 5);
  bed.PutState();
  uint32_t segment = 0;
  bed.Run(kStoreWiden, 1, &segment);
  std::vector<float> wanted(s.bucket().numel);
  for (const store::Piece& piece : s.bucket().pieces) {
    const StoreType type = s.tensors[piece.entry].weight_type;
    for (uint64_t i = 0; i < piece.numel(); ++i) {
      wanted[piece.position + i] = LoadTyped(s.WeightOf(piece), type, i);
    }
  }
  RequireEqual("values", bed.views[0]->Get<float>(), wanted);
  bed.RequireSame();
}

TEST_CASE("gradients that are not finite are counted, and bf16 weights summed up") {
  const sim::Gpu context{0};
  ProcessorStore s(Moments(Encoding::kFp32, Encoding::kFp32, Encoding::kFp32), kMany, false);
  KernelBed bed(s);
  SetWeights(s, 6);
  for (const bool wild : {false, true}) {
    SetGradients(s, 7, 127, wild);
    bed.PutState();
    uint32_t non_finite = 0;
    for (const store::Piece& piece : s.bucket().pieces) {
      const StoreType type = s.tensors[piece.entry].gradient_type;
      for (uint64_t i = 0; i < piece.numel(); ++i) {
        non_finite += store::IsFinite(LoadTyped(s.GradientOf(piece), type, i)) ? 0 : 1;
      }
    }
    CHECK((non_finite > 1000) == wild);
    const StoreFindings found = bed.Run(kStoreLook, 1);
    CHECK(found.non_finite == non_finite);
    CHECK(found.weight_sum == s.WeightSum());
    CHECK(found.unfit == 0);
    bed.RequireSame();
  }
}

}  // namespace
}  // namespace parkade::shim
