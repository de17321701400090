// Messages between two shims, on the exporter's own socket (shim/ipc), one connection for each
// import:
//
//   importer -> exporter   ShareOpen or ShareNote, with an op_id of the importer's
//   exporter -> importer   ShareGrant and SharePieces (+ descriptors), or ShareNote, with its op_id
#pragma once

#include "proto/wire_header.h"

namespace parkade::wire {

// An importer asks for an allocation that a token names. The exporter's memory stays where it is
// for as long as the connection lasts, or until the importer has said kLetGo.
struct ShareOpen {
  Header header;
  uint32_t version;
  uint32_t zero;
  uint64_t base;    // device address in the exporter
  uint64_t number;  // LedgerRecord::number
};
static_assert(sizeof(ShareOpen) == 48);
template <>
inline constexpr Type kTypeOf<ShareOpen> = Type::kShareOpen;

// The answer, once the bytes are in HBM: a process that is paused answers when it has resumed.
struct ShareGrant {
  Header header;
  int32_t cuda;            // CUresult; not 0: nothing follows
  uint32_t piece_count;    // physical handles behind the range, in order, without gaps
  uint64_t range_bytes;    // all of them
  uint64_t offset;         // of the allocation in the range
  uint64_t bytes;          // of the allocation
  unsigned char uuid[16];  // of the device
};
static_assert(sizeof(ShareGrant) == 72);
template <>
inline constexpr Type kTypeOf<ShareGrant> = Type::kShareGrant;

constexpr size_t kMaxPieces = kMaxFiles;  // descriptors in one SharePieces

struct SharePieces {
  Header header;
  uint32_t count;  // 1..kMaxPieces, one descriptor each
  uint32_t zero;
  uint64_t bytes[kMaxPieces];
};
static_assert(sizeof(SharePieces) == 96);
template <>
inline constexpr Type kTypeOf<SharePieces> = Type::kSharePieces;

// What importer and exporter tell each other around a pause of both, so that memory which is
// mapped twice leaves HBM too.
enum class ShareWord : uint32_t {
  kPrepared = 1,  // importer: my gate is closed and my work done; answered kYes
  kRunning = 2,   // importer: it is open again
  kMayLetGo = 3,  // importer: do you pause as well? answered kYes or kNo
  kLetGo = 4,     // importer: I have unmapped it; answered kYes. ShareOpen takes it back
  kYes = 5,
  kNo = 6,
};
constexpr bool IsShareWord(uint32_t v) { return v >= 1 && v <= 6; }

struct ShareNote {
  Header header;
  uint32_t word;  // ShareWord
  uint32_t zero;
};
static_assert(sizeof(ShareNote) == 32);
template <>
inline constexpr Type kTypeOf<ShareNote> = Type::kShareNote;

}  // namespace parkade::wire
