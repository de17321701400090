// Fills the areas of ties and weights.
#include "common/store/weights_area.h"

#include <cstring>

#include "common/store/ties.h"

namespace parkade::store {

void FillWeightsArea(const Layout& layout, const Bucket& bucket, const Weights& weights,
                     std::span<uint8_t> bytes, BucketState& state) {
  if (layout.lo16() < 0) return;
  state.ties = CountTies(weights.ties);
  PackTies(weights.ties, state.ties, bytes.subspan(bucket.ties.offset, bucket.ties.bytes));
  memcpy(bytes.data() + bucket.weights.offset, weights.bf16.data(), bucket.weights.bytes);
  state.weight_sum = 0;
  for (const Piece& piece : bucket.pieces) {
    state.weight_sum += WeightSum(weights.bf16.data(), piece.positions());
  }
}

}  // namespace parkade::store
