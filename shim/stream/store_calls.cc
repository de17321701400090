// The C functions of parkade_store.h.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "shim/stream/store_handle.h"

using parkade::Code;
using parkade::Deadline;
using parkade::Error;
using parkade::MakeError;
using parkade::Result;
using parkade::StoreAdamArgs;
using parkade::shim::StepEngine;
using parkade::shim::StreamJob;

namespace store = parkade::store;

namespace parkade::shim {
namespace {

Deadline By(int timeout_ms) {
  return Deadline::InMs(timeout_ms < 0 ? StepEngine::kStallMs : uint64_t(timeout_ms));
}

// A wait without a limit goes on for as long as the process is paused.
Result<std::optional<StreamJob>> Acquire(StepEngine& engine, int timeout_ms,
                                         StepEngine::Form form) {
  for (;;) {
    auto job = engine.Acquire(By(timeout_ms), form);
    const bool late = !job.ok() && strcmp(job.error().reason, "BUCKET_NOT_READY") == 0;
    if (!late || timeout_ms >= 0) return job;
  }
}

Result<void> Drain(StepEngine& engine, int timeout_ms) {
  for (;;) {
    auto drained = engine.Drain(By(timeout_ms));
    const bool late = !drained.ok() && strcmp(drained.error().reason, "NOT_WRITTEN") == 0;
    if (!late || timeout_ms >= 0) return drained;
  }
}

// However long it takes, and whatever becomes of it.
void AwaitSave(StepEngine& engine) {
  for (;;) {
    const auto outcome = engine.AwaitSave(Deadline::InMs(60'000));
    if (outcome.ok() || outcome.error().code != Code::kDeadlineExceeded) return;
  }
}

void Describe(parkade_store& s, const StreamJob& job, CUstream stream, parkade_store_bucket* out) {
  const store::Layout& layout = s.engine->layout();
  const auto& pieces = s.pieces[job.bucket];
  parkade_store_bucket b = {};
  b.struct_size = sizeof b;
  b.bucket = job.bucket;
  b.bucket_count = uint32_t(layout.buckets().size());
  b.piece_count = uint32_t(pieces.size());
  b.step = job.step;
  b.elements = layout.buckets()[job.bucket].numel;
  b.pieces = pieces.data();
  b.stream = stream;
  b.segment_count = job.main_only ? 1 : uint32_t(layout.segments().size());
  for (uint32_t i = 0; i < b.segment_count; ++i) {
    b.segments[i] = reinterpret_cast<void*>(s.engine->work().View(job, i));
  }
  b.fills = job.main_only ? 1 : 0;
  const uint32_t size = std::min<uint32_t>(out->struct_size, sizeof b);
  memcpy(static_cast<void*>(out), &b, size);
  out->struct_size = size;
}

Result<StreamJob> TakeHeld(parkade_store& s, uint32_t bucket) {
  for (auto job = s.held.begin(); job != s.held.end(); ++job) {
    if (job->bucket != bucket) continue;
    const StreamJob taken = *job;
    s.held.erase(job);
    return taken;
  }
  return MakeError(Code::kInvalidArgument, "NOT_HELD", "bucket %u is not held", bucket);
}

// Runs `update` on every bucket of the open step; in a fill without one, the weights.
Result<void> RunBuckets(parkade_store& s, parkade_store_fn update, void* user) {
  for (;;) {
    auto job = Acquire(*s.engine, -1, StepEngine::Form::kViews);
    if (!job.ok()) return job.error();
    if (!*job) return s.engine->EndStep();
    if (update == nullptr) {
      if (auto r = s.engine->Widen(**job); !r.ok()) return r;
    } else {
      parkade_store_bucket bucket = {};
      bucket.struct_size = sizeof bucket;
      Describe(s, **job, s.engine->stream(), &bucket);
      if (const int code = update(&bucket, user); code < 0) {
        return MakeError(Code::kAborted, "CALLBACK", "the callback returned %d for bucket %u", code,
                         (*job)->bucket);
      }
    }
    if (auto r = s.engine->Submit(**job); !r.ok()) return r;
  }
}

Result<void> RunAdam(StepEngine& engine, const StoreAdamArgs& adam) {
  for (;;) {
    auto job = Acquire(engine, -1, StepEngine::Form::kEncoded);
    if (!job.ok()) return job.error();
    if (!*job) return engine.EndStep();
    if (auto r = engine.SubmitAdam(**job, adam); !r.ok()) return r;
  }
}

// Begins the step, unless it is open already with no bucket given out.
Result<void> BeginOrGoOn(parkade_store& s, uint64_t step, CUstream stream) {
  if (!s.engine->step_is_open()) return s.engine->BeginStep(step, stream);
  if (s.engine->open_step() == step && s.held.empty()) return {};
  return MakeError(Code::kFailedPrecondition, "STEP_ORDER", "step %llu is open",
                   (unsigned long long)s.engine->open_step());
}

Result<void> NeedsTensors(const StepEngine& engine, bool gradients) {
  const auto& entries = engine.layout().entries();
  for (uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i].flat_begin == entries[i].flat_end) continue;
    const EntryTensors& tensors = engine.work().tensors(i);
    if ((gradients ? tensors.gradient : tensors.weight) != 0) continue;
    return MakeError(Code::kInvalidArgument, "NO_TENSOR", "%.100s has no %s",
                     entries[i].name.c_str(), gradients ? "gradient" : "weight");
  }
  return {};
}

Result<void> LookAtGradients(StepEngine& engine, CUstream stream) {
  auto found = engine.LookAtGradients(stream);
  if (!found.ok()) return found.error();
  if (*found == 0) return {};
  return MakeError(Code::kFailedPrecondition, "NON_FINITE",
                   "%llu gradients are not finite: the step is skipped",
                   (unsigned long long)*found);
}

}  // namespace
}  // namespace parkade::shim

using parkade::shim::StepEngine;
using parkade::shim::Use;

#pragma GCC visibility push(default)
extern "C" {

int parkade_store_open(const parkade_store_options* options, const parkade_store_entry* entries,
                       size_t entry_count, parkade_store** store) {
  if (store == nullptr) return PARKADE_STORE_E_INVAL;
  *store = nullptr;
  auto opened = parkade::shim::OpenStore(options, entries, entry_count);
  if (!opened.ok()) return parkade::shim::CodeOf(opened.error());
  *store = *opened;
  return PARKADE_STORE_OK;
}

int parkade_store_set_tensors(parkade_store* store, uint32_t entry, void* weight,
                              uint32_t weight_type, void* gradient, uint32_t gradient_type) {
  Use use(store);
  if (use.refused()) return use.code();
  const auto& layout = store->engine->layout();
  if (entry >= layout.entries().size() || !store->held.empty()) {
    return use.Say(MakeError(Code::kInvalidArgument, "BAD_ENTRY",
                             "there is no entry %u, or a bucket is held", entry));
  }
  const bool here = layout.entries()[entry].flat_begin != layout.entries()[entry].flat_end;
  auto tensors = parkade::shim::ReadTensors(weight, weight_type, gradient, gradient_type,
                                            layout.lo16() >= 0 && here);
  if (!tensors.ok()) return use.Say(tensors.error());
  store->engine->work().SetTensors(entry, *tensors);
  return PARKADE_STORE_OK;
}

int parkade_store_fill(parkade_store* store, uint64_t step, void* stream, parkade_store_fn fill,
                       void* user) {
  Use use(store);
  if (use.refused()) return use.code();
  StepEngine& engine = *store->engine;
  if (fill == nullptr) {
    if (auto r = parkade::shim::NeedsTensors(engine, false); !r.ok()) return use.Say(r);
  }
  auto done = engine.BeginFill(step, static_cast<CUstream>(stream));
  if (!done.ok()) return use.Say(done);
  done = parkade::shim::RunBuckets(*store, fill, user);
  if (!done.ok()) {
    engine.AbortStep(&done.error());
    return use.Say(done);
  }
  return use.Say(parkade::shim::Drain(engine, -1));
}

int parkade_store_step_begin(parkade_store* store, uint64_t step, void* stream) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(store->engine->BeginStep(step, static_cast<CUstream>(stream)));
}

int parkade_store_acquire(parkade_store* store, parkade_store_bucket* bucket, int timeout_ms) {
  Use use(store);
  if (use.refused()) return use.code();
  if (bucket == nullptr || bucket->struct_size < sizeof bucket->struct_size) {
    return use.Say(MakeError(Code::kInvalidArgument, "BAD_OPTION", "a bucket has a struct_size"));
  }
  auto job = parkade::shim::Acquire(*store->engine, timeout_ms, StepEngine::Form::kViews);
  if (!job.ok()) return use.Say(job.error());
  if (!*job) return 0;
  store->held.push_back(**job);
  parkade::shim::Describe(*store, **job, store->engine->stream(), bucket);
  return 1;
}

int parkade_store_submit(parkade_store* store, uint32_t bucket) {
  Use use(store);
  if (use.refused()) return use.code();
  auto job = parkade::shim::TakeHeld(*store, bucket);
  return use.Say(job.ok() ? store->engine->Submit(*job) : Result<void>(job.error()));
}

int parkade_store_release(parkade_store* store, uint32_t bucket) {
  Use use(store);
  if (use.refused()) return use.code();
  auto job = parkade::shim::TakeHeld(*store, bucket);
  return use.Say(job.ok() ? store->engine->Release(*job) : Result<void>(job.error()));
}

int parkade_store_step_end(parkade_store* store) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(store->engine->EndStep());
}

int parkade_store_step_abort(parkade_store* store) {
  Use use(store);
  if (use.refused()) return use.code();
  store->engine->AbortStep();
  store->held.clear();
  const auto torn = store->engine->torn();
  return torn ? use.Say(*torn) : int(PARKADE_STORE_OK);
}

int parkade_store_step_run(parkade_store* store, uint64_t step, void* stream,
                           parkade_store_fn update, void* user) {
  Use use(store);
  if (use.refused()) return use.code();
  if (update == nullptr) {
    return use.Say(MakeError(Code::kInvalidArgument, "BAD_OPTION", "there is no callback"));
  }
  auto done = parkade::shim::BeginOrGoOn(*store, step, static_cast<CUstream>(stream));
  if (!done.ok()) return use.Say(done);
  done = parkade::shim::RunBuckets(*store, update, user);
  if (!done.ok()) store->engine->AbortStep(&done.error());
  return use.Say(done);
}

int parkade_store_step_adam(parkade_store* store, uint64_t step, void* stream,
                            const parkade_store_adam* groups, uint32_t group_count,
                            float gradient_factor, int skip_nonfinite) {
  Use use(store);
  if (use.refused()) return use.code();
  StepEngine& engine = *store->engine;
  auto adam = parkade::shim::ReadAdam(engine, step, groups, group_count, gradient_factor);
  if (!adam.ok()) return use.Say(adam.error());
  auto done = parkade::shim::NeedsTensors(engine, true);
  if (!done.ok()) return use.Say(done);
  done = parkade::shim::BeginOrGoOn(*store, step, static_cast<CUstream>(stream));
  if (!done.ok()) return use.Say(done);
  if (skip_nonfinite != 0) {
    done = parkade::shim::LookAtGradients(engine, static_cast<CUstream>(stream));
  }
  if (done.ok()) done = parkade::shim::RunAdam(engine, *adam);
  if (!done.ok()) engine.AbortStep(&done.error());
  return use.Say(done);
}

int parkade_store_drain(parkade_store* store, int timeout_ms) {
  Use use(store);
  if (use.refused()) return use.code();
  return use.Say(parkade::shim::Drain(*store->engine, timeout_ms));
}

int parkade_store_stats_get(parkade_store* store, parkade_store_stats* stats) {
  if (store == nullptr || stats == nullptr || store->pid != getpid() ||
      stats->struct_size < sizeof stats->struct_size) {
    return PARKADE_STORE_E_INVAL;
  }
  const StepEngine::Stats now = store->engine->stats();
  parkade_store_stats s = {};
  s.slots = now.slots;
  s.buckets = now.buckets;
  s.open = store->engine->step_is_open() ? 1 : 0;
  s.committed = store->engine->committed();
  s.bucket_elements = now.bucket_numel;
  s.read_bytes = now.read_bytes;
  s.written_bytes = now.written_bytes;
  s.waited_ns = now.waited_ns;
  s.device_bytes = now.device_bytes;
  s.host_bytes = now.host_bytes;
  s.file_bytes = now.file_bytes;
  s.struct_size = std::min<uint32_t>(stats->struct_size, sizeof s);
  memcpy(static_cast<void*>(stats), &s, s.struct_size);
  return PARKADE_STORE_OK;
}

int parkade_store_last_error(parkade_store* store, char* text, size_t bytes) {
  if (text == nullptr || bytes == 0) return PARKADE_STORE_E_INVAL;
  char what[sizeof Error::what];
  if (store == nullptr) {
    memcpy(what, parkade::shim::OpenError(), sizeof what);
  } else {
    parkade::MutexLock lock(store->mu);
    memcpy(what, store->last.what, sizeof what);
  }
  const size_t length = std::min(strlen(what), bytes - 1);
  memcpy(text, what, length);
  text[length] = '\0';
  return PARKADE_STORE_OK;
}

int parkade_store_close(parkade_store* store, int keep) {
  int code;
  {
    Use use(store);
    if (use.refused()) return use.code();
    store->engine->AbortStep();
    Result<void> done = parkade::shim::Drain(*store->engine, -1);
    parkade::shim::AwaitSave(*store->engine);
    if (keep != 0 && done.ok()) done = store->engine->Keep();
    if (keep == 0) done = {};
    code = use.Say(done);
  }
  parkade::shim::ForgetStore(store);
  delete store;
  return code;
}
}
#pragma GCC visibility pop
