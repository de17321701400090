// PlaceInOnePiece: gives the bytes of each range that a program pauses itself one piece of host
// memory, in which it can read them.
#pragma once

#include <span>

#include "shim/pause/eviction_order.h"
#include "shim/pause/host_pool.h"

namespace parkade::shim {

// For moves to host memory, whose backings are planned. What lies in one piece already, kept from
// the last time, stays. Errors as HostPool::MakePieces; every backing is usable then. Operation
// thread.
Result<void> PlaceInOnePiece(std::span<const RangeMove> moves, HostPool& pool);

}  // namespace parkade::shim
