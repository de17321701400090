// Opens the store, makes its steps.
#include "tests/bench/store_steps.h"

#include <cuda.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include "common/store/encode_math.h"
#include "shim/include/parkade/parkade.h"
#include "tests/bench/measure.h"

namespace parkade::bench {
namespace {

constexpr uint64_t kMostEntry = (16 << 20) + 3;  // a large matrix, and not a multiple of anything
constexpr uint64_t kPattern = 1 << 20;           // elements
constexpr parkade_store_adam kHyper = {sizeof kHyper, 0, 1e-4, 0.9, 0.95, 1e-8, 0.1, 0};

void Must(parkade_store* store, int code, const char* what) {
  if (code >= 0) return;
  char text[512] = "";
  parkade_store_last_error(store, text, sizeof text);
  Fail(what, text);
}

// bf16 values of training's size again and again: a disk may have a short way for what is equal.
CUdeviceptr RandomBf16(uint64_t elements, uint64_t salt, float scale) {
  std::vector<uint16_t> pattern(std::min(elements, kPattern));
  for (size_t i = 0; i < pattern.size(); ++i) {
    const auto bits = int32_t(store::Mix(salt + i));
    pattern[i] = store::ToBf16(float(bits) / 2147483648.0f * scale);
  }
  CUdeviceptr memory;
  Check(cuMemAlloc(&memory, elements * 2), "cuMemAlloc");
  for (uint64_t at = 0; at < elements; at += pattern.size()) {
    const uint64_t part = std::min<uint64_t>(pattern.size(), elements - at);
    Check(cuMemcpyHtoD(memory + at * 2, pattern.data(), part * 2), "cuMemcpyHtoD");
  }
  return memory;
}

parkade_store* Open(const StoreAsked& asked) {
  const CUdeviceptr weights = RandomBf16(asked.elements, 1, 0.5f);
  const CUdeviceptr gradients = RandomBf16(asked.elements, 2, 0.01f);
  std::vector<std::string> names;
  std::vector<uint64_t> shapes;
  for (uint64_t at = 0; at < asked.elements; at += kMostEntry) {
    names.push_back("layer" + std::to_string(names.size()));
    shapes.push_back(std::min(kMostEntry, asked.elements - at));
  }
  std::vector<parkade_store_entry> entries;
  for (size_t i = 0; i < names.size(); ++i) {
    parkade_store_entry entry = {};
    entry.struct_size = sizeof entry;
    entry.axes = 1;
    entry.name = names[i].c_str();
    entry.global_shape = &shapes[i];
    entry.tp_axis = -1;
    entry.weight = reinterpret_cast<void*>(weights + i * kMostEntry * 2);
    entry.gradient = reinterpret_cast<void*>(gradients + i * kMostEntry * 2);
    entry.weight_type = entry.gradient_type = PARKADE_STORE_BF16;
    entries.push_back(entry);
  }
  const parkade_store_segment segments[] = {{sizeof *segments, 0, "main", asked.main},
                                            {sizeof *segments, 0, "exp_avg", asked.moments},
                                            {sizeof *segments, 0, "exp_avg_sq", asked.moments}};
  const bool host = strcmp(asked.directory, "host") == 0;
  // By bucket count too: stores of the same directory stand side by side.
  const std::string name = std::string("bench-") + asked.main + "-" + asked.moments + "-" +
                           std::to_string(asked.buckets) + (asked.phased ? "-p" : "");
  parkade_store_options options = {};
  options.struct_size = sizeof options;
  options.flags = asked.phased ? PARKADE_STORE_PHASED : PARKADE_STORE_MIXED;
  options.name = name.c_str();
  options.directories = &asked.directory;
  options.directory_count = host ? 0 : 1;
  options.bucket_elements = (asked.elements + asked.buckets - 1) / asked.buckets;
  options.segments = segments;
  options.segment_count = 3;
  parkade_store* store = nullptr;
  Must(nullptr, parkade_store_open(&options, entries.data(), entries.size(), &store), "open");
  return store;
}

parkade_store_stats Stats(parkade_store* store) {
  parkade_store_stats stats = {};
  stats.struct_size = sizeof stats;
  Must(store, parkade_store_stats_get(store, &stats), "stats");
  return stats;
}

}  // namespace

void ServeSteps(const StoreAsked& asked) {
  if (asked.elements == 0 || asked.buckets == 0) Fail("steps", "ELEMENTS and BUCKETS are above 0");
  CUstream stream;
  Check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  parkade_store* const store = Open(asked);
  Must(store, parkade_store_fill(store, 0, stream, nullptr, nullptr), "fill");
  uint64_t step = 0;
  const auto one_step = [&] {
    ++step;
    Must(store, parkade_store_step_adam(store, step, stream, &kHyper, 1, 1.0f, 0), "step");
    Must(store, parkade_store_drain(store, -1), "drain");
  };
  one_step();  // the first pins its memory, and has all slots
  parkade_store_stats before = Stats(store);
  printf("ready device=%" PRIu64 " slots=%u bucket_elements=%" PRIu64 "\n", before.device_bytes,
         before.slots, before.bucket_elements);
  fflush(stdout);
  for (int c = getchar(); c != EOF; c = getchar()) {
    if (c != '\n') continue;
    const double begin = Now();
    one_step();
    const double seconds = Now() - begin;
    const parkade_store_stats after = Stats(store);
    printf("seconds=%.6f waited=%.6f read=%" PRIu64 " written=%" PRIu64 "\n", seconds,
           double(after.waited_ns - before.waited_ns) * 1e-9, after.read_bytes - before.read_bytes,
           after.written_bytes - before.written_bytes);
    fflush(stdout);
    before = after;
  }
  Must(store, parkade_store_close(store, 0), "close");
}

}  // namespace parkade::bench
