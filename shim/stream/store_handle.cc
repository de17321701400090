// Opens stores, and knows which are open.
#include "shim/stream/store_handle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/stream/stores.h"

namespace parkade::shim {
namespace {

constinit std::atomic<const StepEngine::Surroundings*> live{nullptr};  // release: it is made

constinit Mutex open_mu;  // innermost
std::vector<parkade_store*>& Open() REQUIRES(open_mu) {
  static auto* const open = new std::vector<parkade_store*>;
  return *open;
}

thread_local constinit char open_error[sizeof Error::what] = {};

Result<parkade_store*> Opened(const parkade_store_options* given,
                              const parkade_store_entry* given_entries, size_t count) {
  const StepEngine::Surroundings* const on = live.load(std::memory_order_acquire);
  if (on == nullptr) {
    return MakeError(Code::kFailedPrecondition, "NO_CONTEXT", "there is no CUDA context yet");
  }
  parkade_store_options options;
  if (!ReadStruct(given, &options)) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "options have a struct_size");
  }
  auto read = ReadOptions(options);
  if (!read.ok()) return read.error();
  auto segments = ReadSegments(options);
  if (!segments.ok()) return segments.error();
  auto entries = ReadEntries(given_entries, count);
  if (!entries.ok()) return entries.error();
  bool lo16 = false;
  for (const store::Segment& segment : *segments) {
    lo16 = lo16 || segment.encoding == store::Encoding::kLo16;
  }
  std::vector<EntryTensors> tensors;
  for (size_t i = 0; i < count; ++i) {
    parkade_store_entry one;
    ReadStruct(reinterpret_cast<const parkade_store_entry*>(
                   reinterpret_cast<const char*>(given_entries) + i * given_entries->struct_size),
               &one);
    const bool here = (*entries)[i].flat_begin != (*entries)[i].flat_end;
    auto of =
        ReadTensors(one.weight, one.weight_type, one.gradient, one.gradient_type, lo16 && here);
    if (!of.ok()) return of.error();
    tensors.push_back(*of);
  }
  auto engine = StepEngine::Open(*on, std::move(*entries), std::move(*segments), *read);
  if (!engine.ok()) return engine.error();
  for (uint32_t i = 0; i < tensors.size(); ++i) (*engine)->work().SetTensors(i, tensors[i]);
  auto* const opened = new parkade_store;
  opened->engine = std::move(*engine);
  const store::Layout& layout = opened->engine->layout();
  for (const store::Bucket& bucket : layout.buckets()) {
    auto& pieces = opened->pieces.emplace_back();
    for (const store::Piece& piece : bucket.pieces) {
      const store::Entry& entry = layout.entries()[piece.entry];
      pieces.push_back({piece.entry, entry.group, entry.user_tag, piece.param_begin, piece.numel(),
                        piece.position});
    }
  }
  MutexLock lock(open_mu);
  Open().push_back(opened);
  return opened;
}

}  // namespace

Result<parkade_store*> OpenStore(const parkade_store_options* options,
                                 const parkade_store_entry* entries, size_t count) {
  auto opened = Opened(options, entries, count);
  if (!opened.ok()) memcpy(open_error, opened.error().what, sizeof open_error);
  return opened;
}

const char* OpenError() { return open_error; }

void ForgetStore(parkade_store* store) {
  MutexLock lock(open_mu);
  std::erase(Open(), store);
}

void Stores::SetLive(const StepEngine::Surroundings* now) {
  live.store(now, std::memory_order_release);
}

void Stores::AbandonAfterFork() {
  open_mu.ResetAfterFork();
  MutexLock lock(open_mu);
  for (parkade_store* store : Open()) store->engine->AbandonAfterFork();
  Open().clear();
}

}  // namespace parkade::shim
