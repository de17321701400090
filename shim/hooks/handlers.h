// The handlers of entries with the policy "custom"; each is called by its generated wrapper alone.
#pragma once

#include "shim/hooks/call.h"

namespace parkade::shim {

// The driver's own answer, with functions of libcuda replaced by the shim's.
CUresult OnGetProcAddress(Call<decltype(cuGetProcAddress)> call, const char* symbol,
                          void** function, int version, cuuint64_t flags);
CUresult OnGetProcAddressV2(Call<decltype(cuGetProcAddress_v2)> call, const char* symbol,
                            void** function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult* status);

}  // namespace parkade::shim
