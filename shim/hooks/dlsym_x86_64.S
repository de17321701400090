// dlsym and dlvsym for x86-64: ask the router, then answer or jump to the C library. The jump leaves
// the return address as it was, by which the C library tells whose RTLD_NEXT is meant.
#if defined(__CET__)
#include <cet.h>
#else
#define _CET_ENDBR
#endif

        .text

        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        _CET_ENDBR
        subq    $24, %rsp               // two arguments, and the stack aligned to 16
        .cfi_adjust_cfa_offset 24
        movq    %rdi, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    24(%rsp), %rdx          // the caller
        call    parkade_route_dlsym     // rax: answer, rdx: where to jump
        movq    (%rsp), %rdi
        movq    8(%rsp), %rsi
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        testq   %rdx, %rdx
        je      1f
        jmp     *%rdx
1:      ret
        .cfi_endproc
        .size   dlsym, . - dlsym

        .globl  dlvsym
        .type   dlvsym, @function
        .p2align 4
dlvsym:
        .cfi_startproc
        _CET_ENDBR
        subq    $24, %rsp
        .cfi_adjust_cfa_offset 24
        movq    %rdi, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    24(%rsp), %rcx
        call    parkade_route_dlvsym
        movq    %rdx, %rcx
        movq    (%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        testq   %rcx, %rcx
        je      1f
        jmp     *%rcx
1:      ret
        .cfi_endproc
        .size   dlvsym, . - dlvsym

        .section .note.GNU-stack, "", @progbits
