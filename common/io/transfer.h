// Transfer: how far one request has come, and what the outcome of a system call means for it.
#pragma once

#include <algorithm>

#include "common/io/io_engine.h"

namespace parkade {

class Transfer {
 public:
  enum class Next { kCallAgain, kEnded };

  Transfer() = default;
  explicit Transfer(const IoRequest& request) : request_(request) {}

  // The call to make now.
  uint64_t offset() const { return request_.offset + done_; }
  void* memory() const { return static_cast<char*>(request_.memory) + done_; }
  Bytes bytes() const { return std::min(request_.bytes - done_, kMaxOneCall); }
  const IoRequest& request() const { return request_; }

  // Takes what that call returned: bytes moved, or a negative errno. After kEnded, result() holds.
  Next Advance(int64_t outcome);
  const Result<void>& result() const { return result_; }

 private:
  // The kernel moves at most 2 GiB - 4 KiB a call; a power of two keeps direct I/O aligned.
  static constexpr Bytes kMaxOneCall = 1_GiB;

  Next Fail(Error error);

  IoRequest request_{};
  Bytes done_ = 0;
  uint32_t stalls_ = 0;  // calls in a row that moved nothing
  Result<void> result_;
};

}  // namespace parkade
