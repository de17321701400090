// What the hooks-only shim of these tests (levers.cc) lets a test see and move.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

// Whether a context has brought the parts to life.
int parkade_test_alive();
// Live allocations in the heap's ledger, and bytes counted as foreign.
uint64_t parkade_test_allocations();
uint64_t parkade_test_foreign_bytes();
uint64_t parkade_test_foreign_bytes_of(int device, uint32_t kind);  // wire::ForeignKind
// Host memory that is counted as pinned.
uint64_t parkade_test_pinned_bytes();
// Bytes of allocations in ranges that are held.
uint64_t parkade_test_held_bytes();
// Whether the ledger's text has `words`.
int parkade_test_ledger_says(const char* words);
// Closes the gate within `ms`: 0, or -1 when a capture or a call stood in the way.
int parkade_test_close_gate(int ms);
void parkade_test_open_gate();
// A pause is in force, at a closed gate.
void parkade_test_settle_gate();
uint32_t parkade_test_waiting_threads();
uint64_t parkade_test_unhooked_names();
// Successful calls of the tracked entry `name`.
uint64_t parkade_test_tracked_calls(const char* name);
// The tag of the allocation at `base`, into 32 bytes: 0, or -1 where none is.
int parkade_test_tag_of(uint64_t base, char* out);
// Writes the file names of escapes, one a line, and returns how many there are.
int parkade_test_escapes(char* out, int size);
}
#pragma GCC visibility pop
