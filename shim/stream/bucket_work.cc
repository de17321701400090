// Loads the kernels, keeps the table, launches.
#include "shim/stream/bucket_work.h"

#include <algorithm>

#include "shim/cuda/cuda_error.h"
#include "shim/kernels/images.h"
#include "shim/kernels/store_quads.h"
#include "shim/stream/slot_memory.h"

namespace parkade::shim {
namespace {

using store::Encoding;

static_assert(uint32_t(Encoding::kFp32) == kStoreFp32 && uint32_t(Encoding::kBf16) == kStoreBf16 &&
              uint32_t(Encoding::kBf16Nearest) == kStoreBf16Nearest &&
              uint32_t(Encoding::kFp16) == kStoreFp16 &&
              uint32_t(Encoding::kQ8First) == kStoreQ8First &&
              uint32_t(Encoding::kQ8Second) == kStoreQ8Second &&
              uint32_t(Encoding::kFp8First) == kStoreFp8First &&
              uint32_t(Encoding::kFp8Second) == kStoreFp8Second &&
              uint32_t(Encoding::kLo16) == kStoreLo16 && uint32_t(Encoding::kRaw) == kStoreRaw);
static_assert(store::kMostSegments == PARKADE_STORE_SEGMENTS);

Bytes SizeOf(StoreType type) { return type == kTypeFp32 ? 4 : 2; }

}  // namespace

Result<std::unique_ptr<BucketWork>> BucketWork::Make(StreamTools& tools, uint64_t seed,
                                                     bool nearest) {
  std::unique_ptr<BucketWork> work(new BucketWork(tools, nearest));
  if (auto r = work->Load(); !r.ok()) return r.error();
  if (auto r = work->MakeTable(seed); !r.ok()) return r.error();
  return work;
}

Result<void> BucketWork::Load() {
  const Driver& driver = tools_.driver;
  if (StoreFatbin() == nullptr) {
    return MakeError(Code::kUnimplemented, "NO_KERNELS", "this library was built without kernels");
  }
  CUresult result = driver.module_load_data(&module_, StoreFatbin());
  if (result != CUDA_SUCCESS) result = driver.module_load_data(&module_, StorePtx());
  if (result != CUDA_SUCCESS) {
    module_ = nullptr;
    return CudaError(driver, result, "loading the kernels of stores");
  }
  const struct {
    CUfunction& function;
    const char* name;
  } wanted[] = {{decode_, kStoreDecode},
                {encode_, kStoreEncode},
                {adam_, kStoreAdam},
                {widen_, kStoreWiden},
                {look_, kStoreLook}};
  for (const auto& [function, name] : wanted) {
    result = driver.module_get_function(&function, module_, name);
    if (result != CUDA_SUCCESS) return CudaError(driver, result, "finding the kernel %s", name);
  }
  return {};
}

Result<void> BucketWork::MakeTable(uint64_t seed) {
  const store::Layout& layout = tools_.layout;
  for (size_t i = 0; i < layout.segments().size(); ++i) {
    if (layout.segments()[i].name == "main") main_ = int(i);
  }
  tensors_.resize(layout.entries().size());
  for (const store::Bucket& bucket : layout.buckets()) {
    first_piece_.push_back(uint32_t(pieces_.size()));
    for (const store::Piece& piece : bucket.pieces) {
      const store::Entry& entry = layout.entries()[piece.entry];
      StorePiece made = {};
      made.position = piece.position;
      made.numel = piece.numel();
      made.counter = piece.counter;
      made.key = store::RoundingKey(seed, store::ParameterId(entry.name));
      made.group = entry.group;
      pieces_.push_back(made);
    }
  }
  const Bytes table = RoundUp(std::max<Bytes>(pieces_.size() * sizeof(StorePiece), 1), 256);
  const size_t buckets = std::max<size_t>(layout.buckets().size(), 1);
  const Bytes findings = buckets * sizeof(StoreFindings);
  const CUresult result =
      tools_.driver.mem_alloc(&table_, table + findings + buckets * sizeof(uint64_t));
  if (result != CUDA_SUCCESS) {
    table_ = 0;
    return CudaError(tools_.driver, result, "memory for a store's table of pieces");
  }
  look_findings_ = table_ + table;
  sums_ = look_findings_ + findings;
  return {};
}

BucketWork::~BucketWork() {
  if (table_ != 0) tools_.driver.mem_free(table_);
  if (module_ != nullptr) tools_.driver.module_unload(module_);
}

void BucketWork::SetTensors(uint32_t entry, const EntryTensors& tensors) {
  tensors_[entry] = tensors;
  changed_ = true;
}

Result<void> BucketWork::Upload(CUstream stream) {
  if (!changed_ || pieces_.empty()) return {};
  const store::Layout& layout = tools_.layout;
  auto made = pieces_.begin();
  for (const store::Bucket& bucket : layout.buckets()) {
    for (const store::Piece& piece : bucket.pieces) {
      const EntryTensors& of = tensors_[piece.entry];
      const uint64_t from = piece.param_begin - layout.entries()[piece.entry].flat_begin;
      made->weight = of.weight == 0 ? 0 : of.weight + from * SizeOf(of.weight_type);
      made->weight_type = of.weight_type;
      made->gradient = of.gradient == 0 ? 0 : of.gradient + from * SizeOf(of.gradient_type);
      made->gradient_type = of.gradient_type;
      ++made;
    }
  }
  // Pageable: the driver has taken the bytes when it returns.
  const CUresult result = tools_.driver.memcpy_htod_async(
      table_, pieces_.data(), pieces_.size() * sizeof(StorePiece), stream);
  if (result != CUDA_SUCCESS) return CudaError(tools_.driver, result, "copying a table of pieces");
  changed_ = false;
  return {};
}

StoreBucketArgs BucketWork::Pieces(uint32_t number) const {
  const store::Bucket& bucket = tools_.bucket(number);
  StoreBucketArgs args = {};
  args.pieces = table_ + first_piece_[number] * sizeof(StorePiece);
  args.piece_count = uint32_t(bucket.pieces.size());
  args.groups = bucket.numel / store::kGroup;
  args.nearest = nearest_ ? 1 : 0;
  return args;
}

StoreBucketArgs BucketWork::Args(const StreamJob& job) const {
  const store::Bucket& bucket = tools_.bucket(job.bucket);
  const StreamSlot& slot = tools_.slots[job.slot];
  StoreBucketArgs args = Pieces(job.bucket);
  args.ties = slot.ties;
  args.findings = slot.findings;
  args.step = job.step;
  const auto& segments = tools_.layout.segments();
  args.segment_count = job.main_only ? 1 : uint32_t(segments.size());
  for (uint32_t i = 0; i < args.segment_count; ++i) {
    StoreSegment& segment = args.segments[i];
    segment.bytes = slot.base + bucket.segments[i].offset;
    segment.scales = segment.bytes + store::ScalesAt(segments[i], bucket.numel);
    segment.encoding = uint32_t(segments[i].encoding);
    if (segments[i].encoding != Encoding::kRaw) segment.view = View(job, i);
  }
  return args;
}

CUdeviceptr BucketWork::View(const StreamJob& job, uint32_t segment) const {
  const StreamSlot& slot = tools_.slots[job.slot];
  if (tools_.layout.segments()[segment].encoding == Encoding::kRaw) {
    return slot.base + tools_.bucket(job.bucket).segments[segment].offset;
  }
  return slot.views + segment * ViewBytes(tools_.most_numel);
}

Result<void> BucketWork::Launch(CUfunction function, const char* name, uint64_t groups,
                                void** arguments, CUstream stream) {
  constexpr uint64_t kGroupsPerBlock = PARKADE_STORE_THREADS / PARKADE_STORE_TEAM;
  const auto blocks = unsigned((groups + kGroupsPerBlock - 1) / kGroupsPerBlock);
  const CUresult result = tools_.driver.launch_kernel(function, blocks, 1, 1, PARKADE_STORE_THREADS,
                                                      1, 1, 0, stream, arguments, nullptr);
  if (result == CUDA_SUCCESS) return {};
  return CudaError(tools_.driver, result, "launching %s", name);
}

Result<void> BucketWork::ClearFindings(CUdeviceptr at, size_t count, CUstream stream) {
  const CUresult result = tools_.driver.memset_d32_async(
      at, 0, count * sizeof(StoreFindings) / sizeof(uint32_t), stream);
  if (result == CUDA_SUCCESS) return {};
  return CudaError(tools_.driver, result, "clearing a store's findings");
}

Result<void> BucketWork::Decode(const StreamJob& job, CUstream stream) {
  StoreBucketArgs args = Args(job);
  void* arguments[] = {&args};
  return Launch(decode_, kStoreDecode, args.groups, arguments, stream);
}

Result<void> BucketWork::Encode(const StreamJob& job, CUstream stream) {
  StoreBucketArgs args = Args(job);
  if (auto r = ClearFindings(args.findings, 1, stream); !r.ok()) return r;
  auto main = uint32_t(main_);
  void* arguments[] = {&args, &main};
  auto r = Launch(encode_, kStoreEncode, args.groups, arguments, stream);
  return r.ok() ? KeepSum(job, stream) : r;
}

Result<void> BucketWork::Adam(const StreamJob& job, StoreAdamArgs adam, CUstream stream) {
  StoreBucketArgs args = Args(job);
  if (auto r = ClearFindings(args.findings, 1, stream); !r.ok()) return r;
  void* arguments[] = {&args, &adam};
  auto r = Launch(adam_, kStoreAdam, args.groups, arguments, stream);
  return r.ok() ? KeepSum(job, stream) : r;
}

// The sum of the weights as this leaves them, in the stream's order.
Result<void> BucketWork::KeepSum(const StreamJob& job, CUstream stream) {
  if (tools_.layout.lo16() < 0) return {};
  const CUresult result =
      tools_.driver.memcpy_dtod_async(sums_ + job.bucket * sizeof(uint64_t),
                                      tools_.slots[job.slot].findings, sizeof(uint64_t), stream);
  if (result == CUDA_SUCCESS) return {};
  return CudaError(tools_.driver, result, "keeping the sum of a bucket's weights");
}

Result<void> BucketWork::SetSums(const std::vector<uint64_t>& sums, CUstream stream) {
  CUresult result =
      tools_.driver.memcpy_htod_async(sums_, sums.data(), sums.size() * sizeof(uint64_t), stream);
  // Steps are made on other streams.
  if (result == CUDA_SUCCESS) result = tools_.driver.stream_synchronize(stream);
  if (result == CUDA_SUCCESS) return {};
  return CudaError(tools_.driver, result, "copying the sums of weights");
}

Result<void> BucketWork::CheckWeights(CUstream stream) {
  auto found = Look(stream);
  if (!found.ok()) return found.error();
  std::vector<uint64_t> sums(found->size());
  CUresult result =
      tools_.driver.memcpy_dtoh_async(sums.data(), sums_, sums.size() * sizeof(uint64_t), stream);
  if (result == CUDA_SUCCESS) result = tools_.driver.stream_synchronize(stream);
  if (result != CUDA_SUCCESS) return CudaError(tools_.driver, result, "looking at weights");
  for (uint32_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == (*found)[i].weight_sum) continue;
    return MakeError(
        Code::kFailedPrecondition, "WEIGHTS_CHANGED",
        "weights of bucket %u were changed outside a step, and lo16 has the other half "
        "of each",
        i);
  }
  return {};
}

Result<void> BucketWork::Widen(const StreamJob& job, CUstream stream) {
  StoreBucketArgs args = Args(job);
  uint32_t first = 0;
  void* arguments[] = {&args, &first};
  return Launch(widen_, kStoreWiden, args.groups, arguments, stream);
}

Result<std::vector<StoreFindings>> BucketWork::Look(CUstream stream) {
  std::vector<StoreFindings> found(tools_.layout.buckets().size());
  if (found.empty()) return found;
  if (auto r = ClearFindings(look_findings_, found.size(), stream); !r.ok()) return r.error();
  for (uint32_t i = 0; i < found.size(); ++i) {
    StoreBucketArgs args = Pieces(i);
    args.findings = look_findings_ + i * sizeof(StoreFindings);
    void* arguments[] = {&args};
    auto r = Launch(look_, kStoreLook, args.groups, arguments, stream);
    if (!r.ok()) return r.error();
  }
  CUresult result = tools_.driver.memcpy_dtoh_async(found.data(), look_findings_,
                                                    found.size() * sizeof(StoreFindings), stream);
  if (result == CUDA_SUCCESS) result = tools_.driver.stream_synchronize(stream);
  if (result != CUDA_SUCCESS) return CudaError(tools_.driver, result, "looking at gradients");
  return found;
}

}  // namespace parkade::shim
