// The route of the CUDA runtime: answers of cuGetProcAddress, replaced after the driver gave them.
#include "shim/hooks/counts.h"
#include "shim/hooks/handlers.h"
#include "shim/hooks/interposers.h"
#include "shim/hooks/real_library.h"

namespace parkade::shim {
namespace {

// The entry behind `address`, which the driver handed out for `symbol`. By address first: it alone
// says for certain which form was meant, and of names that share one address, `symbol` decides.
std::optional<Entry> EntryBehind(const void* address, const char* symbol, int version,
                                 cuuint64_t flags) {
  for (const EntryVersion& form : VersionsOf(symbol)) {
    if (RealLibrary::Known(form.entry) == address) return form.entry;
    // The driver's own, where an interposer stands in front of it.
    if (Interposers::Function(NameOf(form.entry)) != nullptr &&
        RealLibrary::Export(NameOf(form.entry)) == address) {
      return form.entry;
    }
  }
  for (int i = 0; i < kEntryCount; ++i) {
    if (RealLibrary::Known(Entry(i)) == address) return Entry(i);
  }
  // Not an exported address: the driver may hand out inner twins of its exports.
  const auto entry =
      FindVersion(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  return entry && RealLibrary::Known(*entry) != nullptr ? entry : std::nullopt;
}

void Replace(const char* symbol, void** function, int version, cuuint64_t flags,
             const void* caller) {
  // The runtime asks first for "" and version 0; a success may still hold no function.
  if (symbol == nullptr || function == nullptr || *function == nullptr) return;
  if (Inert() || RealLibrary::Contains(caller)) return;
  if (!RealLibrary::Contains(*function) && !Interposers::Contains(*function)) return;
  const auto entry = EntryBehind(*function, symbol, version, flags);
  if (entry && Interposers::Exports(caller, NameOf(*entry))) return;  // what it calls next
  if (entry) {
    *function = const_cast<void*>(WrapperOf(*entry));
  } else {
    CountUnhookedName(symbol);
  }
}

}  // namespace

CUresult OnGetProcAddress(Call<decltype(cuGetProcAddress)> call, const char* symbol,
                          void** function, int version, cuuint64_t flags) {
  const CUresult result = call.real(symbol, function, version, flags);
  if (result == CUDA_SUCCESS) Replace(symbol, function, version, flags, call.caller);
  return result;
}

CUresult OnGetProcAddressV2(Call<decltype(cuGetProcAddress_v2)> call, const char* symbol,
                            void** function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult* status) {
  const CUresult result = call.real(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS) Replace(symbol, function, version, flags, call.caller);
  return result;
}

}  // namespace parkade::shim
