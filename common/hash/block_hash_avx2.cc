// The tree hash compiled for AVX2 (CMakeLists.txt says so to the compiler).
#include "common/hash/leaf_tree.h"

namespace parkade {

void HashBlockAvx2(const char* memory, size_t bytes, uint64_t digest[2]) {
  HashTree(memory, bytes, digest);
}

}  // namespace parkade
