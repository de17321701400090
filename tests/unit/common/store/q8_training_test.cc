// A small language model trained with its moments stored in q8 after every step, against fp32 and a
// codec that must fail.
//
// Each run keeps a shadow: fp32 moments fed the same gradients. It tells codecs apart where the
// loss, whose spread among seeds is larger than most damage, cannot.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/store/encoding.h"

namespace parkade::store {
namespace {

constexpr int kWords = 256, kWidth = 32, kHidden = 32, kBatch = 64, kSteps = 300;
constexpr float kRate = 2e-3f, kEps = 1e-8f, kDecay = 0.01f, kBeta1 = 0.9f;

enum class Storage { kFp32, kQ8, kLinearInt8 };

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed + 77)) {}
  float Uniform() { return float(Mix(++state_) >> 40) * 0x1p-24f; }

 private:
  uint64_t state_;
};

// The next word follows the one before it most of the time, and otherwise Zipf's law, so that many
// words are rare.
struct Language {
  std::vector<float> sums = std::vector<float>(kWords);
  Language() {
    float sum = 0;
    for (int i = 0; i < kWords; ++i) sums[size_t(i)] = sum += 1 / float(i + 1);
  }
  int Word(Random& random) const {
    const float at = random.Uniform() * sums.back();
    return int(std::min<size_t>(
        size_t(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin()), kWords - 1));
  }
  int Next(int word, Random& random) const {
    return random.Uniform() < 0.6f ? (word * 5 + 3) % kWords : Word(random);
  }
};

// Embedding, tanh layer, softmax; parameters and gradients flat, as in a bucket. A word's embedding
// and its output row are a group of 32 each: a group that mixes common and rare words costs q8
// more.
struct Model {
  static constexpr size_t kEmbedding = size_t{kWords} * kWidth;
  static constexpr size_t kLayer = size_t{kWidth} * kHidden;
  static constexpr size_t kOutput = size_t{kHidden} * kWords;
  static constexpr size_t kNumel = kEmbedding + kLayer + kOutput;
  std::vector<float> w = std::vector<float>(kNumel), g = std::vector<float>(kNumel);

  explicit Model(uint64_t seed) {
    Random random(seed);
    for (size_t i = 0; i < kNumel; ++i) {
      w[i] = (random.Uniform() - 0.5f) * (i < kEmbedding ? 0.5f : 0.35f);
    }
  }

  // The loss of one word; adds its gradients by `scale` unless that is 0.
  float Learn(int from, int to, float scale) {
    const float* x = &w[size_t(from) * kWidth];
    const float* layer = &w[kEmbedding];
    const float* output = &w[kEmbedding + kLayer];
    float hidden[kHidden], logits[kWords], back[kHidden] = {};
    for (int h = 0; h < kHidden; ++h) {
      float sum = 0;
      for (int i = 0; i < kWidth; ++i) sum += layer[h * kWidth + i] * x[i];
      hidden[h] = std::tanh(sum);
    }
    for (int o = 0; o < kWords; ++o) {
      logits[o] = 0;
      for (int h = 0; h < kHidden; ++h) logits[o] += output[o * kHidden + h] * hidden[h];
    }
    const float most = *std::max_element(logits, logits + kWords);
    float total = 0;
    for (float& logit : logits) total += logit = std::exp(logit - most);
    const float loss = -std::log(logits[to] / total);
    if (scale == 0) return loss;
    for (float& p : logits) p *= scale / total;
    logits[to] -= scale;
    float* output_g = &g[kEmbedding + kLayer];
    for (int o = 0; o < kWords; ++o) {
      for (int h = 0; h < kHidden; ++h) {
        output_g[o * kHidden + h] += logits[o] * hidden[h];
        back[h] += logits[o] * output[o * kHidden + h];
      }
    }
    for (int h = 0; h < kHidden; ++h) {
      const float slope = back[h] * (1 - hidden[h] * hidden[h]);
      for (int i = 0; i < kWidth; ++i) {
        g[kEmbedding + size_t(h * kWidth + i)] += slope * x[i];
        g[size_t(from) * kWidth + size_t(i)] += slope * layer[h * kWidth + i];
      }
    }
    return loss;
  }
};

void Store(Storage storage, std::vector<float>& m, std::vector<float>& v, uint64_t step) {
  const Range all = {0, m.size()};
  if (storage == Storage::kQ8) {
    for (const auto& [encoding, values, index] :
         {std::tuple{Encoding::kQ8First, &m, 1u}, {Encoding::kQ8Second, &v, 2u}}) {
      const Segment segment = {"s", encoding};
      static std::vector<uint8_t> bytes;
      bytes.resize(EncodedBytes(segment, m.size()));
      REQUIRE(Encode(segment, values->data(), m.size(), all, {RoundingKey(1, 1), step, index, 0},
                     {}, bytes.data())
                  .ok());
      Decode(segment, bytes.data(), m.size(), all, {}, values->data());
    }
  } else if (storage == Storage::kLinearInt8) {
    for (size_t group = 0; group < m.size(); group += kGroup) {
      float most_m = 1e-30f, most_v = 1e-30f;
      for (size_t i = group; i < group + kGroup; ++i) {
        most_m = std::max(most_m, std::abs(m[i]));
        most_v = std::max(most_v, v[i]);
      }
      for (size_t i = group; i < group + kGroup; ++i) {
        m[i] = std::round(m[i] / most_m * 127) / 127 * most_m;
        v[i] = std::round(v[i] / most_v * 255) / 255 * most_v;
      }
    }
  }
}

struct Outcome {
  double loss = 0, worst_step = 0, update_error = 0, bias = 0;
  size_t wrongly_zero = 0;
};

Outcome Train(Storage storage, float beta2, uint64_t seed) {
  const Language language;
  Model model(seed);
  Random data(seed + 1000);
  const size_t n = Model::kNumel;
  std::vector<float> m(n), v(n), m_shadow(n), v_shadow(n);
  Outcome out;
  for (int step = 1; step <= kSteps; ++step) {
    std::fill(model.g.begin(), model.g.end(), 0.0f);
    for (int i = 0; i < kBatch; ++i) {
      const int word = language.Word(data);
      model.Learn(word, language.Next(word, data), 1.0f / kBatch);
    }
    const float c1 = 1 - std::pow(kBeta1, float(step)), c2 = 1 - std::pow(beta2, float(step));
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      const float g = model.g[i];
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      m_shadow[i] = kBeta1 * m_shadow[i] + (1 - kBeta1) * g;
      v_shadow[i] = beta2 * v_shadow[i] + (1 - beta2) * g * g;
      const float update = m[i] / c1 / (std::sqrt(v[i] / c2) + kEps);
      const float exact = m_shadow[i] / c1 / (std::sqrt(v_shadow[i] / c2) + kEps);
      difference += double(update - exact) * double(update - exact);
      size += double(exact) * double(exact);
      out.worst_step = std::max(out.worst_step, std::abs(double(update)));
      model.w[i] -= kRate * (update + kDecay * model.w[i]);
    }
    Store(storage, m, v, uint64_t(step));
    out.update_error = std::sqrt(difference / size);
  }
  size_t counted = 0;
  for (size_t i = 0; i < n; ++i) {
    if (v_shadow[i] == 0) continue;
    out.wrongly_zero += v[i] == 0;
    if (v[i] == 0) continue;
    out.bias += std::log(double(v[i]) / double(v_shadow[i]));
    ++counted;
  }
  out.bias /= double(counted);
  Random held_out(4242);
  for (int i = 0; i < 2000; ++i) {
    const int word = language.Word(held_out);
    out.loss += double(model.Learn(word, language.Next(word, held_out), 0)) / 2000;
  }
  return out;
}

// The acceptance gate; `fp32` are runs of other seeds, `same` that of the same one.
bool Passes(const Outcome& run, const Outcome& same, double least, double most) {
  return run.worst_step <= 2 * same.worst_step && run.update_error <= 0.10 &&
         std::abs(run.bias) <= 0.01 && run.wrongly_zero == 0 && run.loss >= least &&
         run.loss <= most;
}

TEST_CASE("a model trained on q8 moments passes the gate, and linear int8 fails it") {
  for (const float beta2 : {0.95f, 0.999f}) {
    std::vector<Outcome> fp32;
    for (const uint64_t seed : {1, 2, 3}) fp32.push_back(Train(Storage::kFp32, beta2, seed));
    double least = 1e9, most = 0;
    for (const Outcome& run : fp32) {
      least = std::min(least, run.loss);
      most = std::max(most, run.loss);
    }
    // Three seeds show less than the whole band: as much again on both sides.
    const double band = most - least;
    const auto print = [beta2](const char* name, const Outcome& run) {
      printf(
          "beta2 %.3f %-11s loss %.4f  worst step %6.2f  update error %6.2f %%  bias %+.3f %%  "
          "zero %zu\n",
          double(beta2), name, run.loss, run.worst_step, run.update_error * 100, run.bias * 100,
          run.wrongly_zero);
    };
    print("fp32", fp32[0]);
    for (const uint64_t seed : {1, 2, 3}) {
      const Outcome run = Train(Storage::kQ8, beta2, seed);
      print("q8", run);
      CHECK(run.worst_step <= 2 * fp32[seed - 1].worst_step);
      CHECK(run.update_error <= 0.10);
      CHECK(std::abs(run.bias) <= 0.01);
      CHECK(run.wrongly_zero == 0);
      CHECK(Passes(run, fp32[seed - 1], least - band, most + band));
    }
    const Outcome control = Train(Storage::kLinearInt8, beta2, 1);
    print("linear int8", control);
    CHECK_FALSE(Passes(control, fp32[0], least - band, most + band));
  }
}

}  // namespace
}  // namespace parkade::store
