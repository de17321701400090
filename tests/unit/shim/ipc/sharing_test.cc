// An exporter and an importer on one fake driver: what an import holds, what each failure leaves,
// and how memory is let go and taken back around a pause.
#include <sched.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>

#include "shim/ipc/import.h"
#include "shim/ipc/imports.h"
#include "shim/ipc/share_server.h"
#include "tests/unit/shim/fake_driver.h"

namespace parkade::shim {
namespace {

constexpr Bytes kBytes = 600_MiB;  // two physical handles

Deadline Late() { return Deadline::InMs(10'000); }
Deadline Soon() { return Deadline::InMs(50); }

struct Pair {
  Pair() {
    FakeDriver::MakeCurrent(fake.Context(0));
    REQUIRE(heap.Allocate(&ptr, kBytes, "default") == CUDA_SUCCESS);
    strcpy(reinterpret_cast<char*>(ptr), "the exporter's bytes");
    const auto handle = exports.Export(ptr);
    REQUIRE(handle.ok());
    token = *ReadToken(*handle);
    alone = fake.held();
  }
  // As cuIpcOpenMemHandle: 0 and *result when it is refused.
  CUdeviceptr Open(CUresult* result) {
    auto import = imports.Ask(token, result);
    CUdeviceptr opened = 0;
    if (import != nullptr) *result = imports.Map(std::move(import), &opened);
    return opened;
  }
  CUdeviceptr Open() {
    CUresult result = CUDA_SUCCESS;
    const CUdeviceptr opened = Open(&result);
    REQUIRE(result == CUDA_SUCCESS);
    return opened;
  }
  Result<void> TakeBack(Deadline by) { return imports.TakeBack(by, &gone); }
  // The exporter's thread notices a moment later that an importer has gone.
  bool HeldBecomes(Bytes bytes) {
    for (const Deadline by = Late(); heap.HeldBytes() != bytes;) {
      if (by.Passed()) return false;
      sched_yield();
    }
    return true;
  }
  static bool BytesAt(CUdeviceptr at) {
    return std::string_view(reinterpret_cast<const char*>(at)) == "the exporter's bytes";
  }

  const std::atomic<bool> never{false};
  FakeDriver fake;
  Driver driver = fake.driver();
  std::unique_ptr<LedgerWriter> ledger = std::move(*LedgerWriter::Create());
  Contexts contexts;
  Heap heap{driver, *ledger, contexts};
  ShareServer exports{driver, heap};
  Imports imports{driver, heap};
  CUdeviceptr ptr = 0;
  Token token{};
  FakeDriver::Held alone;
  std::vector<int> gone;  // exporters whose memory did not come back
};

TEST_CASE("an import shows the exporter's bytes and holds them until the last user closes") {
  Pair p;
  const CUdeviceptr opened = p.Open();
  CHECK(opened != p.ptr);
  CHECK(Pair::BytesAt(opened));
  CHECK(p.heap.HeldBytes() == kBytes);
  const auto view = p.imports.Find(opened + 100);
  REQUIRE(view);
  CHECK(view->base == opened);
  CHECK(view->bytes == kBytes);
  CHECK(p.imports.OpenAgain(p.token) == opened);
  CHECK(p.imports.Close(opened + 100) == CUDA_ERROR_INVALID_VALUE);
  CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
  CHECK(p.heap.HeldBytes() == kBytes);
  CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
  CHECK_FALSE(p.imports.Close(opened));
  CHECK(p.HeldBecomes(0));
  CHECK(p.fake.held() == p.alone);
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("every driver call of an import may fail: nothing is left, nothing stays held") {
  int tried = 0;
  for (const char* call : {"cuMemExportToShareableHandle", "cuMemAddressReserve",
                           "cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
    for (int nth = 1;; ++nth) {
      Pair p;
      p.fake.Fail(call, nth, CUDA_ERROR_UNKNOWN);
      CUresult result = CUDA_SUCCESS;
      const CUdeviceptr opened = p.Open(&result);
      if (p.fake.FaultPending(call)) {
        CHECK(result == CUDA_SUCCESS);
        CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
        break;
      }
      INFO(call << " " << nth);
      ++tried;
      CHECK(result == CUDA_ERROR_UNKNOWN);
      CHECK(p.HeldBecomes(0));
      CHECK(p.fake.held() == p.alone);
      CHECK(p.fake.mistakes() == 0);
      CHECK(Pair::BytesAt(p.Open()));
    }
  }
  printf("calls of an import: %d\n", tried);
  CHECK(tried == 8);
}

TEST_CASE("a freed allocation is refused, and so is one whose exporter has ended") {
  Pair p;
  CUresult result = CUDA_SUCCESS;
  CHECK(p.heap.Free(p.ptr, &result));
  CHECK(p.Open(&result) == 0);
  CHECK(result == CUDA_ERROR_INVALID_VALUE);
  p.token.server[0] ^= 1;
  CHECK(p.Open(&result) == 0);
  CHECK(result == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("nobody lets go of an exporter that does not pause") {
  Pair p;
  const CUdeviceptr opened = p.Open();
  p.imports.Say(wire::ShareWord::kPrepared);
  p.imports.LetGo();
  CHECK(Pair::BytesAt(opened));
  CHECK(p.heap.HeldBytes() == kBytes);
  CHECK_FALSE(p.exports.WaitForImporters(Soon(), p.never));
  p.imports.Say(wire::ShareWord::kRunning);
  CHECK(p.TakeBack(Soon()).ok());
  CHECK(p.gone.empty());
}

TEST_CASE("around a pause of both, memory is let go and comes back to its address") {
  Pair p;
  const CUdeviceptr opened = p.Open();
  p.exports.SetPausing(true);
  p.imports.Say(wire::ShareWord::kPrepared);
  p.imports.LetGo();
  CHECK(p.exports.WaitForImporters(Late(), p.never));
  CHECK(p.heap.HeldBytes() == 0);
  CHECK_FALSE(p.imports.Find(opened)->resident);
  const auto ranges = p.heap.BeginEviction();
  REQUIRE(ranges.size() == 1);

  // Its bytes are out: the importer waits, and may ask again as often as it likes.
  for (int i = 0; i < 2; ++i) {
    const auto early = p.TakeBack(Soon());
    REQUIRE_FALSE(early.ok());
    CHECK(std::string_view(early.error().reason) == "EXPORTER_PAUSED");
  }
  p.heap.MovedIn(ranges[0]);
  p.exports.SetPausing(false);

  SECTION("at once") { CHECK(p.TakeBack(Late()).ok()); }
  SECTION("after a failure at each driver call") {
    for (const char* call : {"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
      p.fake.Fail(call, 1, CUDA_ERROR_UNKNOWN);
      CHECK(p.TakeBack(Late()).error().cuda == CUDA_ERROR_UNKNOWN);
    }
    p.fake.Fail("cuMemExportToShareableHandle", 1, CUDA_ERROR_UNKNOWN);
    CHECK_FALSE(p.TakeBack(Late()).ok());
    CHECK(p.TakeBack(Late()).ok());
  }
  CHECK(Pair::BytesAt(opened));
  CHECK(p.heap.HeldBytes() == kBytes);
  CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
  CHECK(p.HeldBecomes(0));
  CHECK(p.fake.held() == p.alone);
  CHECK(p.fake.mistakes() == 0);
}

TEST_CASE("memory that its exporter has freed meanwhile is gone and holds nobody up") {
  Pair p;
  const CUdeviceptr opened = p.Open();
  p.exports.SetPausing(true);
  p.imports.LetGo();
  CUresult result = CUDA_SUCCESS;
  CHECK(p.heap.Free(p.ptr, &result));
  CHECK(p.TakeBack(Late()).ok());
  CHECK(p.gone == std::vector{p.token.pid});
  CHECK(p.TakeBack(Late()).ok());
  CHECK(p.gone.size() == 1);
  CHECK(p.imports.Close(opened) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace parkade::shim
