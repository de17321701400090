// Gives out what images.S has taken in.
#include "shim/kernels/images.h"

namespace parkade::shim {

#if defined(PARKADE_HAS_KERNELS)

extern "C" const char parkade_hash_fatbin[], parkade_hash_ptx[];

const void* HashFatbin() { return parkade_hash_fatbin; }
const void* HashPtx() { return parkade_hash_ptx; }

#else

const void* HashFatbin() { return nullptr; }
const void* HashPtx() { return nullptr; }

#endif

}  // namespace parkade::shim
