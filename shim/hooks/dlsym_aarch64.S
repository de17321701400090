// dlsym and dlvsym for AArch64: ask the router, then answer or jump to the C library. The jump leaves
// x30 as it was, by which the C library tells whose RTLD_NEXT is meant.

        .text

        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        mov     x2, x30                 // the caller
        bl      parkade_route_dlsym     // x0: answer, x1: where to jump
        cbz     x1, 1f
        mov     x16, x1
        ldp     x0, x1, [sp, #16]
        .cfi_remember_state
        ldp     x29, x30, [sp], #32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_restore_state
1:      ldp     x29, x30, [sp], #32
        ret
        .cfi_endproc
        .size   dlsym, . - dlsym

        .globl  dlvsym
        .type   dlvsym, %function
        .p2align 4
dlvsym:
        .cfi_startproc
        hint    #34
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30
        bl      parkade_route_dlvsym
        cbz     x1, 1f
        mov     x16, x1
        ldr     x2, [sp, #32]
        ldp     x0, x1, [sp, #16]
        .cfi_remember_state
        ldp     x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_restore_state
1:      ldp     x29, x30, [sp], #48
        ret
        .cfi_endproc
        .size   dlvsym, . - dlvsym

        .section .note.GNU-stack, "", %progbits
