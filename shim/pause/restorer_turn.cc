// A restore in turn: each piece gets its handle when there is room for it.
#include "shim/cuda/cuda_error.h"
#include "shim/pause/restorer.h"

namespace parkade::shim {
namespace {

// How long a thread that waits for room sleeps before it looks whether it is to stop.
constexpr uint64_t kRoomLookMs = 50;
// What a neighbour has released shows in the driver's account within some ms; memory that is still
// not there after this time somebody else has taken.
constexpr uint64_t kNoMemoryMs = 2000;
constexpr uint64_t kNoMemoryLookMs = 5;
// Twice the time after which a daemon takes a neighbour that moves nothing for stalled.
constexpr uint64_t kNoRoomMs = 120'000;

}  // namespace

Incoming* Restorer::Awaited(const Block& block) {
  if (tools_.room == nullptr) return nullptr;
  for (Incoming& incoming : returns_[next_return_]->pieces) {
    if (incoming.piece == block.piece && !incoming.mapped) return &incoming;
  }
  return nullptr;
}

Result<Restorer::Step> Restorer::BringPiece(Incoming& incoming) {
  const Range& range = *returns_[next_return_]->range;
  const Piece& piece = range.pieces[incoming.piece];
  waiting_ = &incoming;
  if (!tools_.room->Take(range.device, piece.bytes)) return Step::kMustWait;
  timeline_.Ended("queue");
  const CUresult created = tools_.memory.CreateAgain(range, piece.bytes, &incoming.handle);
  if (created != CUDA_SUCCESS) {
    incoming.handle = 0;
    tools_.room->Return(range.device, piece.bytes);
    if (!no_memory_by_) no_memory_by_ = Deadline::InMs(kNoMemoryMs);
    if (created == CUDA_ERROR_OUT_OF_MEMORY && !no_memory_by_->Passed()) return Step::kMustWait;
    return CudaError(tools_.driver, created, "creating GPU memory on device %d", range.device);
  }
  waiting_ = nullptr;
  no_memory_by_.reset();
  room_by_.reset();
  tools_.ledger.AddShifted(range.device, int64_t(piece.bytes));
  if (auto r = Map(range, incoming); !r.ok()) return r.error();
  if (const CUresult result = tools_.memory.SetAccess(range, piece); result != CUDA_SUCCESS) {
    return CudaError(tools_.driver, result, "making 0x%llx accessible",
                     (unsigned long long)(range.base + piece.offset));
  }
  timeline_.Ended("map");
  return Step::kNoMore;
}

Result<Restorer::Step> Restorer::BringRest() {
  for (Incoming& incoming : returns_[next_return_]->pieces) {
    if (incoming.mapped) continue;
    auto step = BringPiece(incoming);
    if (!step.ok() || *step == Step::kMustWait) return step;
  }
  return Step::kNoMore;
}

// Nothing is in flight that there would be to do meanwhile.
Result<void> Restorer::WaitForRoom() {
  timeline_.Ended("queue");
  const Range& range = *returns_[next_return_]->range;
  if (no_memory_by_) {
    tools_.room->AwaitMore(range.device, Deadline::InMs(kNoMemoryLookMs));
  } else {
    tools_.room->Await(range.device, range.pieces[waiting_->piece].bytes,
                       Deadline::InMs(kRoomLookMs));
  }
  timeline_.Ended("room");
  waiting_ = nullptr;
  if (!room_by_) room_by_ = Deadline::InMs(kNoRoomMs);
  if (!room_by_->Passed()) return {};
  return MakeError(Code::kUnavailable, "NO_ROOM_GIVEN",
                   "the daemon has allowed no GPU memory for %llu s",
                   (unsigned long long)kNoRoomMs / 1000);
}

}  // namespace parkade::shim
