// The C functions of parkade_store.h that are about checkpoints.
#include <algorithm>
#include <cstring>
#include <string>

#include "common/store/checkpoint.h"
#include "common/store/import_export.h"
#include "common/store/reshard.h"
#include "shim/stream/store_handle.h"

namespace parkade::shim {
namespace {

Result<std::string> ReadDirectory(const char* directory) {
  if (directory != nullptr && directory[0] == '/') return std::string(directory);
  return MakeError(Code::kInvalidArgument, "BAD_OPTION", "the directory must be an absolute path");
}

Result<void> Save(StepEngine& engine, const parkade_store_save_options* given, CUstream stream) {
  parkade_store_save_options options;
  if (!ReadStruct(given, &options)) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "options have a struct_size");
  }
  auto base = ReadDirectory(options.directory);
  if (!base.ok()) return base.error();
  const uint32_t ranks = options.ranks == 0 ? 1 : options.ranks;
  if (options.rank >= ranks || ranks > store::kMostRanks) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "there is no rank %u of %u",
                     options.rank, ranks);
  }
  if (ranks > 1 && options.set == 0) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION",
                     "ranks that save together share a random number, `set`: without one a part "
                     "of an earlier save passes for one of this");
  }
  if (options.user_bytes > store::kMostManifest ||
      (options.user == nullptr && options.user_bytes != 0)) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "user bytes have an address and a size");
  }
  store::Manifest manifest;
  manifest.rank = options.rank;
  manifest.ranks = ranks;
  manifest.set = options.set;
  if (options.user_bytes != 0) {
    manifest.user.assign(static_cast<const char*>(options.user), size_t(options.user_bytes));
  }
  return engine.BeginSave(*base, std::move(manifest), options.generations, stream);
}

Result<uint64_t> NewestIn(const std::string& base) {
  auto generations = store::ListGenerations(base);
  if (!generations.ok()) return generations.error();
  for (auto one = generations->rbegin(); one != generations->rend(); ++one) {
    if (one->complete) return one->step;
  }
  return MakeError(Code::kNotFound, "NO_CHECKPOINT", "%.150s: no complete checkpoint",
                   base.c_str());
}

Result<void> Load(StepEngine& engine, const parkade_store_load_options* given, CUstream stream) {
  parkade_store_load_options options;
  if (!ReadStruct(given, &options)) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "options have a struct_size");
  }
  if ((options.flags & ~uint32_t(PARKADE_STORE_CONVERT | PARKADE_STORE_THIS_STEP)) != 0) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "an unknown flag");
  }
  auto base = ReadDirectory(options.directory);
  if (!base.ok()) return base.error();
  uint64_t step = options.step;
  if (step == 0 && (options.flags & PARKADE_STORE_THIS_STEP) == 0) {
    auto newest = NewestIn(*base);
    if (!newest.ok()) return newest.error();
    step = *newest;
  }
  auto checkpoint = store::Checkpoint::Open(*base, step);
  if (!checkpoint.ok()) return checkpoint.error();
  const auto conversion = (options.flags & PARKADE_STORE_CONVERT) != 0 ? store::Conversion::kAllow
                                                                       : store::Conversion::kRefuse;
  auto plan = store::Resharding::Plan(*checkpoint, engine.layout(), conversion);
  if (!plan.ok()) return plan.error();
  // Every byte, before one of the store or of the GPU is touched.
  if (auto r = checkpoint->Verify(); !r.ok()) return r;
  return engine.Load(
      step, stream,
      [&plan](uint32_t bucket, std::vector<uint8_t>& bytes, store::BucketState& state) {
        return plan->MakeBucket(bucket, bytes, state);
      });
}

Result<void> Import(StepEngine& engine, const char* const* files, size_t count, uint32_t flags,
                    CUstream stream) {
  if (files == nullptr || count == 0 || (flags & ~uint32_t(PARKADE_STORE_ZERO_MOMENTS)) != 0) {
    return MakeError(Code::kInvalidArgument, "BAD_OPTION", "no files, or an unknown flag");
  }
  std::vector<std::string> paths;
  for (size_t i = 0; i < count; ++i) {
    if (files[i] == nullptr) {
      return MakeError(Code::kInvalidArgument, "BAD_OPTION", "file %zu is NULL", i);
    }
    paths.emplace_back(files[i]);
  }
  const auto moments =
      (flags & PARKADE_STORE_ZERO_MOMENTS) != 0 ? store::Moments::kZero : store::Moments::kRequired;
  auto plan = store::TensorImport::Plan(paths, engine.layout(), moments);
  if (!plan.ok()) return plan.error();
  return engine.Load(
      plan->step(), stream,
      [&plan](uint32_t bucket, std::vector<uint8_t>& bytes, store::BucketState& state) {
        return plan->MakeBucket(bucket, bytes, state);
      });
}

}  // namespace
}  // namespace parkade::shim

using parkade::Deadline;
using parkade::shim::Use;

#pragma GCC visibility push(default)
extern "C" {

int parkade_store_save(parkade_store* store, const parkade_store_save_options* options,
                       void* stream) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(parkade::shim::Save(*store->engine, options, static_cast<CUstream>(stream)));
}

int parkade_store_save_wait(parkade_store* store, int timeout_ms) {
  Use use(store);
  if (use.refused()) return use.code();
  for (;;) {
    const auto by = Deadline::InMs(timeout_ms < 0 ? 60'000 : uint64_t(timeout_ms));
    const auto outcome = store->engine->AwaitSave(by);
    if (outcome.ok()) return outcome->complete ? 1 : 0;
    const bool late = outcome.error().code == parkade::Code::kDeadlineExceeded;
    if (!late || timeout_ms >= 0) return use.Say(outcome.error());
  }
}

int parkade_store_load(parkade_store* store, const parkade_store_load_options* options,
                       void* stream) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(parkade::shim::Load(*store->engine, options, static_cast<CUstream>(stream)));
}

int parkade_store_import(parkade_store* store, const char* const* files, size_t file_count,
                         uint32_t flags, void* stream) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(parkade::shim::Import(*store->engine, files, file_count, flags,
                                       static_cast<CUstream>(stream)));
}
}
#pragma GCC visibility pop
