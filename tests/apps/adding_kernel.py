"""The kernel add_words(u32* p, u64 n, u32 delta), p[i] += delta, as PTX; the simulated GPU has a twin of it."""

ADD_WORDS = b"""
.version 7.0
.target sm_52
.address_size 64

.visible .entry add_words(.param .u64 pointer, .param .u64 count, .param .u32 delta)
{
  .reg .pred %done;
  .reg .b32 %x, %y, %delta;
  .reg .b64 %i, %stride, %n, %base, %at;
  ld.param.u64 %base, [pointer];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %n, [count];
  ld.param.u32 %delta, [delta];
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
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  ld.global.u32 %x, [%at];
  add.u32 %x, %x, %delta;
  st.global.u32 [%at], %x;
  add.u64 %i, %i, %stride;
  bra Next;
Done:
  ret;
}
"""
