// FakeDriver's kernels, which hash and compare, and the pinned memory that they write to.
#include <sys/mman.h>

#include <cstring>

#include "shim/kernels/images.h"
#include "tests/sim/hash_twin.h"
#include "tests/sim/store_twin.h"
#include "tests/unit/shim/fake_state.h"

namespace parkade::shim {

struct FakeKernelCalls {
  static CUresult ModuleLoadData(CUmodule* out, const void*) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuModuleLoadData"); r != CUDA_SUCCESS) return r;
    if (!fake->options_.kernels) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *out = reinterpret_cast<CUmodule>(++fake->last_object_);
    fake->modules_.insert(*out);
    return CUDA_SUCCESS;
  }
  static CUresult ModuleUnload(CUmodule module) {
    MutexLock lock(fake->mu_);
    return fake->modules_.erase(module) == 1 ? CUDA_SUCCESS
                                             : fake->Mistake(CUDA_ERROR_INVALID_HANDLE);
  }
  static constexpr uintptr_t kHash = 1, kCompare = 2, kFirstOfStores = 3;
  static constexpr const char* kOfStores[] = {kStoreDecode, kStoreEncode, kStoreAdam, kStoreWiden,
                                              kStoreLook};
  static CUresult ModuleGetFunction(CUfunction* out, CUmodule, const char* name) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuModuleGetFunction"); r != CUDA_SUCCESS) return r;
    const bool compares = strcmp(name, "parkade_compare_blocks") == 0;
    *out = reinterpret_cast<CUfunction>(compares ? kCompare : kHash);
    for (uintptr_t i = 0; i < std::size(kOfStores); ++i) {
      if (strcmp(name, kOfStores[i]) != 0) continue;
      *out = reinterpret_cast<CUfunction>(kFirstOfStores + i);
    }
    return CUDA_SUCCESS;
  }
  static CUresult LaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned,
                               unsigned, unsigned, unsigned, CUstream, void** arguments, void**) {
    {
      MutexLock lock(fake->mu_);
      if (auto r = fake->Begin("cuLaunchKernel"); r != CUDA_SUCCESS) return r;
    }
    const auto all = [](const char*, Bytes) { return true; };
    if (const auto number = reinterpret_cast<uintptr_t>(function); number >= kFirstOfStores) {
      RunOfStore(number - kFirstOfStores, arguments);
      return CUDA_SUCCESS;
    }
    if (reinterpret_cast<uintptr_t>(function) == kCompare) {
      sim::CompareBlocks(*static_cast<ComparePart**>(arguments[0]),
                         *static_cast<uint32_t**>(arguments[1]), grid, all);
    } else {
      sim::HashBlocks(*static_cast<HashPart**>(arguments[0]),
                      *static_cast<HashBlockParts**>(arguments[1]),
                      *static_cast<HashedBlock**>(arguments[2]), grid, all);
    }
    return CUDA_SUCCESS;
  }
  static void RunOfStore(uintptr_t number, void** arguments) {
    const auto& bucket = *static_cast<const StoreBucketArgs*>(arguments[0]);
    if (number == 0) sim::StoreDecode(bucket);
    if (number == 1) sim::StoreEncode(bucket, *static_cast<uint32_t*>(arguments[1]));
    if (number == 2) sim::StoreAdam(bucket, *static_cast<const StoreAdamArgs*>(arguments[1]));
    if (number == 3) sim::StoreWiden(bucket, *static_cast<uint32_t*>(arguments[1]));
    if (number == 4) sim::StoreLook(bucket);
  }
  static CUresult HostAlloc(void** out, size_t bytes, unsigned) {
    MutexLock lock(fake->mu_);
    if (auto r = fake->Begin("cuMemHostAlloc"); r != CUDA_SUCCESS) return r;
    *out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fake->host_.emplace(*out, bytes);
    return CUDA_SUCCESS;
  }
  static CUresult FreeHost(void* host) {
    MutexLock lock(fake->mu_);
    const auto it = fake->host_.find(host);
    if (it == fake->host_.end()) return fake->Mistake(CUDA_ERROR_INVALID_VALUE);
    munmap(host, it->second);
    fake->host_.erase(it);
    return CUDA_SUCCESS;
  }
};

void FillKernelCalls(Driver& driver) {
  driver.module_load_data = FakeKernelCalls::ModuleLoadData;
  driver.module_unload = FakeKernelCalls::ModuleUnload;
  driver.module_get_function = FakeKernelCalls::ModuleGetFunction;
  driver.launch_kernel = FakeKernelCalls::LaunchKernel;
  driver.mem_host_alloc = FakeKernelCalls::HostAlloc;
  driver.mem_free_host = FakeKernelCalls::FreeHost;
}

}  // namespace parkade::shim
