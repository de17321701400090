// What every message on the wire begins with, and the versions and limits that both sides hold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace parkade::wire {

// Both sides send their version and the oldest they accept; each refuses what is older than that.
constexpr uint32_t kVersion = 7;
constexpr uint32_t kOldestAccepted = 7;
constexpr uint32_t kMagic = 0x4b52'4150;  // "PARK"

constexpr size_t kMaxTags = 16;     // in one Commit, Resume or Shift
constexpr size_t kMaxFiles = 8;     // scratch files in one Commit, one per striped directory
constexpr size_t kMaxDevices = 16;  // GPUs of one process

enum class Type : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kRefusal = 3,
  kPrepare = 4,
  kCommit = 5,
  kAbort = 6,
  kResume = 7,
  kReleaseHost = 8,
  kReply = 9,
  kLetThrough = 10,
  kWant = 11,
  kHolders = 12,
  kWarm = 13,
  kRoom = 14,
  kAskWarm = 15,
  kVerify = 16,
  kWrongBlock = 17,
  kShift = 18,
  kAskTurn = 19,
  kShareOpen = 20,
  kShareGrant = 21,
  kSharePieces = 22,
  kShareNote = 23,
  kNoTurn = 24,
};

struct Header {
  uint32_t magic;
  Type type;      // unread until SizeOf() knows it
  uint32_t size;  // of the whole message, this header included
  uint32_t zero;
  uint64_t op_id;  // chosen by the daemon, repeated in the Reply; 0 in Hello, Welcome, Refusal
};
static_assert(sizeof(Header) == 24);

// The type of each message; said beside its struct.
template <typename M>
inline constexpr Type kTypeOf = Type{};

template <typename M>
constexpr Type TypeOf() {
  static_assert(kTypeOf<M> != Type{}, "not a message");
  return kTypeOf<M>;
}

// A zeroed message with its header filled.
template <typename M>
M Make(uint64_t op_id = 0) {
  M message{};
  message.header = {kMagic, TypeOf<M>(), sizeof(M), 0, op_id};
  return message;
}

}  // namespace parkade::wire
