// ProcessorStore: the state of one bucket as the processor's own encodings keep it, with its
// weights and gradients in host memory; what the kernels on a GPU are compared with, bit for bit.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "common/store/layout.h"
#include "shim/kernels/store_quads.h"

namespace parkade::shim {

// An entry of the bucket, and how its tensors stand in memory.
struct StoreTensor {
  store::Entry entry;
  StoreType weight_type, gradient_type;
  Bytes weight_at = 0, gradient_at = 0;  // in `weights` and `gradients`; aligned to an element
  uint64_t numel() const { return entry.flat_end - entry.flat_begin; }
};

inline Bytes SizeOfType(StoreType type) { return type == kTypeFp32 ? 4 : 2; }

class ProcessorStore {
 public:
  // Pieces of odd lengths, from odd elements on, small ones side by side; `numel` in all, about.
  // `weight` none: of all types.
  ProcessorStore(std::vector<store::Segment> segments, uint64_t numel, bool nearest_only,
                 StoreType weight = kTypeNone)
      : nearest(nearest_only) {
    const StoreType types[] = {kTypeFp32, kTypeBf16, kTypeFp16};
    const uint64_t lengths[] = {1, 31, 32, 33, 5, 0, 6739, 257, numel / 3 + 1, numel / 3 + 2, 2309};
    std::vector<store::Entry> entries;
    for (uint64_t length : lengths) {
      const auto i = uint32_t(tensors.size());
      store::Entry entry;
      entry.name = "layer" + std::to_string(i);
      entry.flat_begin = i * 1037 % 97;
      entry.flat_end = entry.flat_begin + length;
      // Of a tensor that is cut at an odd element: a quad's random words are of two draws.
      entry.tp_axis = 0;
      entry.tp_offset = i * 3;
      entry.local_shape = {entry.flat_end + 11};
      entry.global_shape = {entry.local_shape[0] + entry.tp_offset + 2};
      entry.group = i % 3;
      AddTensor(entry, weight == kTypeNone ? types[i % 3] : weight, types[i / 3 % 3]);
      entries.push_back(entry);
    }
    AddRest(entries, numel, weight);
    auto made = store::Layout::Make(entries, std::move(segments), 2 * numel + 65536);
    REQUIRE(made.ok());
    layout = std::move(*made);
    REQUIRE(layout.buckets().size() == 1);
    for (const store::Segment& segment : layout.segments()) {
      encoded.emplace_back(store::EncodedBytes(segment, bucket().numel));
    }
    ties.resize(bucket().numel / 32);
    bf16.resize(bucket().numel);
  }

  const store::Bucket& bucket() const { return layout.buckets()[0]; }
  uint64_t WeightOf(const store::Piece& piece) const {
    return uint64_t(weights.data()) + tensors[piece.entry].weight_at;
  }
  uint64_t GradientOf(const store::Piece& piece) const {
    return uint64_t(gradients.data()) + tensors[piece.entry].gradient_at;
  }
  uint64_t Key(const store::Piece& piece) const {
    return store::RoundingKey(kSeed, store::ParameterId(layout.entries()[piece.entry].name));
  }

  // A segment's values by position; zero where there is no element.
  std::vector<float> Values(uint32_t segment) {
    std::vector<float> values(bucket().numel);
    for (const store::Piece& piece : bucket().pieces) {
      store::Decode(layout.segments()[segment], encoded[segment].data(), bucket().numel,
                    piece.positions(), HalfWeights(segment), values.data());
    }
    return values;
  }
  // Values that the encoding holds, and the weights of "main".
  void Save(uint32_t segment, const std::vector<float>& values, uint64_t step) {
    for (const store::Piece& piece : bucket().pieces) {
      store::Rounding rounding;
      rounding.key = Key(piece);
      rounding.step = step;
      rounding.segment = segment;
      rounding.counter = piece.counter;
      rounding.nearest = nearest;
      auto saved =
          store::Encode(layout.segments()[segment], values.data(), bucket().numel,
                        piece.positions(), rounding, HalfWeights(segment), encoded[segment].data());
      INFO((saved.ok() ? "" : saved.error().what));
      REQUIRE(saved.ok());
      if (segment != 0) continue;
      const StoreTensor& t = tensors[piece.entry];
      for (uint64_t i = 0; i < piece.numel(); ++i) {
        const uint64_t at = piece.position + i;
        if (layout.lo16() == 0) {
          reinterpret_cast<uint16_t*>(WeightOf(piece))[i] = bf16[at];
        } else {
          SaveTyped(WeightOf(piece), t.weight_type, i, values[at]);
        }
      }
    }
  }
  // One step of Adam on the segments 0, 1 and 2.
  void Step(const StoreAdamArgs& adam, uint64_t step) {
    std::vector<float> main = Values(0), first = Values(1), second = Values(2);
    for (const store::Piece& piece : bucket().pieces) {
      const StoreTensor& t = tensors[piece.entry];
      for (uint64_t i = 0; i < piece.numel(); ++i) {
        const uint64_t at = piece.position + i;
        const float gradient =
            store::Mul(adam.gradient_factor, LoadTyped(GradientOf(piece), t.gradient_type, i));
        Adam(adam.groups[t.entry.group], gradient, &main[at], &first[at], &second[at]);
      }
    }
    Save(0, main, step);
    Save(1, first, step);
    Save(2, second, step);
  }
  // The checksum of all bf16 weights.
  uint64_t WeightSum() const {
    uint64_t sum = 0;
    std::vector<uint16_t> placed(bucket().numel);
    for (const store::Piece& piece : bucket().pieces) {
      if (tensors[piece.entry].weight_type != kTypeBf16) continue;
      memcpy(&placed[piece.position], reinterpret_cast<const void*>(WeightOf(piece)),
             piece.numel() * 2);
      sum += store::WeightSum(placed.data(), piece.positions());
    }
    return sum;
  }

  static constexpr uint64_t kSeed = 4711;
  const bool nearest;
  store::Layout layout;
  std::vector<StoreTensor> tensors;  // as Layout::entries
  std::vector<uint8_t> weights, gradients;
  std::vector<std::vector<uint8_t>> encoded;  // by segment
  std::vector<uint32_t> ties;
  std::vector<uint16_t> bf16;  // of lo16, by position

 private:
  store::Weights HalfWeights(uint32_t segment) {
    if (int(segment) != layout.lo16()) return {};
    return {bf16, ties};
  }
  void AddTensor(const store::Entry& entry, StoreType weight, StoreType gradient) {
    StoreTensor t = {entry, weight, gradient};
    const auto place = [&](std::vector<uint8_t>& memory, StoreType type) {
      const Bytes at = RoundUp(memory.size() + 2, SizeOfType(type));
      memory.resize(at + t.numel() * SizeOfType(type), 0x3c);
      return at;
    };
    t.weight_at = place(weights, weight);
    t.gradient_at = place(gradients, gradient);
    tensors.push_back(std::move(t));
  }
  void AddRest(std::vector<store::Entry>& entries, uint64_t numel, StoreType weight) {
    store::Entry entry;
    entry.name = "rest";
    entry.flat_begin = 7;
    entry.flat_end = 7 + numel / 3 + 3;
    entry.global_shape = entry.local_shape = {entry.flat_end};
    AddTensor(entry, weight == kTypeNone ? kTypeBf16 : weight, kTypeBf16);
    entries.push_back(entry);
  }
};

}  // namespace parkade::shim
