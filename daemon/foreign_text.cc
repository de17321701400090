// Words for each wire::ForeignKind, in its order.
#include "daemon/foreign_text.h"

namespace parkade::daemon {
namespace {

struct Words {
  const char* name;
  const char* advice;  // empty: nothing avoids it
};
constexpr Words kWords[] = {
    {"native",
     "memory that another process has exported, or of a kind that is not moved; all allocations, "
     "where "
     "the device has no virtual memory management or the driver refused it"},
    {"communication",
     "NCCL, NVSHMEM and UCX keep it; it goes when their communicators are destroyed"},
    {"pool",
     "stream-ordered pools are trimmed by a pause, what lives in them stays: in PyTorch use "
     "backend:native instead of backend:cudaMallocAsync, in JAX leave out "
     "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, elsewhere cudaMalloc instead of cudaMallocAsync"},
    {"managed",
     "counted as allocated; a pause moves to the host what fits there: cudaMalloc instead of "
     "cudaMallocManaged avoids it"},
    {"array", "arrays and textures stay: linear memory instead of cudaArray avoids it"},
    {"graph",
     "memory nodes of graphs are trimmed by a pause, what live graphs use stays: allocate before "
     "the capture instead of in it"},
};
static_assert(std::size(kWords) == wire::kForeignKinds);

}  // namespace

void WriteForeign(const wire::LedgerForeign& in, v1::ProcessDevice* out) {
  for (size_t kind = 0; kind < wire::kForeignKinds; ++kind) {
    if (in.bytes[kind] == 0) continue;
    auto* foreign = out->add_foreign();
    foreign->set_kind(kWords[kind].name);
    foreign->set_bytes(in.bytes[kind]);
    foreign->set_advice(kWords[kind].advice);
  }
}

}  // namespace parkade::daemon
