// The shim's GPU kernels, as this build of it has them.
#pragma once

namespace parkade::shim {

// For cuModuleLoadData, the better first: machine code for each architecture of today, and PTX of
// ISA 7.0 for sm_75 and later, which every driver from 450 on can compile. Null: the build had no
// nvcc.
const void* HashFatbin();
const void* HashPtx();
// The same for optimizer stores.
const void* StoreFatbin();
const void* StorePtx();

// The names in both: see hash_blocks.cu.
inline constexpr char kHashBlocks[] = "parkade_hash_blocks";
inline constexpr char kCompareBlocks[] = "parkade_compare_blocks";
// See store_kernels.cu.
inline constexpr char kStoreDecode[] = "parkade_store_decode";
inline constexpr char kStoreEncode[] = "parkade_store_encode";
inline constexpr char kStoreAdam[] = "parkade_store_adam";
inline constexpr char kStoreWiden[] = "parkade_store_widen";
inline constexpr char kStoreLook[] = "parkade_store_look";

}  // namespace parkade::shim
