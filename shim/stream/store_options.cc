// Checks what a program says of a store.
#include "shim/stream/store_options.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "shim/heap/tag_name.h"

namespace parkade::shim {
namespace {

static_assert(PARKADE_STORE_MOST_SEGMENTS == store::kMostSegments);
static_assert(PARKADE_STORE_MOST_GROUPS == PARKADE_STORE_GROUPS);
static_assert(PARKADE_STORE_MOST_SLOTS == StepEngine::kMostSlots);

constexpr Bytes kLeastChunk = 4096;
constexpr Bytes kMostChunk = HostPool::kLeastSlice;

Error Bad(const char* what) { return MakeError(Code::kInvalidArgument, "BAD_OPTION", "%s", what); }

bool IsType(uint32_t type) { return type <= PARKADE_STORE_F16; }

// x^n in binary64; n is a step, so large that a loop would be slow, small that squares are exact
// enough.
double Power(double x, uint64_t n) {
  double result = 1;
  for (; n != 0; n >>= 1, x *= x) {
    if ((n & 1) != 0) result *= x;
  }
  return result;
}

}  // namespace

Result<StepEngine::Options> ReadOptions(const parkade_store_options& o) {
  StepEngine::Options options;
  if (o.name != nullptr) options.name = o.name;
  if (!IsTagName(options.name) || options.name.find('/') != std::string::npos) {
    return Bad("a store's name is 1 to 31 letters, digits and _ - . :");
  }
  constexpr uint32_t kFlags = PARKADE_STORE_KEPT | PARKADE_STORE_IN_MEMORY | PARKADE_STORE_NEAREST |
                              PARKADE_STORE_PHASED | PARKADE_STORE_MIXED;
  if ((o.flags & ~kFlags) != 0) return Bad("an unknown flag");
  for (uint32_t i = 0; i < o.directory_count; ++i) {
    const char* const path = o.directories == nullptr ? nullptr : o.directories[i];
    if (path == nullptr || path[0] != '/') return Bad("a directory is an absolute path");
    options.directories.emplace_back(path);
  }
  if (o.slots > StepEngine::kMostSlots) return Bad("more than 64 slots");
  if (o.bucket_elements > store::kMostBucket) return Bad("buckets of more than 200 M elements");
  if (o.redundancy > PARKADE_STORE_SHADOW) return Bad("an unknown redundancy");
  options.slots = o.slots;
  options.bucket_numel = o.bucket_elements;
  options.device_budget = o.device_budget;
  if (o.chunk_bytes != 0) options.chunk = o.chunk_bytes;
  if (options.chunk % kLeastChunk != 0 || options.chunk > kMostChunk) {
    return Bad("chunk_bytes is a multiple of 4096, at most 8 MiB");
  }
  if (o.staging_bytes != 0) options.staging = o.staging_bytes;
  if (options.staging < 2 * options.chunk) return Bad("staging_bytes is at least two chunks");
  options.host_bytes = o.host_bytes;
  if (o.directory_count == 0 && o.host_bytes == 0) options.host_bytes = UINT64_MAX;
  options.seed = o.seed;
  if (o.redundancy != 0) options.redundancy = store::Redundancy(o.redundancy);
  if ((o.flags & PARKADE_STORE_KEPT) != 0) options.take = StoreFiles::Take::kKept;
  options.in_memory_too = (o.flags & PARKADE_STORE_IN_MEMORY) != 0;
  options.nearest = (o.flags & PARKADE_STORE_NEAREST) != 0;
  const bool phased = (o.flags & PARKADE_STORE_PHASED) != 0;
  const bool mixed = (o.flags & PARKADE_STORE_MIXED) != 0;
  if (phased && mixed)
    return Bad("PARKADE_STORE_PHASED and PARKADE_STORE_MIXED exclude each other");
  options.schedule = phased ? DiskTurn::Schedule::kPhased
                     : mixed || o.directory_count == 0
                         ? DiskTurn::Schedule::kMixed  // there is no disk to measure
                         : DiskTurn::Schedule::kMeasured;
  return options;
}

Result<std::vector<store::Segment>> ReadSegments(const parkade_store_options& o) {
  std::vector<store::Segment> segments;
  if (o.segment_count == 0) {
    for (const char* name : {"main", "exp_avg", "exp_avg_sq"}) segments.push_back({name});
    return segments;
  }
  if (o.segments == nullptr || o.segment_count > store::kMostSegments)
    return Bad("1 to 16 segments");
  for (uint32_t i = 0; i < o.segment_count; ++i) {
    parkade_store_segment one;
    // All elements of the array are as long as the first says.
    const auto* const at = reinterpret_cast<const parkade_store_segment*>(
        reinterpret_cast<const char*>(o.segments) + i * o.segments->struct_size);
    if (!ReadStruct(at, &one) || one.name == nullptr || one.encoding == nullptr) {
      return Bad("a segment has a struct_size, a name and an encoding");
    }
    auto encoding = store::ParseEncoding(one.encoding, one.name);
    if (!encoding.ok()) return encoding.error();
    segments.push_back({one.name, *encoding, one.raw_group_bytes});
  }
  return segments;
}

Result<std::vector<store::Entry>> ReadEntries(const parkade_store_entry* entries, size_t count) {
  std::vector<store::Entry> read;
  if (count != 0 && entries == nullptr) return Bad("entries are missing");
  for (size_t i = 0; i < count; ++i) {
    parkade_store_entry one;
    const auto* const at = reinterpret_cast<const parkade_store_entry*>(
        reinterpret_cast<const char*>(entries) + i * entries->struct_size);
    if (!ReadStruct(at, &one) || one.name == nullptr ||
        (one.axes != 0 && one.global_shape == nullptr) || one.axes > store::kMostAxes) {
      return Bad("an entry has a struct_size, a name and a shape");
    }
    if (one.group >= PARKADE_STORE_MOST_GROUPS) return Bad("an entry's group is below 64");
    store::Entry entry;
    entry.name = one.name;
    entry.global_shape.assign(one.global_shape, one.global_shape + one.axes);
    const uint64_t* const local = one.local_shape != nullptr ? one.local_shape : one.global_shape;
    entry.local_shape.assign(local, local + one.axes);
    entry.tp_axis = one.tp_axis;
    entry.tp_offset = one.tp_offset;
    entry.flat_begin = one.flat_begin;
    entry.flat_end = one.flat_end;
    if (one.flat_begin == 0 && one.flat_end == 0) {
      auto all = store::NumelOf(entry.local_shape);
      if (!all.ok()) return all.error();
      entry.flat_end = *all;
    }
    entry.group = one.group;
    entry.user_tag = one.user_tag;
    read.push_back(std::move(entry));
  }
  return read;
}

Result<EntryTensors> ReadTensors(const void* weight, uint32_t weight_type, const void* gradient,
                                 uint32_t gradient_type, bool lo16) {
  if (!IsType(weight_type) || !IsType(gradient_type)) return Bad("an unknown type of tensors");
  if ((weight != nullptr) != (weight_type != PARKADE_STORE_NONE) ||
      (gradient != nullptr) != (gradient_type != PARKADE_STORE_NONE)) {
    return Bad("a tensor has an address and a type, or neither");
  }
  if (lo16 && weight_type != PARKADE_STORE_BF16) {
    return Bad("main in lo16 needs the bf16 weight of every entry");
  }
  return EntryTensors{reinterpret_cast<CUdeviceptr>(weight), StoreType(weight_type),
                      reinterpret_cast<CUdeviceptr>(gradient), StoreType(gradient_type)};
}

Result<StoreAdamArgs> ReadAdam(const StepEngine& engine, uint64_t step,
                               const parkade_store_adam* groups, uint32_t count,
                               float gradient_factor) {
  StoreAdamArgs args = {};
  int found[3] = {-1, -1, -1};
  const char* const names[] = {"main", "exp_avg", "exp_avg_sq"};
  const auto& segments = engine.layout().segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    for (int n = 0; n < 3; ++n) {
      if (segments[i].name == names[n] && segments[i].encoding != store::Encoding::kRaw) {
        found[n] = int(i);
      }
    }
  }
  if (found[0] < 0 || found[1] < 0 || found[2] < 0 || segments.size() != 3) {
    return Bad("Adam works on the segments main, exp_avg and exp_avg_sq alone");
  }
  args.main = uint32_t(found[0]);
  args.first = uint32_t(found[1]);
  args.second = uint32_t(found[2]);
  args.gradient_factor = gradient_factor;
  if (!std::isfinite(gradient_factor)) return Bad("gradient_factor is not finite");
  if (count == 0 || count > PARKADE_STORE_MOST_GROUPS || groups == nullptr) {
    return Bad("1 to 64 groups of hyperparameters");
  }
  for (const store::Entry& entry : engine.layout().entries()) {
    if (entry.group >= count) return Bad("an entry's group has no hyperparameters");
  }
  for (uint32_t i = 0; i < count; ++i) {
    parkade_store_adam g;
    const auto* const at = reinterpret_cast<const parkade_store_adam*>(
        reinterpret_cast<const char*>(groups) + i * groups->struct_size);
    if (!ReadStruct(at, &g)) return Bad("hyperparameters have a struct_size");
    if (!(g.beta1 >= 0 && g.beta1 < 1 && g.beta2 >= 0 && g.beta2 < 1 && g.eps >= 0) ||
        !std::isfinite(g.lr) || !std::isfinite(g.weight_decay) || !std::isfinite(g.eps)) {
      return Bad("hyperparameters out of range: 0 <= beta < 1, eps >= 0, all finite");
    }
    const uint64_t t = g.step == 0 ? step : g.step;
    const bool corrects = g.step != UINT64_MAX;
    const double correction1 = corrects ? 1 - Power(g.beta1, t) : 1;
    const double correction2 = corrects ? 1 - Power(g.beta2, t) : 1;
    StoreAdamGroup& to = args.groups[i];
    to.beta1 = float(g.beta1);
    to.one_less_beta1 = float(1 - g.beta1);
    to.beta2 = float(g.beta2);
    to.one_less_beta2 = float(1 - g.beta2);
    to.step_size = float(g.lr / correction1);
    to.root = float(1 / std::sqrt(correction2));
    to.eps = float(g.eps);
    to.l2 = g.l2 != 0 ? float(g.weight_decay) : 0;
    to.keep = g.l2 != 0 ? 1 : float(1 - g.lr * g.weight_decay);
  }
  return args;
}

int CodeOf(const Error& error) {
  const std::string_view reason = error.reason;
  if (reason == "TORN" || reason == "INTERRUPTED" || reason == "VOID") return PARKADE_STORE_E_TORN;
  if (reason == "OTHER_LAYOUT" || reason == "OTHER_FILES") return PARKADE_STORE_E_LAYOUT;
  if (reason == "STEP_ORDER") return PARKADE_STORE_E_STEP;
  if (reason == "NON_FINITE") return PARKADE_STORE_E_NONFINITE;
  if (reason == "WEIGHTS_CHANGED") return PARKADE_STORE_E_WEIGHTS;
  if (reason == "STORE_IN_USE") return PARKADE_STORE_E_BUSY;
  if (reason == "CALLBACK") return PARKADE_STORE_E_CALLBACK;
  if (error.code == Code::kDataLoss) return PARKADE_STORE_E_CORRUPT;
  if (error.code == Code::kResourceExhausted) return PARKADE_STORE_E_NOSPACE;
  if (error.cuda != 0) return PARKADE_STORE_E_CUDA;
  if (error.os_errno != 0 || reason == "DISK_STALLED") return PARKADE_STORE_E_IO;
  if (error.code == Code::kInvalidArgument) return PARKADE_STORE_E_INVAL;
  if (error.code == Code::kUnimplemented) return PARKADE_STORE_E_UNSUPPORTED;
  if (error.code == Code::kDeadlineExceeded) return PARKADE_STORE_E_TIMEOUT;
  return PARKADE_STORE_E_STATE;
}

}  // namespace parkade::shim
