// The compiled kernels, byte for byte. The PTX ends with a zero, as cuModuleLoadData wants it.
    .section .rodata
    .macro image name, file
    .global \name
    .hidden \name
    .balign 64
\name:
    .incbin "\file"
    .byte 0
    .endm
    image parkade_hash_fatbin, hash_blocks.fatbin
    image parkade_hash_ptx, hash_blocks.ptx
    image parkade_store_fatbin, store_kernels.fatbin
    image parkade_store_ptx, store_kernels.ptx
    .section .note.GNU-stack,"",%progbits
