// What each buffer of stepper must hold at each step, and the kernel that advances it on the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

// How a buffer gets from one step to the next.
enum class Advance {
  kKernel,  // a kernel adds kKernelDelta to every whole 32-bit word; the last 0 to 3 bytes stay
  kCopy,    // all bytes are copied in anew from the host
  kMemset,  // all bytes are set to one value
};

constexpr uint32_t kKernelDelta = 0x01000193;

struct Pattern {
  Advance advance;
  uint64_t seed;    // differs between the buffers of a run
  uint64_t length;  // bytes of the whole buffer

  // Writes the bytes [offset, offset + count) of the buffer at `step`; `offset` is a multiple of 4.
  void Fill(uint64_t step, uint64_t offset, uint8_t* out, size_t count) const;

  // The value of every byte at `step` of a kMemset buffer.
  uint8_t MemsetByte(uint64_t step) const;
};

// PTX of `add_words(pointer, word count, delta)`: adds delta to each 32-bit word. Old enough a
// version for every driver that knows sm_80.
extern const char kAddWordsPtx[];
