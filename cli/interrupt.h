// What Ctrl-C does: ends the program with exit code 130, after a sentence if one is set.
#pragma once

namespace parkade::cli {

// Sets SIGINT so; leaves it ignored where the caller's shell had it ignored. exec undoes it.
void EndOnInterrupt();

// The sentence, with its newline, that an interrupt prints from now on; static storage, nullptr for
// none. Any thread.
void SetInterruptSentence(const char* sentence);

}  // namespace parkade::cli
