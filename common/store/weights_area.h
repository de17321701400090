// The areas behind a lo16 segment in a bucket's file: tie map and bf16 weights, filled together.
#pragma once

#include <cstdint>
#include <span>

#include "common/store/layout.h"
#include "common/store/records.h"

namespace parkade::store {

// Writes both areas into a bucket's saved bytes, and the state's ties and weight_sum. Nothing for a
// layout without lo16.
void FillWeightsArea(const Layout& layout, const Bucket& bucket, const Weights& weights,
                     std::span<uint8_t> bytes, BucketState& state);

}  // namespace parkade::store
