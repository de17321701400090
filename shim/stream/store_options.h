// What a program says in parkade_store.h's structs, checked and in the engine's words; and the
// other way round, errors as codes.
#pragma once

#include "common/result.h"
#include "shim/stream/step_engine.h"

#define PARKADE_IMPLEMENTATION
#include "shim/include/parkade/parkade.h"

namespace parkade::shim {

// A caller's struct of any age: what it lacks is zero. False when its size cannot be.
template <typename T>
bool ReadStruct(const T* from, T* to) {
  *to = T{};
  if (from == nullptr || from->struct_size < sizeof from->struct_size) return false;
  const size_t bytes = from->struct_size < sizeof *to ? from->struct_size : sizeof *to;
  memcpy(static_cast<void*>(to), from, bytes);
  return true;
}

// INVALID_ARGUMENT says which field.
Result<StepEngine::Options> ReadOptions(const parkade_store_options& options);
Result<std::vector<store::Segment>> ReadSegments(const parkade_store_options& options);
Result<std::vector<store::Entry>> ReadEntries(const parkade_store_entry* entries, size_t count);
Result<EntryTensors> ReadTensors(const void* weight, uint32_t weight_type, const void* gradient,
                                 uint32_t gradient_type, bool lo16);

// What Adam's kernel takes in step `step`. `used`: the highest group of the entries.
Result<StoreAdamArgs> ReadAdam(const StepEngine& engine, uint64_t step,
                               const parkade_store_adam* groups, uint32_t count,
                               float gradient_factor);

int CodeOf(const Error& error);

}  // namespace parkade::shim
