#compdef parkade
# Completion for zsh: source <(parkade completion zsh)
_parkade() {
  local -a found
  found=("${(@f)$(parkade complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then
    compadd -- $found
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _parkade ]]; then
  _parkade "$@"
else
  compdef _parkade parkade
fi
