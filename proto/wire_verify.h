// Messages about reading the backups of a process that stays paused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/wire_header.h"

namespace parkade::wire {

constexpr size_t kMaxWrongBlocks = 64;  // told of in one Verify

// Read the backups and compare them with their digests; the process stays as it is. Only while it
// is out. The Reply comes when all is read, or as soon as there is another request (CANCELLED); a
// block that is wrong is an error of it, DATA_LOSS. Before it each wrong block is told of in a
// WrongBlock, kMaxWrongBlocks of them at most.
struct Verify {
  Header header;
  uint32_t stop;  // 1: reads nothing, and so ends one that is under way
  uint32_t zero;
};
static_assert(sizeof(Verify) == 32);
template <>
inline constexpr Type kTypeOf<Verify> = Type::kVerify;

struct WrongBlock {
  Header header;
  uint64_t address;  // in the process
  uint64_t bytes;
  uint64_t offset;   // in the file
  int32_t device;    // ordinal in the process
  uint32_t place;    // Place of proto/ledger.h: kHost or kDisk
  uint32_t file;     // number of the scratch file
  uint32_t missing;  // 1: the file is gone or too short; 0: the bytes are others
};
static_assert(std::is_trivially_copyable_v<WrongBlock> && sizeof(WrongBlock) == 64);
template <>
inline constexpr Type kTypeOf<WrongBlock> = Type::kWrongBlock;

}  // namespace parkade::wire
