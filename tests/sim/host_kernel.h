// Host twins: how a program gives the simulated GPU a host function for one of its kernels.
//
//   void Scale(const parkade::sim::Launch& launch, float* p, uint64_t n, float by) {
//     if (!launch.Touch(p, n * sizeof *p)) return;
//     for (uint64_t i = 0; i < n; ++i) p[i] *= by;
//   }
//   extern "C" SIM_EXPORT const SimKernel sim_kernel_scale = parkade::sim::HostKernel<&Scale>();
//
// One run of the twin does the work of the whole grid. The object must be visible to dlsym: link
// the program with -rdynamic, or name a library that has it in SIM_KERNELS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define SIM_EXPORT __attribute__((visibility("default"), used))

// The C form, which crosses from the program into the simulated driver.
struct SimLaunch {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  // Whether the kernel may touch these bytes. If not, the kernel has failed with an illegal address
  // and should return.
  int (*touch)(const struct SimLaunch* launch, const void* address, size_t bytes, int write);
  void* driver;
};

struct SimKernel {
  uint32_t size;  // of this struct, for the driver to check
  uint32_t parameter_count;
  const uint32_t* parameter_bytes;
  void (*run)(const struct SimLaunch* launch, void* const* parameters);
};

namespace parkade::sim {

class Launch {
 public:
  explicit Launch(const SimLaunch& launch) : launch_(launch) {}
  // For bytes the kernel writes, or reads and writes.
  template <typename T>
  bool Touch(T* address, uint64_t bytes) const {
    return launch_.touch(&launch_, address, bytes, 1) != 0;
  }
  template <typename T>
  bool Touch(const T* address, uint64_t bytes) const {
    return launch_.touch(&launch_, address, bytes, 0) != 0;
  }
  const SimLaunch& shape() const { return launch_; }

 private:
  const SimLaunch& launch_;
};

template <auto kFunction>
struct HostKernelOf;

template <typename... Parameters, void (*kFunction)(const Launch&, Parameters...)>
struct HostKernelOf<kFunction> {
  template <typename T>
  static T Read(const void* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  template <size_t... kIndex>
  static void Call(const Launch& launch, [[maybe_unused]] void* const* parameters,
                   std::index_sequence<kIndex...>) {
    kFunction(launch, Read<Parameters>(parameters[kIndex])...);
  }
  static void Run(const SimLaunch* launch, void* const* parameters) {
    Call(Launch(*launch), parameters, std::index_sequence_for<Parameters...>());
  }
  static constexpr uint32_t kBytes[] = {uint32_t(sizeof(Parameters))..., 0};
};

template <auto kFunction>
constexpr SimKernel HostKernel() {
  using Kernel = HostKernelOf<kFunction>;
  return {sizeof(SimKernel), sizeof(Kernel::kBytes) / sizeof(uint32_t) - 1, Kernel::kBytes,
          Kernel::Run};
}

}  // namespace parkade::sim
