// Moves and fills bytes.
#include "tests/sim/transfer.h"

#include <algorithm>
#include <cstring>

namespace parkade::sim {
namespace {

// Small enough that an unmapping is noticed soon, and that a throttled link moves evenly.
constexpr Bytes kPiece = 1_MiB;

bool OnDevice(Address at) {
  const auto found = Sim().addresses.Find(at);
  return found && found->range.kind != RangeKind::kPinned &&
         found->range.kind != RangeKind::kRegistered;
}

// The link that the copy crosses, if it crosses one.
void Throttle(const Copy& copy, Bytes bytes, bool from_device, bool to_device) {
  const uint64_t rate = Sim().settings.link_bytes_per_s;
  if (rate == 0 || from_device == to_device) return;
  const auto found = Sim().addresses.Find(from_device ? copy.from.base : copy.to.base);
  const int gpu = found ? found->range.gpu : 0;
  Sim().links[size_t(gpu)].Pass(from_device ? Direction::kToHost : Direction::kToDevice, bytes,
                                rate);
}

bool Faults(Address at, Bytes bytes, bool write) {
  return Sim().addresses.Check(at, bytes, write) == AddressSpace::Touch::kFault;
}

CUresult CopyRow(const Copy& copy, Address to, Address from) {
  const bool from_device = OnDevice(from);
  const bool to_device = OnDevice(to);
  for (Bytes done = 0; done < copy.width;) {
    const Bytes piece = std::min(kPiece, copy.width - done);
    if (Faults(to + done, piece, true) || Faults(from + done, piece, false))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    memmove(reinterpret_cast<void*>(to + done), reinterpret_cast<const void*>(from + done), piece);
    Throttle(copy, piece, from_device, to_device);
    done += piece;
  }
  return CUDA_SUCCESS;
}

void FillPiece(void* at, Bytes bytes, uint32_t value, Bytes unit_bytes) {
  if (unit_bytes == 1) {
    memset(at, int(value & 0xff), bytes);
  } else if (unit_bytes == 2) {
    std::fill_n(static_cast<uint16_t*>(at), bytes / 2, uint16_t(value));
  } else {
    std::fill_n(static_cast<uint32_t*>(at), bytes / 4, value);
  }
}

}  // namespace

CUresult CheckArea(const Area& area, Bytes width, Bytes rows, Wanted wanted, bool write, int gpu) {
  for (Bytes row = 0; row < rows && width != 0; ++row) {
    const auto touch = Sim().addresses.Check(area.base + row * area.pitch, width, write, gpu);
    if (touch == AddressSpace::Touch::kFault || area.base == 0 ||
        (touch == AddressSpace::Touch::kUnknown && wanted == Wanted::kDevice))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult RunCopy(const Copy& copy) {
  for (Bytes row = 0; row < copy.rows; ++row) {
    const CUresult result =
        CopyRow(copy, copy.to.base + row * copy.to.pitch, copy.from.base + row * copy.from.pitch);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult RunFill(const Area& to, Bytes width, Bytes rows, uint32_t value, Bytes unit_bytes) {
  for (Bytes row = 0; row < rows; ++row) {
    const Address start = to.base + row * to.pitch;
    for (Bytes done = 0; done < width;) {
      const Bytes piece = std::min(kPiece, width - done);
      if (Faults(start + done, piece, true)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      FillPiece(reinterpret_cast<void*>(start + done), piece, value, unit_bytes);
      done += piece;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace parkade::sim
