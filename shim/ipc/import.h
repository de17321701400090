// Import: one allocation of another process and the connection that keeps it alive.
#pragma once

#include <atomic>
#include <vector>

#include "common/deadline.h"
#include "shim/ipc/imports.h"
#include "shim/ipc/share_channel.h"

namespace parkade::shim {

// What an exporter grants: the range that the allocation lies in, with a descriptor for each of its
// physical handles.
struct ShareGrant {
  Bytes range_bytes = 0;
  Bytes offset = 0;  // of the allocation in the range
  Bytes bytes = 0;   // of the allocation
  unsigned char uuid[16] = {};
  std::vector<SharePiece> pieces;
};

// The importer's end of a connection. One thread at a time.
class ShareClient {
 public:
  // Connects to the exporter. UNAVAILABLE when it has ended; PERMISSION_DENIED when somebody else's
  // process answers in its place.
  static Result<ShareClient> Connect(const Token& token);

  // Asks for the memory. Blocks until its bytes are in HBM, or the deadline. Errors carry the
  // exporter's CUresult where it has one; INVALID_VALUE: the allocation has been freed.
  Result<ShareGrant> Ask(const Token& token, Deadline by);

  // Says a word; true when it was answered with kYes, or needs no answer and was sent.
  bool Say(wire::ShareWord word, Deadline by);

 private:
  explicit ShareClient(ShareChannel channel) : channel_(std::move(channel)) {}
  // The answer to `op_id`; late ones to earlier questions are dropped.
  Result<void> Hear(uint64_t op_id, wire::Packet* packet, Deadline by);

  ShareChannel channel_;
  uint64_t last_op_ = 0;
};

struct Imports::Import {
  struct Handle {
    Bytes bytes;
    CUmemGenericAllocationHandle handle;
  };

  Import(const Token& t, ShareClient c) : token(t), client(std::move(c)) {}

  const Token token;
  ShareClient client;
  ShareGrant grant;  // its descriptors are gone once they are mapped
  std::vector<Handle> handles;

  // Constant once it is in the table.
  CUdeviceptr range = 0;  // reserved for as long as it is open
  CUcontext context = nullptr;
  int device = 0;       // of the memory
  int user_device = 0;  // of the context
  uint64_t number = 0;

  uint32_t users = 1;             // Imports::mu_
  std::atomic<bool> out = false;  // unmapped for a pause
};

}  // namespace parkade::shim
