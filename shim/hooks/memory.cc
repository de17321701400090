// Handlers of linear allocations: the heap's memory in place of the driver's.
#include <cstdint>
#include <cstdio>

#include "common/bytes.h"
#include "shim/cuda/scoped_context.h"
#include "shim/heap/saver_settings.h"
#include "shim/hooks/escapes.h"
#include "shim/hooks/foreign_memory.h"
#include "shim/hooks/free_counted.h"
#include "shim/hooks/gate_pass.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/hooked.h"
#include "shim/hooks/native_answers.h"
#include "shim/hooks/tags.h"
#include "shim/hooks/want_of_memory.h"

namespace parkade::shim {
namespace {

// Rows of pitched allocations; not the device's attribute of texture pitches, which is 32 (580).
constexpr size_t kRowStep = 512;

CUresult AllocateNative(Parts& parts, wire::ForeignKind kind, CUdeviceptr* out, size_t bytes) {
  const CUresult r = parts.driver.mem_alloc(out, bytes);
  if (r == CUDA_SUCCESS) parts.foreign.Add(kind, *out, bytes);
  return r;
}

void WarnOfRefusal(Parts& parts, CUresult refusal) {
  const char* name = nullptr;
  if (parts.driver.get_error_name(refusal, &name) != CUDA_SUCCESS) name = "an unknown error";
  char text[160];
  snprintf(text, sizeof text,
           "virtual memory is refused here (%s): allocations stay native, and no pause moves them",
           name);
  parts.ledger.AddWarning(text);
}

// No device has so many bytes.
std::optional<CUresult> RefusalOfAllocation(const Parts& parts, CUdeviceptr* out) {
  return RefusalOfThread(parts, [&] { return parts.driver.mem_alloc(out, SIZE_MAX); });
}

// In torch_memory_saver's place: what a region asks for is to be possible, and to leave the margin.
CUresult MayAllocateInRegion(const Parts& parts, const SaverSettings::Thread& mine, size_t bytes) {
  if (mine.cpu_backup && mine.disk_backup) return CUDA_ERROR_INVALID_VALUE;
  const Bytes margin = SaverSettings::margin();
  if (margin == 0) return CUDA_SUCCESS;
  size_t free = 0, total = 0;
  const CUresult r = parts.driver.mem_get_info(&free, &total);
  if (r != CUDA_SUCCESS) return r;
  return free < bytes || free - bytes < margin ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult TryToAllocate(Parts& parts, const void* caller, CUdeviceptr* out, size_t bytes) {
  const GatePass pass(Gate::Call::kAllocation);
  if (!pass) return kNoPass;
  InShim guard;
  const LoadCounts loads = CountLoads();
  WarnOfNewEscapes(parts.ledger, loads);
  if (KeepsNativeMemory(caller, loads)) {
    AdviseOnNccl(parts.ledger);
    return AllocateNative(parts, wire::ForeignKind::kCommunication, out, bytes);
  }
  *out = 0;  // as the driver leaves it where it fails
  std::string_view tag = CurrentTag(parts.own_tag);
  Saving saving = Saving::kNone;
  if (SaverSettings::InForce()) {
    const SaverSettings::Thread& mine = SaverSettings::Mine();
    if (!mine.region || KeepsStateInMemory(caller)) {
      return AllocateNative(parts, wire::ForeignKind::kNative, out, bytes);
    }
    if (const CUresult r = MayAllocateInRegion(parts, mine, bytes); r != CUDA_SUCCESS) return r;
    tag = mine.tag;
    saving = mine.saving();
  }
  const CUresult r = parts.heap.Allocate(out, bytes, tag, saving);
  if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY) return r;
  // What the program did wrong is wrong natively too, in the driver's own words. Else it is virtual
  // memory that is refused: by an old device, or by a wrapper between here and the driver.
  const CUresult native = AllocateNative(parts, wire::ForeignKind::kNative, out, bytes);
  if (native == CUDA_SUCCESS) WarnOfRefusal(parts, r);
  return native;
}

CUresult Allocate(Parts& parts, const void* caller, CUdeviceptr* out, size_t bytes) {
  const auto attempt = [&] { return TryToAllocate(parts, caller, out, bytes); };
  const CUresult r = attempt();
  return r == CUDA_ERROR_OUT_OF_MEMORY ? WaitForMemory(parts, bytes, attempt) : r;
}

// Frees native memory made for this alone, as the application would free its own: in a capture, or
// on a thread without a context, the driver may refuse. What it refuses to free is given back.
CUresult FreeStandIn(Parts& parts, const Call<decltype(cuMemFreeAsync)>& call, CUcontext context,
                     CUstream stream) {
  constexpr size_t kBytes = 512;
  InShim guard;
  CUdeviceptr stand_in = 0;
  {
    ScopedContext current(parts.driver, context);
    ScopedRelaxedCapture relaxed(parts.driver);
    if (current.status() != CUDA_SUCCESS) return current.status();
    if (auto r = parts.driver.mem_alloc(&stand_in, kBytes); r != CUDA_SUCCESS) return r;
  }
  const CUresult result = call.real(stand_in, stream);
  if (result == CUDA_SUCCESS) return result;
  ScopedContext current(parts.driver, context);
  ScopedRelaxedCapture relaxed(parts.driver);
  parts.driver.mem_free(stand_in);
  return result;
}

}  // namespace

CUresult OnMemAlloc(Call<decltype(cuMemAlloc_v2)> call, CUdeviceptr* out, size_t bytes) {
  NoteCurrentContext();
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(out, bytes);
  // What the driver refuses, it refuses in its own words.
  if (out == nullptr || bytes == 0) return call.real(out, bytes);
  if (auto refusal = RefusalOfAllocation(*parts, out)) return *refusal;
  return Allocate(*parts, call.caller, out, bytes);
}

CUresult OnMemAllocPitch(Call<decltype(cuMemAllocPitch_v2)> call, CUdeviceptr* out, size_t* pitch,
                         size_t width, size_t height, unsigned element_bytes) {
  NoteCurrentContext();
  Parts* parts = PartsFor(call.caller);
  // What the driver refuses, it refuses in its own words.
  const bool plain = out != nullptr && pitch != nullptr && width != 0 && height != 0 &&
                     (element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
  const size_t row = width > SIZE_MAX - kRowStep ? 0 : RoundUp(width, kRowStep);
  if (parts == nullptr || !plain || row == 0 || height > SIZE_MAX / row) {
    const GatePass pass;
    if (!pass) return kNoPass;
    return call.real(out, pitch, width, height, element_bytes);
  }
  *pitch = 0;
  // No device has so wide a row. Where the driver wrote one before it refused, it is the one asked
  // for.
  auto ask = [&] { return call.real(out, pitch, SIZE_MAX - 2 * kRowStep, 1, element_bytes); };
  const auto refusal = RefusalOfThread(*parts, ask);
  if (refusal) {
    if (*pitch != 0) *pitch = row;
    return *refusal;
  }
  *pitch = row;  // written before the driver looks for memory, also where it finds none
  return Allocate(*parts, call.caller, out, row * height);
}

CUresult OnMemFree(Call<decltype(cuMemFree_v2)> call, CUdeviceptr ptr) {
  Parts* parts = PartsFor(call.caller);
  if (parts == nullptr) return call.real(ptr);
  if (parts->heap.Owns(ptr)) {
    if (auto refusal = RefusalOfThread(*parts, [&] { return call.real(kNowhere); }))
      return *refusal;
    InShim guard;
    CUresult result = CUDA_SUCCESS;
    if (parts->heap.Free(ptr, &result)) return result;
  }
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  return FreeCounted(call.caller, ptr, [&] { return call.real(ptr); });
}

CUresult OnMemFreeAsync(Call<decltype(cuMemFreeAsync)> call, CUdeviceptr ptr, CUstream stream) {
  Parts* parts = PartsFor(call.caller);
  if (parts != nullptr && parts->heap.Owns(ptr)) {
    const auto allocation = parts->heap.Find(ptr);
    if (!allocation || allocation->base != ptr) return call.real(kNowhere, stream);
    if (ThreadMayBeRefused(*parts)) {
      const CUresult r = FreeStandIn(*parts, call, allocation->context, stream);
      if (r != CUDA_SUCCESS) return r;
    }
    InShim guard;
    CUresult result = CUDA_SUCCESS;
    if (parts->heap.Free(ptr, &result)) return result;
  }
  const GatePass pass(Gate::Call::kFree);
  if (!pass) return kNoPass;
  return FreeCounted(call.caller, ptr, [&] { return call.real(ptr, stream); });
}

}  // namespace parkade::shim
