# Completion for bash: source <(parkade completion bash)
_parkade() {
  local IFS=$'\n'
  COMPREPLY=($(parkade complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _parkade parkade
