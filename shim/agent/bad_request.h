// What the daemon hears of a request that cannot be.
#pragma once

#include "common/result.h"

namespace parkade::shim {

inline Error BadRequest(const char* what) {
  return MakeError(Code::kInvalidArgument, "BAD_MESSAGE", "%s", what);
}

}  // namespace parkade::shim
