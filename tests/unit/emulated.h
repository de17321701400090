// Emulated: for tests of what an emulator of another machine does not do, or is slow at
// (scripts/check-aarch64).
#pragma once

#include <cstdio>
#include <cstdlib>

inline bool Emulated() { return getenv("PARKADE_EMULATED") != nullptr; }

// Whether the test is to be left out there; says then what the emulator lacks.
inline bool EmulatorLacks(const char* what) {
  if (Emulated()) std::printf("left out under the emulator, which lacks %s\n", what);
  return Emulated();
}
