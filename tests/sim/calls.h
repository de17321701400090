// Site: where a call of the application enters the simulated driver; counted, and a place for
// faults.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/cuda_api.h"
#include "tests/sim/process_lock.h"

namespace parkade::sim {

// One driver call by its base name: cuMemAlloc stands for cuMemAlloc_v2 as well, and
// cuMemcpyDtoHAsync for its per-thread variant.
class Site {
 public:
  // The site of an exported name. Lives forever. Any thread.
  static Site& Of(std::string_view exported);

  // Counts the call and lets the faults of SIM_FAULTS happen. A value is what the call must return
  // at once, without doing anything.
  std::optional<CUresult> Arrive();

  const std::string& name() const { return name_; }

 private:
  friend class Sites;
  Site(std::string name, std::atomic<uint64_t>* count) : name_(std::move(name)), count_(count) {}

  const std::string name_;
  std::atomic<uint64_t>* const count_;
};

// Whether cuInit has been called, in this process and not in one it was forked from.
bool Initialized();
void SetInitialized();

template <size_t N>
struct CallName {
  consteval CallName(const char (&name)[N]) { std::copy_n(name, N, text); }
  char text[N];
};

// How an exported function begins: Call<"cuFoo_v2">([&] { ... }).
template <CallName kName, typename Body>
CUresult CallAnyTime(Body&& body) {
  static Site& site = Site::Of(kName.text);
  const std::optional<CUresult> result = site.Arrive();
  return result ? *result : body();
}

template <CallName kName, typename Body>
CUresult Call(Body&& body) {
  return CallAnyTime<kName>([&] {
    if (!Initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    const InsideDriver inside;
    return body();
  });
}

}  // namespace parkade::sim
