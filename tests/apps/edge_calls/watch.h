// Watches allocations: what every query says of them, again and again.
#pragma once

// Allocates, then says all of it for each line of standard input. Returns the exit code.
int Watch();
