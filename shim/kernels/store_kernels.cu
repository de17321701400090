// The kernels of a store: decode, encode, Adam, and what is looked at before a step. Eight threads
// share a group of 32 positions, four elements each, so that a thread moves 16 bytes of fp32 at
// once and draws its random bits once.
#include "shim/kernels/store_quads.h"

using parkade::StoreAdamArgs;
using parkade::StoreBucketArgs;
using parkade::StoreFindings;
using parkade::StorePiece;
using parkade::StoreQuad;
using parkade::StoreSegment;

namespace {

typedef unsigned long long u64;
constexpr unsigned kTeam = PARKADE_STORE_TEAM;
constexpr unsigned kAll = 0xffffffff;

// The largest of a team's values, for each of it; all threads of the warp are here.
__device__ float TeamMost(float x) {
  for (unsigned lane = 1; lane < kTeam; lane *= 2) {
    const float other = __shfl_xor_sync(kAll, x, lane, kTeam);
    if (other > x) x = other;
  }
  return x;
}

__device__ unsigned TeamOr(unsigned x) {
  for (unsigned lane = 1; lane < kTeam; lane *= 2) x |= __shfl_xor_sync(kAll, x, lane, kTeam);
  return x;
}

// Which group a thread works on, and which quad of it. Those past the end work on the last one
// again, and write nothing: whole warps stay together.
struct Place {
  u64 group;
  unsigned quad;
  bool mine;
};

__device__ Place PlaceOf(u64 groups) {
  const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  const u64 group = thread / kTeam;
  return {group < groups ? group : groups - 1, unsigned(thread % kTeam), group < groups};
}

// Adds what the threads of a warp, who are all here, have found: once, since all warps of a bucket
// add to the same words.
template <typename T>
__device__ void AddUp(T* at, T found) {
  if (!__any_sync(kAll, found != 0)) return;
  for (unsigned lane = 1; lane < 32; lane *= 2) found += __shfl_xor_sync(kAll, found, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(at, found);
}

__device__ StoreFindings* FindingsOf(const StoreBucketArgs& b) {
  return reinterpret_cast<StoreFindings*>(b.findings);
}

__device__ u64* SumOf(const StoreBucketArgs& b) {
  return reinterpret_cast<u64*>(&FindingsOf(b)->weight_sum);
}

// One segment's four values into its bytes; `weights`: they are what the weights follow.
__device__ void Save(const StoreBucketArgs& b, unsigned segment, const StorePiece& piece,
                     const StoreQuad& quad, const Place& place, float v[4], bool weights) {
  const StoreSegment& s = b.segments[segment];
  const unsigned unfit = parkade::TakeUnfit(s.encoding, v);
  u64 sum = 0;
  if (s.encoding == parkade::kStoreLo16) {
    uint64_t added = 0;
    unsigned ties = 0;
    if (place.mine) ties = parkade::EncodeLo16Quad(s, piece, quad, v, &added);
    ties = TeamOr(ties << 4 * place.quad);
    if (place.mine && place.quad == 0) reinterpret_cast<uint32_t*>(b.ties)[place.group] = ties;
    sum = added;
  } else {
    float most = 0.0f;
    if (parkade::IsGrouped(s.encoding)) most = TeamMost(parkade::MostOf(s.encoding, v));
    if (place.mine) {
      parkade::EncodeQuad(b, segment, piece, quad, v, most);
      if (weights && piece.weight != 0) {
        for (unsigned i = quad.first; i < quad.last; ++i) {
          parkade::SaveTyped(piece.weight, piece.weight_type, parkade::IndexIn(piece, quad, i),
                             v[i]);
        }
      }
    }
  }
  AddUp(&FindingsOf(b)->unfit, place.mine ? unfit : 0);
  AddUp(SumOf(b), sum);
}

}  // namespace

// From encoded bytes to fp32 views.
extern "C" __global__ void __launch_bounds__(PARKADE_STORE_THREADS)
    parkade_store_decode(StoreBucketArgs b) {
  const Place place = PlaceOf(b.groups);
  if (!place.mine) return;
  const StorePiece& piece = parkade::PieceOf(b, place.group);
  const StoreQuad quad =
      parkade::QuadOf(piece, place.group * parkade::store::kGroup + 4 * place.quad);
  for (unsigned s = 0; s < b.segment_count; ++s) {
    if (b.segments[s].view == 0) continue;
    float v[4];
    parkade::DecodeQuad(b, b.segments[s], piece, quad, v);
    reinterpret_cast<float4*>(b.segments[s].view)[quad.position / 4] =
        make_float4(v[0], v[1], v[2], v[3]);
  }
}

// Back; the weights follow segment `main`.
extern "C" __global__ void __launch_bounds__(PARKADE_STORE_THREADS)
    parkade_store_encode(StoreBucketArgs b, uint32_t main) {
  const Place place = PlaceOf(b.groups);
  const StorePiece& piece = parkade::PieceOf(b, place.group);
  const StoreQuad quad =
      parkade::QuadOf(piece, place.group * parkade::store::kGroup + 4 * place.quad);
  for (unsigned s = 0; s < b.segment_count; ++s) {
    if (b.segments[s].view == 0) continue;
    const float4 loaded = reinterpret_cast<const float4*>(b.segments[s].view)[quad.position / 4];
    float v[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    for (unsigned i = 0; i < 4; ++i) {
      if (!parkade::Has(quad, i)) v[i] = 0.0f;
    }
    Save(b, s, piece, quad, place, v, s == main);
  }
}

// Decode, update, write the weights, encode.
extern "C" __global__ void __launch_bounds__(PARKADE_STORE_THREADS)
    parkade_store_adam(StoreBucketArgs b, StoreAdamArgs adam) {
  const Place place = PlaceOf(b.groups);
  const StorePiece& piece = parkade::PieceOf(b, place.group);
  const StoreQuad quad =
      parkade::QuadOf(piece, place.group * parkade::store::kGroup + 4 * place.quad);
  float main[4], first[4], second[4];
  parkade::DecodeQuad(b, b.segments[adam.main], piece, quad, main);
  parkade::DecodeQuad(b, b.segments[adam.first], piece, quad, first);
  parkade::DecodeQuad(b, b.segments[adam.second], piece, quad, second);
  for (unsigned i = quad.first; i < quad.last; ++i) {
    const float gradient = parkade::store::Mul(
        adam.gradient_factor, parkade::LoadTyped(piece.gradient, piece.gradient_type,
                                                 parkade::IndexIn(piece, quad, i)));
    parkade::Adam(adam.groups[piece.group], gradient, &main[i], &first[i], &second[i]);
  }
  __syncwarp();
  Save(b, adam.main, piece, quad, place, main, true);
  Save(b, adam.first, piece, quad, place, first, false);
  Save(b, adam.second, piece, quad, place, second, false);
}

// Makes the view of segment `main` of the weights, for a store that begins with them.
extern "C" __global__ void __launch_bounds__(PARKADE_STORE_THREADS)
    parkade_store_widen(StoreBucketArgs b, uint32_t main) {
  const Place place = PlaceOf(b.groups);
  if (!place.mine) return;
  const StorePiece& piece = parkade::PieceOf(b, place.group);
  const StoreQuad quad =
      parkade::QuadOf(piece, place.group * parkade::store::kGroup + 4 * place.quad);
  float* const view = reinterpret_cast<float*>(b.segments[main].view);
  for (unsigned i = 0; i < 4; ++i) {
    view[quad.position + i] =
        parkade::Has(quad, i) ? parkade::LoadTyped(piece.weight, piece.weight_type,
                                                   parkade::IndexIn(piece, quad, i))
                              : 0.0f;
  }
}

// Counts gradients that are not finite, and sums up bf16 weights as the tie map's owner does.
extern "C" __global__ void __launch_bounds__(PARKADE_STORE_THREADS)
    parkade_store_look(StoreBucketArgs b) {
  const Place place = PlaceOf(b.groups);
  const StorePiece& piece = parkade::PieceOf(b, place.group);
  const StoreQuad quad =
      parkade::QuadOf(piece, place.group * parkade::store::kGroup + 4 * place.quad);
  unsigned non_finite = 0;
  u64 sum = 0;
  for (unsigned i = quad.first; place.mine && i < quad.last; ++i) {
    const u64 index = parkade::IndexIn(piece, quad, i);
    if (piece.gradient != 0) {
      const float g = parkade::LoadTyped(piece.gradient, piece.gradient_type, index);
      if (!parkade::store::IsFinite(g)) ++non_finite;
    }
    if (piece.weight != 0 && piece.weight_type == parkade::kTypeBf16) {
      sum += parkade::store::WeightTerm(quad.position + i,
                                        reinterpret_cast<const uint16_t*>(piece.weight)[index]);
    }
  }
  AddUp(&FindingsOf(b)->non_finite, non_finite);
  AddUp(SumOf(b), sum);
}
