/* The scripts of `parkade completion`, inside the program; each ends with a NUL. */
#include "cli/embed.inc"

.section .rodata
file parkade_completion_bash, "cli/completions/parkade.bash"
file parkade_completion_zsh, "cli/completions/parkade.zsh"
file parkade_completion_fish, "cli/completions/parkade.fish"

.section .note.GNU-stack, "", @progbits
