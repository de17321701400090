// The host twins of the kernels of stores (shim/kernels/store_kernels.cu): the same quads, in
// loops.
#pragma once

#include <algorithm>

#include "shim/kernels/store_quads.h"

namespace parkade::sim {

// Calls `run(piece, quads)` for every group of a bucket, with its eight quads.
template <typename Run>
void ForGroups(const StoreBucketArgs& b, Run run) {
  for (uint64_t group = 0; group < b.groups; ++group) {
    const StorePiece& piece = PieceOf(b, group);
    StoreQuad quads[PARKADE_STORE_TEAM];
    for (uint32_t i = 0; i < PARKADE_STORE_TEAM; ++i) {
      quads[i] = QuadOf(piece, group * store::kGroup + 4 * i);
    }
    run(piece, quads);
  }
}

// One segment's 32 values of a group into its bytes.
inline void SaveGroup(const StoreBucketArgs& b, uint32_t segment, const StorePiece& piece,
                      const StoreQuad* quads, float (*v)[4], bool weights) {
  const StoreSegment& s = b.segments[segment];
  auto* const findings = reinterpret_cast<StoreFindings*>(b.findings);
  float most = 0.0f;
  uint32_t ties = 0;
  for (uint32_t i = 0; i < PARKADE_STORE_TEAM; ++i) {
    findings->unfit += TakeUnfit(s.encoding, v[i]);
    if (IsGrouped(s.encoding)) most = std::max(most, MostOf(s.encoding, v[i]));
  }
  for (uint32_t i = 0; i < PARKADE_STORE_TEAM; ++i) {
    if (s.encoding == kStoreLo16) {
      ties |= EncodeLo16Quad(s, piece, quads[i], v[i], &findings->weight_sum) << 4 * i;
      continue;
    }
    EncodeQuad(b, segment, piece, quads[i], v[i], most);
    if (!weights || piece.weight == 0) continue;
    for (uint32_t n = quads[i].first; n < quads[i].last; ++n) {
      SaveTyped(piece.weight, piece.weight_type, IndexIn(piece, quads[i], n), v[i][n]);
    }
  }
  if (s.encoding == kStoreLo16) {
    reinterpret_cast<uint32_t*>(b.ties)[quads[0].position / store::kGroup] = ties;
  }
}

inline void StoreDecode(const StoreBucketArgs& b) {
  ForGroups(b, [&](const StorePiece& piece, const StoreQuad* quads) {
    for (uint32_t s = 0; s < b.segment_count; ++s) {
      if (b.segments[s].view == 0) continue;
      auto* const view = reinterpret_cast<float*>(b.segments[s].view) + quads[0].position;
      for (uint32_t i = 0; i < PARKADE_STORE_TEAM; ++i) {
        DecodeQuad(b, b.segments[s], piece, quads[i], view + 4 * i);
      }
    }
  });
}

inline void StoreEncode(const StoreBucketArgs& b, uint32_t main) {
  ForGroups(b, [&](const StorePiece& piece, const StoreQuad* quads) {
    for (uint32_t s = 0; s < b.segment_count; ++s) {
      if (b.segments[s].view == 0) continue;
      const auto* const view =
          reinterpret_cast<const float*>(b.segments[s].view) + quads[0].position;
      float v[PARKADE_STORE_TEAM][4];
      for (uint32_t i = 0; i < store::kGroup; ++i) {
        v[i / 4][i % 4] = Has(quads[i / 4], i % 4) ? view[i] : 0.0f;
      }
      SaveGroup(b, s, piece, quads, v, s == main);
    }
  });
}

inline void StoreAdam(const StoreBucketArgs& b, const StoreAdamArgs& adam) {
  ForGroups(b, [&](const StorePiece& piece, const StoreQuad* quads) {
    float main[PARKADE_STORE_TEAM][4], first[PARKADE_STORE_TEAM][4], second[PARKADE_STORE_TEAM][4];
    for (uint32_t i = 0; i < PARKADE_STORE_TEAM; ++i) {
      DecodeQuad(b, b.segments[adam.main], piece, quads[i], main[i]);
      DecodeQuad(b, b.segments[adam.first], piece, quads[i], first[i]);
      DecodeQuad(b, b.segments[adam.second], piece, quads[i], second[i]);
      for (uint32_t n = quads[i].first; n < quads[i].last; ++n) {
        const float gradient =
            store::Mul(adam.gradient_factor,
                       LoadTyped(piece.gradient, piece.gradient_type, IndexIn(piece, quads[i], n)));
        Adam(adam.groups[piece.group], gradient, &main[i][n], &first[i][n], &second[i][n]);
      }
    }
    SaveGroup(b, adam.main, piece, quads, main, true);
    SaveGroup(b, adam.first, piece, quads, first, false);
    SaveGroup(b, adam.second, piece, quads, second, false);
  });
}

inline void StoreWiden(const StoreBucketArgs& b, uint32_t main) {
  ForGroups(b, [&](const StorePiece& piece, const StoreQuad* quads) {
    auto* const view = reinterpret_cast<float*>(b.segments[main].view);
    for (uint32_t i = 0; i < store::kGroup; ++i) {
      const StoreQuad& quad = quads[i / 4];
      view[quads[0].position + i] =
          Has(quad, i % 4) ? LoadTyped(piece.weight, piece.weight_type, IndexIn(piece, quad, i % 4))
                           : 0.0f;
    }
  });
}

inline void StoreLook(const StoreBucketArgs& b) {
  auto* const findings = reinterpret_cast<StoreFindings*>(b.findings);
  ForGroups(b, [&](const StorePiece& piece, const StoreQuad* quads) {
    for (uint32_t i = 0; i < store::kGroup; ++i) {
      const StoreQuad& quad = quads[i / 4];
      if (!Has(quad, i % 4)) continue;
      const uint64_t index = IndexIn(piece, quad, i % 4);
      if (piece.gradient != 0 &&
          !store::IsFinite(LoadTyped(piece.gradient, piece.gradient_type, index))) {
        ++findings->non_finite;
      }
      if (piece.weight != 0 && piece.weight_type == kTypeBf16) {
        findings->weight_sum += store::WeightTerm(
            quads[0].position + i, reinterpret_cast<const uint16_t*>(piece.weight)[index]);
      }
    }
  });
}

}  // namespace parkade::sim
