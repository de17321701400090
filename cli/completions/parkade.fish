# Completion for fish: parkade completion fish | source
complete -c parkade -a '(parkade complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
