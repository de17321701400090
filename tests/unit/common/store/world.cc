// Makes, saves and decodes a made-up model.
#include "tests/unit/common/store/world.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/store/ties.h"

namespace parkade::store {
namespace {

uint64_t NumelOfShape(const std::vector<uint64_t>& shape) { return *NumelOf(shape); }

// Global index of a local one, element by element through coordinates: slow, and not as the library
// does it.
uint64_t GlobalIndex(const Entry& entry, uint64_t local) {
  uint64_t global = 0, scale = 1;
  for (size_t axis = entry.local_shape.size(); axis-- > 0;) {
    uint64_t at = local % entry.local_shape[axis];
    local /= entry.local_shape[axis];
    if (int32_t(axis) == entry.tp_axis) at += entry.tp_offset;
    global += at * scale;
    scale *= entry.global_shape[axis];
  }
  return global;
}

float ValueOf(const std::string& name, size_t segment, uint64_t global) {
  const uint64_t bits = Mix(ParameterId(name) + segment * 77 + global * 1009);
  float value = std::ldexp(float(bits >> 40) + 1, -24 - int(bits % 5));
  // Halfway values, one in 8, as a model from an fp16 checkpoint has them.
  if (segment == 0 && bits % 8 == 0) value = FloatOf((BitsOf(value) & 0xffff0000u) | 0x8000u);
  return segment == 0 && bits % 2 ? -value : value;
}

}  // namespace

std::vector<Layout> LayoutsOf(const std::vector<Parameter>& model, const Cut& cut,
                              const std::vector<Segment>& segments) {
  uint32_t stages = 1;
  for (const Parameter& parameter : model) stages = std::max(stages, parameter.stage + 1);
  std::vector<Layout> layouts;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    for (uint32_t tp = 0; tp < cut.tp; ++tp) {
      std::vector<Entry> local;
      uint64_t total = 0;
      for (const Parameter& parameter : model) {
        if (parameter.stage != stage) continue;
        Entry entry = {.name = parameter.name,
                       .global_shape = parameter.shape,
                       .local_shape = parameter.shape};
        if (parameter.axis >= 0 && cut.tp > 1) {
          const size_t axis = size_t(parameter.axis);
          const uint64_t n = parameter.shape[axis];
          entry.tp_axis = parameter.axis;
          entry.tp_offset = n * tp / cut.tp;
          entry.local_shape[axis] = n * (tp + 1) / cut.tp - entry.tp_offset;
        } else {
          entry.replica = tp;
        }
        total += NumelOfShape(entry.local_shape);
        local.push_back(entry);
      }
      for (uint32_t dp = 0; dp < cut.dp; ++dp) {
        const uint64_t begin = total * dp / cut.dp, end = total * (dp + 1) / cut.dp;
        std::vector<Entry> entries;
        uint64_t at = 0;
        for (Entry entry : local) {
          const uint64_t numel = NumelOfShape(entry.local_shape);
          const auto within = [&](uint64_t flat) {
            const uint64_t inside = std::clamp(flat, at, at + numel) - at;
            return inside == numel ? numel : inside / cut.align * cut.align;
          };
          entry.flat_begin = within(begin);
          entry.flat_end = within(end);
          entries.push_back(entry);
          at += numel;
        }
        auto layout = Layout::Make(std::move(entries), segments, cut.bucket);
        REQUIRE(layout.ok());
        layouts.push_back(std::move(*layout));
      }
    }
  }
  return layouts;
}

Buckets Filled(const Layout& layout) {
  Buckets buckets;
  for (const Bucket& bucket : layout.buckets()) {
    auto& [bytes, state] = buckets.emplace_back();
    bytes.resize(bucket.saved_bytes);
    std::vector<uint16_t> bf16(layout.lo16() < 0 ? 0 : bucket.numel);
    std::vector<uint32_t> ties(bf16.size() / kGroup);
    for (const Piece& piece : bucket.pieces) {
      const Entry& entry = layout.entries()[piece.entry];
      for (size_t i = 0; i < layout.segments().size(); ++i) {
        const Segment& segment = layout.segments()[i];
        uint8_t* encoded = bytes.data() + bucket.segments[i].offset;
        std::vector<float> values(bucket.numel);
        for (uint64_t n = 0; n < piece.numel(); ++n) {
          const uint64_t global = GlobalIndex(entry, piece.param_begin + n);
          values[piece.position + n] = ValueOf(entry.name, i, global);
          if (segment.encoding != Encoding::kRaw) continue;
          const Bytes unit = segment.raw_group_bytes / kGroup;
          const uint64_t bits = Mix(ParameterId(entry.name) ^ global);
          memcpy(encoded + (piece.position + n) * unit, &bits, unit);
        }
        const Rounding rounding = {RoundingKey(1, ParameterId(entry.name)), 9, uint32_t(i),
                                   piece.counter};
        REQUIRE(Encode(segment, values.data(), bucket.numel, piece.positions(), rounding,
                       {bf16, ties}, encoded)
                    .ok());
      }
      if (!bf16.empty()) state.weight_sum += WeightSum(bf16.data(), piece.positions());
    }
    state.ties = CountTies(ties);
    PackTies(ties, state.ties, {bytes.data() + bucket.ties.offset, bucket.ties.bytes});
    if (!bf16.empty()) memcpy(bytes.data() + bucket.weights.offset, bf16.data(), bf16.size() * 2);
  }
  return buckets;
}

void Save(const std::string& base, uint64_t step, const std::vector<Layout>& layouts) {
  static uint64_t set = 0;
  ++set;
  for (uint32_t rank = 0; rank < layouts.size(); ++rank) {
    const Buckets buckets = Filled(layouts[rank]);
    auto writer = CheckpointWriter::Begin(base, {.step = step,
                                                 .rank = rank,
                                                 .ranks = uint32_t(layouts.size()),
                                                 .set = set,
                                                 .layout = layouts[rank],
                                                 .user = "lr 0.1"});
    REQUIRE(writer.ok());
    for (uint32_t i = 0; i < buckets.size(); ++i) {
      const auto& [bytes, state] = buckets[i];
      REQUIRE(writer->WriteBucket(i, bytes.data(), state.ties, state.weight_sum).ok());
    }
    REQUIRE(writer->Publish().ok());
    auto complete = CompleteCheckpoint(base, step);
    REQUIRE(complete.ok());
    REQUIRE(*complete == (rank + 1 == layouts.size()));
  }
}

Values Decoded(const std::vector<Layout>& layouts, const std::vector<Buckets>& buckets) {
  Values all;
  for (size_t rank = 0; rank < layouts.size(); ++rank) {
    const Layout& layout = layouts[rank];
    for (size_t b = 0; b < layout.buckets().size(); ++b) {
      const Bucket& bucket = layout.buckets()[b];
      const auto& [bytes, state] = buckets[rank][b];
      std::vector<uint16_t> bf16(bucket.weights.bytes / 2);
      std::vector<uint32_t> ties(bf16.size() / kGroup);
      if (!bf16.empty()) {
        memcpy(bf16.data(), bytes.data() + bucket.weights.offset, bucket.weights.bytes);
        REQUIRE(UnpackTies({bytes.data() + bucket.ties.offset, bucket.ties.bytes}, state.ties, ties)
                    .ok());
      }
      for (size_t i = 0; i < layout.segments().size(); ++i) {
        const Segment& segment = layout.segments()[i];
        const uint8_t* encoded = bytes.data() + bucket.segments[i].offset;
        std::vector<float> values(bucket.numel);
        for (const Piece& piece : bucket.pieces) {
          const Entry& entry = layout.entries()[piece.entry];
          if (entry.replica != 0) continue;
          Decode(segment, encoded, bucket.numel, piece.positions(), {bf16, ties}, values.data());
          auto& out = all[entry.name + " " + segment.name];
          out.resize(NumelOfShape(entry.global_shape), 0xdeadbeef);
          for (uint64_t n = 0; n < piece.numel(); ++n) {
            uint32_t bits = BitsOf(values[piece.position + n]);
            const Bytes unit = segment.raw_group_bytes / kGroup;
            if (segment.encoding == Encoding::kRaw) {
              bits = 0;
              memcpy(&bits, encoded + (piece.position + n) * unit, std::min<Bytes>(unit, 4));
            }
            out[GlobalIndex(entry, piece.param_begin + n)] = bits;
          }
        }
      }
    }
  }
  return all;
}

Values DecodedOf(const Checkpoint& checkpoint) {
  std::vector<Layout> layouts;
  std::vector<Buckets> buckets;
  for (uint32_t rank = 0; rank < checkpoint.manifests().size(); ++rank) {
    const Manifest& manifest = checkpoint.manifests()[rank];
    layouts.push_back(manifest.layout);
    buckets.emplace_back(manifest.buckets.size());
    for (uint32_t bucket = 0; bucket < manifest.buckets.size(); ++bucket) {
      auto& [bytes, state] = buckets.back()[bucket];
      REQUIRE(checkpoint.ReadBucket(rank, bucket, bytes).ok());
      state.ties = manifest.buckets[bucket].ties;
    }
  }
  return Decoded(layouts, buckets);
}

Values Loaded(const Checkpoint& checkpoint, const std::vector<Layout>& wanted,
              Conversion conversion, uint64_t& reencoded) {
  reencoded = 0;
  std::vector<Buckets> buckets;
  for (const Layout& layout : wanted) {
    auto plan = Resharding::Plan(checkpoint, layout, conversion);
    if (!plan.ok()) FAIL(plan.error().what);
    auto& mine = buckets.emplace_back(layout.buckets().size());
    for (uint32_t bucket = 0; bucket < mine.size(); ++bucket) {
      auto r = plan->MakeBucket(bucket, mine[bucket].bytes, mine[bucket].state);
      if (!r.ok()) FAIL(r.error().what);
    }
    reencoded += plan->reencoded();
  }
  return Decoded(wanted, buckets);
}

}  // namespace parkade::store
