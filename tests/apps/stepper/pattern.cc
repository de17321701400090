// Computes the patterns.
#include "tests/apps/stepper/pattern.h"

#include <cstring>

namespace {

// A 32-bit mix with no fixed structure a displaced or stale page could happen to repeat.
uint32_t Mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15;
  x ^= x >> 29;
  return static_cast<uint32_t>(x >> 16);
}

}  // namespace

uint8_t Pattern::MemsetByte(uint64_t step) const {
  return static_cast<uint8_t>(Mix(seed + step * 0x10001));
}

void Pattern::Fill(uint64_t step, uint64_t offset, uint8_t* out, size_t count) const {
  if (advance == Advance::kMemset) {
    memset(out, MemsetByte(step), count);
    return;
  }
  const bool kernel = advance == Advance::kKernel;
  const uint64_t key = kernel ? seed : seed + step * 0x5851f42d4c957f2d;
  const uint32_t added = kernel ? static_cast<uint32_t>(step) * kKernelDelta : 0;
  const uint64_t first = offset / 4;
  const size_t words = count / 4;
  for (size_t i = 0; i < words; ++i) {
    const uint32_t word = Mix(key + first + i) + added;
    memcpy(out + i * 4, &word, 4);
  }
  // The kernel leaves the odd bytes at a buffer's end alone, so they keep their first value.
  const uint32_t last = Mix(key + first + words);
  memcpy(out + words * 4, &last, count % 4);
}

const char kAddWordsPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add_words(.param .u64 pointer, .param .u64 words, .param .u32 delta)
{
  .reg .pred %done;
  .reg .b32 %me, %block, %blocks, %threads, %value, %delta;
  .reg .b64 %i, %stride, %n, %base, %at;
  ld.param.u64 %base, [pointer];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %n, [words];
  ld.param.u32 %delta, [delta];
  mov.u32 %me, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %blocks, %nctaid.x;
  mul.wide.u32 %i, %block, %threads;
  cvt.u64.u32 %stride, %me;
  add.u64 %i, %i, %stride;
  mul.wide.u32 %stride, %blocks, %threads;
Next:
  setp.ge.u64 %done, %i, %n;
  @%done bra Done;
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  ld.global.u32 %value, [%at];
  add.u32 %value, %value, %delta;
  st.global.u32 [%at], %value;
  add.u64 %i, %i, %stride;
  bra Next;
Done:
  ret;
}
)";
