// What the host and the kernels of store_kernels.cu agree on. Plain C types alone.
#pragma once

#include <stdint.h>

namespace parkade {

// Threads of one block of the grid, and how many of them share a group of 32 positions.
#define PARKADE_STORE_THREADS 256
#define PARKADE_STORE_TEAM 8
#define PARKADE_STORE_SEGMENTS 16
#define PARKADE_STORE_GROUPS 64

// How a weight or a gradient stands in memory.
enum StoreType : uint32_t { kTypeNone = 0, kTypeFp32 = 1, kTypeBf16 = 2, kTypeFp16 = 3 };

// A piece of a parameter in a bucket; pieces stand in the order of their positions.
struct StorePiece {
  uint64_t position;  // of its first element in the bucket
  uint64_t numel;
  uint64_t counter;   // of its first element among the parameter's rounding bits
  uint64_t key;       // RoundingKey
  uint64_t weight;    // address of its first element's weight, of weight_type; 0: none
  uint64_t gradient;  // likewise
  uint32_t weight_type;
  uint32_t gradient_type;
  uint32_t group;  // whose hyperparameters it takes
  uint32_t zero;
};

struct StoreSegment {
  uint64_t bytes;     // address of its encoded bytes in the slot
  uint64_t scales;    // of its scales
  uint64_t view;      // of its elements as fp32
  uint32_t encoding;  // common/store/encoding.h; kRaw has no view
  uint32_t zero;
};

// What a kernel has found out about a bucket; zeroed before it.
struct StoreFindings {
  uint64_t weight_sum;  // common/store/encoding.h, WeightSum
  uint32_t unfit;       // values that their encoding does not hold
  uint32_t non_finite;  // gradients
};

// One bucket in one slot.
struct StoreBucketArgs {
  uint64_t pieces;  // address of StorePiece[piece_count]
  uint64_t ties;    // address of the tie map's bits; lo16 alone
  uint64_t findings;
  uint64_t groups;  // of 32 positions
  uint64_t step;
  uint32_t piece_count;
  uint32_t segment_count;
  uint32_t nearest;  // 1: no random bits
  uint32_t zero;
  StoreSegment segments[PARKADE_STORE_SEGMENTS];
};

// What one group of parameters has in one step, worked out by the host in binary64.
struct StoreAdamGroup {
  float beta1, one_less_beta1;
  float beta2, one_less_beta2;
  float step_size;  // lr / (1 - beta1^t)
  float root;       // 1 / sqrt(1 - beta2^t)
  float eps;
  float l2;    // weight decay that is added to the gradient
  float keep;  // 1 - lr * decoupled weight decay
};

struct StoreAdamArgs {
  uint32_t main, first, second;  // which segments
  float gradient_factor;         // one over the loss scale, times the clip factor
  StoreAdamGroup groups[PARKADE_STORE_GROUPS];
};

}  // namespace parkade
