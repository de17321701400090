// Registering: functions of libibverbs and NCCL that make GPU memory known by its physical pages to
// a network card or to peers.
//
// They are exported like the driver's, and given out by dlsym and dlvsym. What they register is
// held until it is deregistered. The real function is the one that the caller would have met
// without the shim. Of a library that is in the process twice, dlsym gives out the second copy's
// own functions, and likewise older versions of a name: what those register is not seen.
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

bool IsRegistering(const char* name);

// What dlsym answers where the C library found `found` for `name`: the shim's function in place of
// the real one, null for the shim's where without it nothing would be found, and `found` for
// everything else. Any thread.
void* RouteRegistering(const char* name, void* found);

// The function that stands behind the shim's for code at `caller`, of which null: nobody in
// particular. Null when nothing in the process has one. Any thread.
void* RealRegistering(Registering function, const void* caller);

}  // namespace parkade::shim
