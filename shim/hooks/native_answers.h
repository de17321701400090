// Native answers: what the driver itself would say where the shim answers in its place. It is asked
// with calls that change nothing.
#pragma once

#include <optional>

#include "shim/lifecycle.h"

namespace parkade::shim {

// No page of a process is mapped there, and no driver gives it out: what is asked about it is
// answered as for an address that belongs to nobody.
inline constexpr CUdeviceptr kNowhere = 16;

// Native memory is mapped in pages of this size, whatever of them an allocation takes up (580).
inline constexpr size_t kGpuPage = 2 << 20;

// Whether a code speaks of the calling thread, its context or its captures, whatever the arguments.
bool IsOfTheThread(CUresult result);

// Whether such a refusal is possible now: this thread has no context that works, or a stream
// captures somewhere in the process. Costs one driver call of some 10 ns.
bool ThreadMayBeRefused(const Parts& parts);

// The refusal that native memory would meet on this thread, if any. `ask` makes a call that cannot
// succeed; under a capture that it may not be made in it ends the capture, as the real one would.
template <typename Ask>
std::optional<CUresult> RefusalOfThread(const Parts& parts, Ask ask) {
  if (!ThreadMayBeRefused(parts)) return std::nullopt;
  const CUresult result = ask();
  return IsOfTheThread(result) ? std::optional(result) : std::nullopt;
}

// What lies at an address, as far as the shim answers for it.
struct Place {
  enum class Kind : unsigned char {
    kOther,    // not the shim's: the driver answers
    kOurs,     // an allocation
    kNothing,  // in addresses of the shim's, where the application has no memory
  } kind = Kind::kOther;
  AllocationView allocation{};  // of kOurs
};
Place PlaceOf(const Parts& parts, CUdeviceptr ptr);

}  // namespace parkade::shim
