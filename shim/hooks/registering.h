// Registering: functions of libibverbs and NCCL that make GPU memory known by its physical pages to
// a network card or to peers.
//
// They are exported like the driver's, and given out by dlsym and dlvsym. What they register is
// held until it is deregistered. The real function is that of the first file behind the shim that
// has it; a second copy of a library, and older versions of a name, are not seen.
#pragma once

#include <cstdint>

namespace parkade::shim {

enum class Registering : uint8_t {
  kRegMr,
  kRegMrIova,
  kRegMrIova2,
  kReregMr,
  kDeregMr,
  kCommRegister,
  kCommDeregister,
  kCommWindowRegister,
  kCommWindowDeregister,
  kCommDestroy,
  kCommAbort,
};
constexpr int kRegisteringCount = 11;

// What dlsym answers where the C library found `found` for `name`: the shim's function in place of
// the real one, null for the shim's where there is no real one, and `found` for everything else.
// Any thread.
void* RouteRegistering(const char* name, void* found);
bool IsRegistering(const char* name);

// The function that stands behind the shim's; null when nothing in the process has one.
void* RealRegistering(Registering function);

}  // namespace parkade::shim
