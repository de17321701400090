// The compiled kernels, byte for byte. The PTX ends with a zero, as cuModuleLoadData wants it.
    .section .rodata
    .global parkade_hash_fatbin
    .hidden parkade_hash_fatbin
    .balign 64
parkade_hash_fatbin:
    .incbin "hash_blocks.fatbin"
    .global parkade_hash_ptx
    .hidden parkade_hash_ptx
    .balign 64
parkade_hash_ptx:
    .incbin "hash_blocks.ptx"
    .byte 0
    .section .note.GNU-stack,"",%progbits
