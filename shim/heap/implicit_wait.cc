// Keeps the native allocations whose freeing is the wait.
#include "shim/heap/implicit_wait.h"

#include <algorithm>

#include "common/bytes.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

// The driver packs small allocations into a block of 2 MiB of its own. The one that stays while the
// other is freed holds that block, so that a replacement costs 2 us and no device memory.
constexpr size_t kLeast = 2;
// A free takes a spare, and an allocation makes one, so that neither pays for both. All that a
// program frees in one go beyond these waits for their replacement. They share the one block.
constexpr size_t kMost = 16;
constexpr Bytes kSpareBytes = 4_KiB;

}  // namespace

ImplicitWait::ImplicitWait(const Driver& driver) : driver_(driver) {}

void ImplicitWait::Prepare(CUcontext context) { Refill(context, 1); }

CUresult ImplicitWait::Run(CUcontext context) {
  ScopedContext current(driver_, context);
  if (current.status() != CUDA_SUCCESS) return current.status();
  ScopedRelaxedCapture relaxed(driver_);
  CUdeviceptr spare = Take(context);
  if (spare == 0) {
    if (auto r = driver_.mem_alloc(&spare, kSpareBytes); r != CUDA_SUCCESS) return r;
  }
  const CUresult result = driver_.mem_free(spare);
  Refill(context, 0);
  return result;
}

void ImplicitWait::Forget(CUcontext context) {
  MutexLock lock(mu_);
  stocks_.erase(context);
}

void ImplicitWait::Clear() {
  std::map<CUcontext, Stock> stocks;
  {
    MutexLock lock(mu_);
    stocks.swap(stocks_);
  }
  ScopedRelaxedCapture relaxed(driver_);
  for (const auto& [context, stock] : stocks) {
    ScopedContext current(driver_, context);
    for (CUdeviceptr spare : stock.spares) driver_.mem_free(spare);
  }
}

CUdeviceptr ImplicitWait::Take(CUcontext context) {
  MutexLock lock(mu_);
  const auto it = stocks_.find(context);
  if (it == stocks_.end() || it->second.spares.empty()) return 0;
  const CUdeviceptr spare = it->second.spares.back();
  it->second.spares.pop_back();
  return spare;
}

void ImplicitWait::Refill(CUcontext context, size_t more) {
  size_t missing;
  {
    MutexLock lock(mu_);
    Stock& stock = stocks_[context];
    const size_t has = stock.spares.size() + stock.on_order;
    missing = std::max(std::min(has + more, kMost), kLeast) - has;
    stock.on_order += missing;
  }
  if (missing == 0) return;
  ScopedContext current(driver_, context);
  ScopedRelaxedCapture relaxed(driver_);
  for (; missing > 0; --missing) {
    CUdeviceptr spare = 0;
    const bool made = driver_.mem_alloc(&spare, kSpareBytes) == CUDA_SUCCESS;
    MutexLock lock(mu_);
    const auto it = stocks_.find(context);
    if (it == stocks_.end()) return;  // forgotten meanwhile; the driver has freed the spare
    --it->second.on_order;
    if (made) it->second.spares.push_back(spare);
  }
}

}  // namespace parkade::shim
