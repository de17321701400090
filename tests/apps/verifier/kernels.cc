// The PTX. In both loops thread i takes the words i, i + all threads, and so on; Mix is that of
// tests/sim/builtin_kernels.cc.
#include "tests/apps/verifier/kernels.h"

const char kVerifierPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry fill_words(.param .u64 pointer, .param .u64 count, .param .u32 seed)
{
  .reg .pred %done, %same;
  .reg .b32 %x, %y, %seed, %word;
  .reg .b64 %i, %stride, %n, %base, %at, %out, %wrong;
  ld.param.u64 %base, [pointer];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %n, [count];
  ld.param.u32 %seed, [seed];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mul.wide.u32 %i, %x, %y;
  mov.u32 %x, %tid.x;
  cvt.u64.u32 %stride, %x;
  add.u64 %i, %i, %stride;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %stride, %x, %y;
Next:
  setp.ge.u64 %done, %i, %n;
  @%done bra Done;
  cvt.u32.u64 %x, %i;
  add.u32 %x, %x, %seed;
  shr.u32 %y, %x, 16;
  xor.b32 %x, %x, %y;
  mul.lo.u32 %x, %x, 0x7feb352d;
  shr.u32 %y, %x, 15;
  xor.b32 %x, %x, %y;
  mul.lo.u32 %x, %x, 0x846ca68b;
  shr.u32 %y, %x, 16;
  xor.b32 %x, %x, %y;
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  st.global.u32 [%at], %x;
  add.u64 %i, %i, %stride;
  bra Next;
Done:
  ret;
}

.visible .entry verify_words(.param .u64 pointer, .param .u64 count, .param .u32 seed,
                             .param .u64 mismatches)
{
  .reg .pred %done, %same;
  .reg .b32 %x, %y, %seed, %word;
  .reg .b64 %i, %stride, %n, %base, %at, %out, %wrong;
  ld.param.u64 %base, [pointer];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %n, [count];
  ld.param.u32 %seed, [seed];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mul.wide.u32 %i, %x, %y;
  mov.u32 %x, %tid.x;
  cvt.u64.u32 %stride, %x;
  add.u64 %i, %i, %stride;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %stride, %x, %y;
  ld.param.u64 %out, [mismatches];
  cvta.to.global.u64 %out, %out;
  mov.u64 %wrong, 0;
Next:
  setp.ge.u64 %done, %i, %n;
  @%done bra Done;
  cvt.u32.u64 %x, %i;
  add.u32 %x, %x, %seed;
  shr.u32 %y, %x, 16;
  xor.b32 %x, %x, %y;
  mul.lo.u32 %x, %x, 0x7feb352d;
  shr.u32 %y, %x, 15;
  xor.b32 %x, %x, %y;
  mul.lo.u32 %x, %x, 0x846ca68b;
  shr.u32 %y, %x, 16;
  xor.b32 %x, %x, %y;
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  ld.global.u32 %word, [%at];
  setp.eq.u32 %same, %word, %x;
  @!%same add.u64 %wrong, %wrong, 1;
  add.u64 %i, %i, %stride;
  bra Next;
Done:
  setp.eq.u64 %same, %wrong, 0;
  @%same ret;
  red.global.add.u64 [%out], %wrong;
  ret;
}

.visible .entry spin_ms(.param .u32 ms)
{
  .reg .pred %early;
  .reg .b32 %ms;
  .reg .b64 %begin, %now, %ns;
  ld.param.u32 %ms, [ms];
  mul.wide.u32 %ns, %ms, 1000000;
  mov.u64 %begin, %globaltimer;
Again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %early, %now, %ns;
  @%early bra Again;
  ret;
}
)";
