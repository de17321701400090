// The kernels of verifier as PTX, old enough a version for every driver that knows sm_80. The
// simulated GPU has host functions of the same names (tests/sim/README.md).
//
//   fill_words    u32* p, u64 n, u32 seed: p[i] = Mix(i + seed)
//   verify_words  const u32* p, u64 n, u32 seed, u64* mismatches: adds the words that differ
//   spin_ms       u32 ms: takes that long, in one thread
#pragma once

extern const char kVerifierPtx[];
