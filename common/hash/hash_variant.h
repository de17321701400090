// The tree hash in one instruction set. Plain C types alone: what is compiled for AVX2 may not
// instantiate a function that the linker could take for all.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace parkade {

constexpr size_t kLeafBytes = 4096;
constexpr size_t kMostLeaves = 512;

// digest[0] is the low half. `bytes` as in HashBlock.
using HashVariant = void (*)(const char* memory, size_t bytes, uint64_t digest[2]);

// For processors with AVX2.
void HashBlockAvx2(const char* memory, size_t bytes, uint64_t digest[2]);

}  // namespace parkade
