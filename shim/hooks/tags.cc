// Each thread's stack of tags. It needs no part of the shim, so that tags can be pushed before the
// first context; a forked child's thread goes on with those of its parent's.
#include "shim/hooks/tags.h"

#include <atomic>
#include <cstring>

#include "shim/heap/tag_name.h"

#define PARKADE_IMPLEMENTATION
#include "shim/include/parkade/parkade.h"

namespace parkade::shim {

static_assert(PARKADE_TAG_BYTES == sizeof wire::LedgerRecord::tag);

namespace {

struct Tags {
  unsigned depth;
  char names[PARKADE_TAG_DEPTH][PARKADE_TAG_BYTES];
};
thread_local constinit Tags tags{};

}  // namespace

std::string_view CurrentTag(std::string_view own) {
  return tags.depth == 0 ? own : tags.names[tags.depth - 1];
}

}  // namespace parkade::shim

using parkade::shim::tags;

extern "C" __attribute__((visibility("default"))) int parkade_tag_push(const char* tag) {
  if (tag == nullptr) return PARKADE_E_INVAL;
  const size_t bytes = strnlen(tag, PARKADE_TAG_BYTES);
  if (!parkade::shim::IsTagName({tag, bytes})) return PARKADE_E_INVAL;
  if (tags.depth == PARKADE_TAG_DEPTH) return PARKADE_E_NOSPACE;
  // A signal's handler may push and pop in between: above this one.
  char* const name = tags.names[tags.depth++];
  std::atomic_signal_fence(std::memory_order_seq_cst);
  memcpy(name, tag, bytes);
  name[bytes] = '\0';
  return PARKADE_OK;
}

extern "C" __attribute__((visibility("default"))) int parkade_tag_pop(void) {
  if (tags.depth == 0) return PARKADE_E_STATE;
  --tags.depth;
  return PARKADE_OK;
}
