// How fast the kernels of stores are, for who runs this on a card: bytes that a kernel must move,
// by the time between two events. Proves nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/unit/shim/stream/kernel_bed.h"
#include "tests/unit/shim/stream/store_values.h"

namespace parkade::shim {
namespace {

using store::Encoding;

// Looked up: a new header may mean a name that an older driver has not.
float ElapsedMs(CUevent begin, CUevent end) {
  using Call = CUresult (*)(float*, CUevent, CUevent);
  const auto call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, "cuEventElapsedTime"));
  REQUIRE(call != nullptr);
  float ms = 0;
  REQUIRE(call(&ms, begin, end) == CUDA_SUCCESS);
  return ms;
}

// The best of some launches.
double Seconds(KernelBed& bed, const char* kernel, void* second) {
  CUevent begin, end;
  REQUIRE(cuEventCreate(&begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  float best = 1e9f;
  for (uint64_t round = 0; round < 8; ++round) {
    REQUIRE(cuEventRecord(begin, nullptr) == CUDA_SUCCESS);
    bed.Launch(kernel, round + 1, second, nullptr);
    REQUIRE(cuEventRecord(end, nullptr) == CUDA_SUCCESS);
    REQUIRE(cuEventSynchronize(end) == CUDA_SUCCESS);
    if (round != 0) best = std::min(best, ElapsedMs(begin, end));
  }
  cuEventDestroy(begin);
  cuEventDestroy(end);
  return double(best) * 1e-3;
}

// `megabytes` of encoded state, with bf16 weights and gradients that are mostly bf16.
void Measure(const char* name, std::vector<store::Segment> segments, double bytes_an_element,
             uint64_t megabytes) {
  const sim::Gpu context{0};
  const auto numel = uint64_t(double(megabytes << 20) / bytes_an_element);
  ProcessorStore s(std::move(segments), numel, false, kTypeBf16);
  KernelBed bed(s);
  for (StoreTensor& t : s.tensors) {
    for (uint64_t i = 0; i < t.numel(); ++i) {
      const float x = Below(-3, AnyFloat(t.gradient_at, i % 65536));
      SaveTyped(uint64_t(&s.gradients[t.gradient_at]), t.gradient_type, i, x);
    }
  }
  bed.PutState();
  double encoded = 0;
  for (const auto& bytes : s.encoded) encoded += double(bytes.size());
  const auto elements = double(s.bucket().numel);
  const double views = elements * 4 * double(s.encoded.size()), weights = elements * 2;
  const double read_weights = s.layout.lo16() >= 0 ? weights : 0;
  StoreAdamArgs adam = {};
  adam.first = 1;
  adam.second = 2;
  adam.gradient_factor = 1.0f;
  for (StoreAdamGroup& g : adam.groups) {
    g = {0.9f, 0.1f, 0.999f, 0.001f, 0.001f, 1.0f, 1e-8f, 0.0f, 0.999f};
  }
  uint32_t main = 0;
  const struct {
    const char* label;
    const char* kernel;
    void* second;
    double bytes;
  } runs[] = {
      {"adam", kStoreAdam, &adam,
       2 * encoded + double(s.gradients.size()) + weights + read_weights},
      {"decode", kStoreDecode, nullptr, encoded + read_weights + views},
      {"encode", kStoreEncode, &main, encoded + weights + views},
      {"look", kStoreLook, nullptr, double(s.gradients.size()) + weights},
  };
  for (const auto& run : runs) {
    const double seconds = Seconds(bed, run.kernel, run.second);
    printf("%s, %s, %.0f MiB encoded: %.0f GB/s, %.1f ms, %.2f G elements/s\n", name, run.label,
           encoded / 1048576, run.bytes / seconds / 1e9, seconds * 1e3, elements / seconds / 1e9);
  }
}

TEST_CASE("speed of the kernels of stores, for who runs this on a card", "[.speed]") {
  const char* const asked = getenv("STORE_SPEED_MIB");
  const uint64_t megabytes = asked != nullptr ? strtoull(asked, nullptr, 10) : 256;
  const auto with = [](Encoding main, Encoding first, Encoding second) {
    return std::vector<store::Segment>{{"main", main}, {"exp_avg", first}, {"exp_avg_sq", second}};
  };
  Measure("fp32", with(Encoding::kFp32, Encoding::kFp32, Encoding::kFp32), 12, megabytes);
  Measure("bf16 moments", with(Encoding::kFp32, Encoding::kBf16, Encoding::kBf16), 8, megabytes);
  Measure("lo16 and bf16", with(Encoding::kLo16, Encoding::kBf16, Encoding::kBf16), 6, megabytes);
  Measure("lo16 and q8", with(Encoding::kLo16, Encoding::kQ8First, Encoding::kQ8Second), 4.125,
          megabytes);
  Measure("fp32 and fp8", with(Encoding::kFp32, Encoding::kFp8First, Encoding::kFp8Second), 6.0625,
          megabytes);
}

}  // namespace
}  // namespace parkade::shim
