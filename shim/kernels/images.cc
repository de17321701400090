// Gives out what images.S has taken in.
#include "shim/kernels/images.h"

namespace parkade::shim {

#if defined(PARKADE_HAS_KERNELS)

extern "C" const char parkade_hash_fatbin[], parkade_hash_ptx[];
extern "C" const char parkade_store_fatbin[], parkade_store_ptx[];

const void* HashFatbin() { return parkade_hash_fatbin; }
const void* HashPtx() { return parkade_hash_ptx; }
const void* StoreFatbin() { return parkade_store_fatbin; }
const void* StorePtx() { return parkade_store_ptx; }

#else

const void* HashFatbin() { return nullptr; }
const void* HashPtx() { return nullptr; }
const void* StoreFatbin() { return nullptr; }
const void* StorePtx() { return nullptr; }

#endif

}  // namespace parkade::shim
