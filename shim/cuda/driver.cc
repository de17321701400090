// Fills the table of real driver functions by name.
#include "shim/cuda/driver.h"

namespace parkade::shim {

Driver LoadDriver(SymbolLookup lookup) {
  Driver driver;
#define PARKADE_DRIVER_LOAD(member, symbol) \
  driver.member = reinterpret_cast<decltype(driver.member)>(lookup(#symbol));
  PARKADE_DRIVER_CALLS(PARKADE_DRIVER_LOAD)
#undef PARKADE_DRIVER_LOAD
  return driver;
}

}  // namespace parkade::shim
