// What one request makes of each outcome of a system call.
#include "common/io/transfer.h"

#include <catch2/catch.hpp>
#include <cerrno>

namespace parkade {
namespace {

using Next = Transfer::Next;

IoRequest Request(IoRequest::Kind kind, uint64_t offset, Bytes bytes) {
  return {kind, 0, offset, nullptr, bytes, 7};
}

TEST_CASE("a transfer goes on where a short call stopped") {
  Transfer t(Request(IoRequest::Kind::kWrite, 8192, 4_MiB));
  REQUIRE(t.Advance(2_MiB) == Next::kCallAgain);
  CHECK(t.offset() == 8192 + 2_MiB);
  CHECK(t.bytes() == 2_MiB);
  CHECK(t.Advance(2_MiB) == Next::kEnded);
  CHECK(t.result().ok());
}

TEST_CASE("an aligned transfer that stops inside a block goes on at the block's start") {
  Transfer t(Request(IoRequest::Kind::kRead, 0, 16384));
  REQUIRE(t.Advance(5000) == Next::kCallAgain);
  CHECK(t.offset() == 4096);
  Transfer odd(Request(IoRequest::Kind::kRead, 10, 9000));
  REQUIRE(odd.Advance(5000) == Next::kCallAgain);
  CHECK(odd.offset() == 5010);
}

TEST_CASE("interruptions are tried again, but not for ever") {
  for (const int error : {EINTR, EAGAIN}) {
    Transfer t(Request(IoRequest::Kind::kWrite, 0, 4096));
    for (int i = 0; i < 10; ++i) REQUIRE(t.Advance(-error) == Next::kCallAgain);
    REQUIRE(t.Advance(4096) == Next::kEnded);
    CHECK(t.result().ok());
    Transfer stuck(Request(IoRequest::Kind::kWrite, 0, 4096));
    int calls = 1;
    while (stuck.Advance(-error) == Next::kCallAgain) ++calls;
    CHECK(calls == 64);
    CHECK(stuck.result().error().os_errno == error);
  }
}

TEST_CASE("a request over 2 GiB is made of calls the kernel takes") {
  const Bytes whole = 5_GiB + 4096;
  Transfer t(Request(IoRequest::Kind::kRead, 0, whole));
  Bytes moved = 0;
  Next next = Next::kCallAgain;
  while (next == Next::kCallAgain) {
    REQUIRE(t.bytes() <= 1_GiB);
    REQUIRE(t.offset() == moved);
    moved += t.bytes();
    next = t.Advance(int64_t(t.bytes()));
  }
  CHECK(moved == whole);
  CHECK(t.result().ok());
}

TEST_CASE("a file that ends too early is data loss") {
  Transfer gone(Request(IoRequest::Kind::kRead, 0, 8192));
  REQUIRE(gone.Advance(0) == Next::kEnded);
  CHECK(gone.result().error().code == Code::kDataLoss);

  Transfer torn(Request(IoRequest::Kind::kRead, 0, 8192));
  while (torn.Advance(100) == Next::kCallAgain) {
  }
  CHECK(torn.result().error().code == Code::kDataLoss);
}

TEST_CASE("disk errors keep their number and kind") {
  Transfer full(Request(IoRequest::Kind::kWrite, 0, 8192));
  REQUIRE(full.Advance(4096) == Next::kCallAgain);
  REQUIRE(full.Advance(-ENOSPC) == Next::kEnded);
  CHECK(full.result().error().code == Code::kResourceExhausted);
  CHECK(full.result().error().os_errno == ENOSPC);
  Transfer nothing(Request(IoRequest::Kind::kWrite, 0, 8192));
  while (nothing.Advance(0) == Next::kCallAgain) {
  }
  CHECK(nothing.result().error().os_errno == EIO);
}

}  // namespace
}  // namespace parkade
