// Hooked: what every handler asks first, and how the shim comes to life.
#pragma once

#include "shim/cuda/in_shim.h"
#include "shim/hooks/call.h"
#include "shim/hooks/real_library.h"
#include "shim/lifecycle.h"

namespace parkade::shim {

// The parts that a handler works with. Null when the call goes straight to the driver: it comes
// from the shim or from libcuda itself, or there is nothing yet (see LiveParts).
inline Parts* PartsFor(const void* caller) {
  if (InShim::Active() || RealLibrary::Contains(caller)) return nullptr;
  return LiveParts();
}

// The real function of an exported name, or null.
inline void* RealByName(const char* symbol) {
  const auto entry = FindEntry(symbol);
  return entry ? RealLibrary::Known(*entry) : nullptr;
}

// Tells lifecycle of a context, unless the shim is off here. The parts are made by the first.
void NoteContext(CUcontext context);

// The same for the context that is current on this thread. The runtime may have made it by a
// private door, so every allocation looks; costs one driver call of some 10 ns.
void NoteCurrentContext();

}  // namespace parkade::shim
