// Messages between the shim and the daemon, one per SOCK_SEQPACKET packet; layout only, no I/O.
//
//   shim    -> daemon   Hello (+ ledger memfd, + lock of a scratch directory it already has)
//   daemon  -> shim     Welcome, or a Refusal and the end of the connection
//   daemon  -> shim     Prepare, LetThrough, Commit (+ scratch files), Abort, Resume, ReleaseHost,
//                       Warm, Verify, Shift
//   shim    -> daemon   WrongBlock, before the Reply to a Verify or Shift, with its op_id
//   shim    -> daemon   one Reply to each of these, with the request's op_id
//   daemon  -> shim     Room, without an answer, while a Resume in turn is under way
//   shim    -> daemon   Want, when an allocation found no room; answered by Holders with its op_id
//   shim    -> daemon   AskWarm, at any time
//   shim    -> daemon   AskTurn, when what it waits for changes; NoTurn may come back
//
// Those between two shims are in wire_share.h, about backups in wire_verify.h and wire_shift.h,
// about turns in wire_turn.h.
//
// Every message starts with a Header and has its type's exact size. The receiver copies the packet
// and checks both (Channel::Receive), then reads enums through the Is...() functions; fields that
// stay unknown are an error, never a crash. Integers are in the byte order of the machine: the
// socket never leaves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/wire_header.h"
#include "proto/wire_share.h"
#include "proto/wire_shift.h"
#include "proto/wire_turn.h"
#include "proto/wire_verify.h"

namespace parkade::wire {

// What pause does with a tag's bytes.
enum class Policy : uint32_t { kHost = 1, kDisk = 2, kAuto = 3, kDiscard = 4, kKeep = 5 };
constexpr bool IsPolicy(uint32_t v) { return v >= 1 && v <= 5; }

// Whether application threads are held while bytes are out; see the word "gate" in docs/design.md.
enum class GateMode : uint32_t { kClosed = 1, kOpen = 2 };
constexpr bool IsGateMode(uint32_t v) { return v == 1 || v == 2; }

// What a call that submits work gets at a closed gate: it waits, or returns
// CUDA_ERROR_SYSTEM_NOT_READY at once.
enum class GatedWork : uint32_t { kBlock = 1, kFail = 2 };
constexpr bool IsGatedWork(uint32_t v) { return v == 1 || v == 2; }

// What an allocation does at a closed gate: as other work, or it goes through.
enum class GatedAllocations : uint32_t { kAsWork = 1, kPass = 2 };
constexpr bool IsGatedAllocations(uint32_t v) { return v == 1 || v == 2; }

// What becomes of memory that other processes import by CUDA IPC.
enum class OnExported : uint32_t {
  kKeep = 1,    // it stays, whoever pauses with this process
  kRefuse = 2,  // as kBroker; what would stay refuses the pause
  kBroker = 3,  // importers that pause with it let go and take it back; what others import stays
};
constexpr bool IsOnExported(uint32_t v) { return v >= 1 && v <= 3; }

// What tells bytes that a pause need not move, because the last backup has them or because they are
// one pattern again and again.
enum class Elision : uint32_t {
  kHash = 1,   // their hashes
  kBytes = 2,  // their hashes and a comparison, byte by byte, with what lies in pinned memory
  kOff = 3,    // nothing: all are moved
};
constexpr bool IsElision(uint32_t v) { return v >= 1 && v <= 3; }

enum class ProcessState : uint32_t {
  kRunning = 1,
  kPreparing = 2,  // gate closing, draining
  kPrepared = 3,   // gate closed and drained, no byte moved
  kEvicting = 4,
  kPaused = 5,  // all that was asked for is out, or what a Resume of some tags has left out
  kRestoring = 6,
  kPartlyMoved = 7,  // every byte in one known place; the same call can be retried
  kFailed = 8,       // the context is lost (sticky CUDA error); nothing can be moved
};
constexpr bool IsProcessState(uint32_t v) { return v >= 1 && v <= 8; }

struct Hello {
  Header header;
  uint32_t version;
  uint32_t oldest_accepted;
  int32_t pid;             // as this process sees itself; the daemon trusts SO_PEERCRED
  int32_t rank;            // -1: unknown
  uint64_t start_ticks;    // field 22 of /proc/self/stat
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  char boot_id[40];
  char job[64];
  char role[32];
  char cell[32];
  char shim_version[16];
  char scratch[256];  // directory the process holds from an earlier daemon; empty: none
  // Where the process's environment wants its scratch, for when a request names no base. Empty:
  // nowhere.
  char wanted_scratch_base[256];
  uint32_t default_policy;       // Policy
  uint32_t scratch_base_yields;  // 1: only where the daemon's configuration names no base (SCRATCH)
  uint32_t takes_turns;          // 1: it may be paused for others that do, and asks when it is used
  uint32_t zero;
};
static_assert(std::is_trivially_copyable_v<Hello> && sizeof(Hello) == 768);
template <>
inline constexpr Type kTypeOf<Hello> = Type::kHello;

struct Welcome {
  Header header;
  uint32_t version;
  uint32_t oldest_accepted;
};
static_assert(std::is_trivially_copyable_v<Welcome> && sizeof(Welcome) == 32);
template <>
inline constexpr Type kTypeOf<Welcome> = Type::kWelcome;

struct Refusal {
  Header header;
  uint32_t code;  // parkade::Code
  uint32_t zero;
  char reason[32];
  char message[208];
};
static_assert(std::is_trivially_copyable_v<Refusal> && sizeof(Refusal) == 272);
template <>
inline constexpr Type kTypeOf<Refusal> = Type::kRefusal;

// Close the gate and drain, also where bytes are out already and some are not. Nothing has moved
// when its Reply comes: either kPrepared, or an error and everything as before, running or paused.
// The Reply's stats carry the exact bytes a Commit would evict.
struct Prepare {
  Header header;
  uint64_t drain_timeout_ns;   // from receipt; not drained by then: the gate opens
  uint64_t epoch;              // of the caller, for LedgerHeader::epoch; 0: it has none
  uint32_t gate_mode;          // GateMode, once the bytes are out; does not open one that is closed
  uint32_t gated_work;         // GatedWork
  uint32_t gated_allocations;  // GatedAllocations
  uint32_t on_exported;        // OnExported
};
static_assert(std::is_trivially_copyable_v<Prepare> && sizeof(Prepare) == 56);
template <>
inline constexpr Type kTypeOf<Prepare> = Type::kPrepare;

constexpr uint32_t kMostLetThrough = 64;  // calls by one LetThrough

// Lets calls through the closed gate, those that have waited longest, for a peer whose collective
// waits for them. After Prepare: drains again, and the Reply comes when all is shut, with
// stats.let_through the calls that came, none where the first did not within arrival_ns; errors as
// a failed Prepare. With arrival_ns 0: only while a Prepare or LetThrough is under way, lets one
// through, and the Reply comes at once.
struct LetThrough {
  Header header;
  uint64_t drain_timeout_ns;  // from receipt
  uint64_t arrival_ns;        // from receipt
  uint32_t calls;             // 1..kMostLetThrough at most
  uint32_t zero;
};
static_assert(std::is_trivially_copyable_v<LetThrough> && sizeof(LetThrough) == 48);
template <>
inline constexpr Type kTypeOf<LetThrough> = Type::kLetThrough;

struct TagPolicy {
  char tag[32];     // NUL-padded
  uint32_t policy;  // Policy
  uint32_t zero;
};
static_assert(sizeof(TagPolicy) == 40);

// Evict what is in HBM; what is out stays where it is. Only after Prepare. Bytes under kAuto go to
// the host up to host_bytes, the rest to the files; under kHost and kDisk the grants are limits
// that must suffice (else an error, nothing moved).
struct Commit {
  Header header;
  uint64_t host_bytes;  // host memory granted for the backups of what this moves
  // Preallocated in the files that come with this message, in all. While bytes are out in files
  // these have to be the same ones, grown for what is added.
  uint64_t disk_bytes;
  uint64_t chunk_bytes;       // host staging for disk, whole size; multiple of 2 MiB
  uint64_t block_bytes;       // of a request to the files; multiple of 4096 up to 32 MiB
  uint32_t depth;             // requests to them at once, 1..256
  uint32_t registers_memory;  // 1: io_uring's registered buffers are faster there
  uint32_t policy;            // Policy of tags not named below
  uint32_t tag_count;         // 0..kMaxTags
  uint32_t file_count;  // descriptors in the packet's control data besides the lock, 0..kMaxFiles
  uint32_t has_lock;    // 1: the first descriptor is the scratch directory's lock, to hold
  TagPolicy tags[kMaxTags];
  char scratch[256];  // the directory that the files are in; repeated in a later Hello
  uint32_t elision;   // Elision; 0: as the process's environment says
  uint32_t zero;
};
static_assert(std::is_trivially_copyable_v<Commit> && sizeof(Commit) == 984);
template <>
inline constexpr Type kTypeOf<Commit> = Type::kCommit;

// Before Commit: open the gate. During eviction: restore what was evicted, then open it; where the
// process was paused before, it is so again, the gate as it was. During and after a Resume in turn:
// give back what came in. During anything else: no effect. Answered when the process runs, or is
// out again.
struct Abort {
  Header header;
};
static_assert(sizeof(Abort) == 24);
template <>
inline constexpr Type kTypeOf<Abort> = Type::kAbort;

// Brings bytes back: all that are out, those of some tags in their order, or those that the last
// Commit has moved. All of them are back when its Reply comes, or none. With nothing left out the
// process runs; else it stays kPaused.
struct Resume {
  Header header;
  uint64_t epoch;         // as in Prepare
  uint32_t release_host;  // 1: give the host pool back afterwards, off the critical path
  // 1: moves the bytes alone, HBM taken as Room allows, and answers as kPartlyMoved with its
  // backups whole and the gate closed; a Resume without it then opens the gate. Without tags.
  uint32_t in_turn;
  // 1: takes back the last Commit, if nothing but it has come since: the process is as it was
  // before that. Without tags; `already` when there is no such Commit.
  uint32_t undoes_pause;
  uint32_t gate_mode;  // GateMode while something stays out; a gate that is open stays so
  uint32_t tag_count;  // 0..kMaxTags; 0: every tag
  uint32_t zero;
  char tags[kMaxTags][32];  // NUL-padded
};
static_assert(std::is_trivially_copyable_v<Resume> && sizeof(Resume) == 568);
template <>
inline constexpr Type kTypeOf<Resume> = Type::kResume;

// How much of a device's HBM a Resume in turn may take in all; the last figure for each counts.
// Before the first there is none.
struct Room {
  Header header;
  int32_t device;  // ordinal in the process
  uint32_t zero;
  uint64_t bytes;
};
static_assert(std::is_trivially_copyable_v<Room> && sizeof(Room) == 40);
template <>
inline constexpr Type kTypeOf<Room> = Type::kRoom;

// Give pinned host memory that holds no backup back to the system.
struct ReleaseHost {
  Header header;
};
static_assert(sizeof(ReleaseHost) == 24);
template <>
inline constexpr Type kTypeOf<ReleaseHost> = Type::kReleaseHost;

// The process would like to hold so much host memory before its first pause (PARKADE_PREWARM). No
// Reply: a Warm may come, now or never.
struct AskWarm {
  Header header;
  uint64_t host_bytes;  // in all
};
static_assert(sizeof(AskWarm) == 32);
template <>
inline constexpr Type kTypeOf<AskWarm> = Type::kAskWarm;

// Make host memory ready, beside the work of the application, until the pool holds so much. The
// Reply comes then, or as soon as there is another request; stats.host_pool_bytes is what it holds.
struct Warm {
  Header header;
  uint64_t host_bytes;  // in all
};
static_assert(sizeof(Warm) == 32);
template <>
inline constexpr Type kTypeOf<Warm> = Type::kWarm;

// Measured figures of one operation. Times are wall-clock nanoseconds of each phase; phases
// overlap.
struct Stats {
  uint64_t host_bytes;  // moved to or from host memory
  uint64_t disk_bytes;  // moved to or from files
  uint64_t discarded_bytes;
  uint64_t kept_bytes;      // left in HBM by policy keep or because held
  uint64_t released_bytes;  // physical HBM given back (pause) or taken (resume)
  uint64_t gate_ns;         // closing the gate, waiting for threads inside
  uint64_t drain_ns;
  uint64_t move_ns;          // first copy to last release
  uint64_t host_pool_bytes;  // pinned memory that the process holds afterwards
  uint64_t pausable_bytes;   // what a Commit now would evict, before policies
  uint64_t let_through;      // calls that LetThrough let pass
  uint64_t needed_bytes;     // HBM of one device that a Resume found missing: asked for in all,
  uint64_t free_bytes;       // and what the driver had
  uint64_t elided_bytes;     // neither copied nor written, or filled on the GPU
  uint64_t wrong_blocks;     // that a Verify or Shift has found
  uint64_t left_bytes;       // of a Shift: that were to move and have not
};
static_assert(sizeof(Stats) == 128);

struct Reply {
  Header header;
  uint32_t code;  // parkade::Code; 0: success
  int32_t cuda;   // CUresult, or 0
  int32_t os_errno;
  uint32_t state;    // ProcessState afterwards
  uint32_t already;  // 1: the process was already in the state asked for
  int32_t device;    // ordinal in the process that the error is about, or -1
  char reason[32];
  char message[208];
  Stats stats;
};
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 416);
template <>
inline constexpr Type kTypeOf<Reply> = Type::kReply;

// An allocation found no room; who holds the memory? The op_id is the shim's number of the event.
struct Want {
  Header header;
  int32_t device;  // ordinal in the process
  uint32_t zero;
  uint64_t bytes;  // that were asked for
};
static_assert(std::is_trivially_copyable_v<Want> && sizeof(Want) == 40);
template <>
inline constexpr Type kTypeOf<Want> = Type::kWant;

// Who holds the GPU's memory, and what moves there now: words for people, NUL-padded.
struct Holders {
  Header header;
  char text[256];
};
static_assert(std::is_trivially_copyable_v<Holders> && sizeof(Holders) == 280);
template <>
inline constexpr Type kTypeOf<Holders> = Type::kHolders;

constexpr size_t kMaxMessage = sizeof(Commit);

// The size that a message of this type must have; 0 for an unknown type.
constexpr size_t SizeOf(Type type) {
  switch (type) {
    case Type::kHello:
      return sizeof(Hello);
    case Type::kWelcome:
      return sizeof(Welcome);
    case Type::kRefusal:
      return sizeof(Refusal);
    case Type::kPrepare:
      return sizeof(Prepare);
    case Type::kCommit:
      return sizeof(Commit);
    case Type::kAbort:
      return sizeof(Abort);
    case Type::kResume:
      return sizeof(Resume);
    case Type::kReleaseHost:
      return sizeof(ReleaseHost);
    case Type::kAskWarm:
      return sizeof(AskWarm);
    case Type::kWarm:
      return sizeof(Warm);
    case Type::kVerify:
      return sizeof(Verify);
    case Type::kWrongBlock:
      return sizeof(WrongBlock);
    case Type::kShift:
      return sizeof(Shift);
    case Type::kReply:
      return sizeof(Reply);
    case Type::kLetThrough:
      return sizeof(LetThrough);
    case Type::kWant:
      return sizeof(Want);
    case Type::kHolders:
      return sizeof(Holders);
    case Type::kRoom:
      return sizeof(Room);
    case Type::kShareOpen:
      return sizeof(ShareOpen);
    case Type::kShareGrant:
      return sizeof(ShareGrant);
    case Type::kSharePieces:
      return sizeof(SharePieces);
    case Type::kShareNote:
      return sizeof(ShareNote);
    case Type::kAskTurn:
      return sizeof(AskTurn);
    case Type::kNoTurn:
      return sizeof(NoTurn);
  }
  return 0;
}

}  // namespace parkade::wire
