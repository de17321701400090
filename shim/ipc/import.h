// Import: one allocation of another process and the connection that keeps it alive.
#pragma once

#include <vector>

#include "common/deadline.h"
#include "shim/ipc/imports.h"
#include "shim/ipc/share_channel.h"

namespace parkade::shim {

struct Imports::Import {
  struct Handle {
    Bytes bytes;
    Fd descriptor;                        // until it is imported
    CUmemGenericAllocationHandle handle;  // 0 while it is not
  };

  explicit Import(ShareChannel c) : channel(std::move(c)) {}

  Token token{};
  ShareChannel channel;
  Bytes range_bytes = 0;
  Bytes offset = 0;  // of the allocation in the range
  Bytes bytes = 0;
  unsigned char uuid[16] = {};
  std::vector<Handle> handles;

  CUdeviceptr range = 0;  // reserved for as long as it is open
  CUcontext context = nullptr;
  int device = 0;       // of the memory
  int user_device = 0;  // of the context
  uint32_t users = 1;   // Imports::mu_
  uint64_t number = 0;
  bool out = false;  // unmapped for a pause; operation thread
};

// Connects to the exporter. UNAVAILABLE when it has ended.
Result<ShareChannel> ConnectTo(const Token& token);

// Asks for the memory and fills the layout and the descriptors of `import`. Blocks until the bytes
// are in HBM or the deadline. The grant's CUresult when the exporter refuses.
Result<CUresult> Request(Imports::Import& import, Deadline by);

// Sends a word and, where one is due, waits for the answer; kNo when there is none.
wire::ShareWord SayTo(Imports::Import& import, wire::ShareWord word, Deadline by);

}  // namespace parkade::shim
