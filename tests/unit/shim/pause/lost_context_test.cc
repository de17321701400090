// A context that is lost in the middle of a pause or of a resume: nobody waits for what will never
// run.
#include "shim/pause/freezer.h"
#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

TEST_CASE("a lost context opens the gate, so that the application hears of it") {
  ParkedProcess p;
  p.Allocate(33_MiB);
  p.Allocate(34_MiB);
  p.fake.Fail("cuMemUnmap", 2, CUDA_ERROR_ILLEGAL_ADDRESS);  // the first range is out
  p.fake.Fail("cuMemcpyHtoDAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto outcome = p.Pause(Policy::kHost);
  REQUIRE_FALSE(outcome.result.ok());
  CHECK(outcome.result.error().cuda == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(outcome.device == 0);
  CHECK(p.freezer.state() == ProcessState::kFailed);
  CHECK_FALSE(Gate::IsClosed());
  const auto refused = p.freezer.Resume(9);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(std::string_view(refused.result.error().reason) == "CONTEXT_LOST");
}

// exit() has run the driver's own handler: every call fails from then on, and nothing can be
// undone.
TEST_CASE("a process that ends in the middle of a pause or of a resume is not held at its gate") {
  int tried = 0;
  const auto driver_goes = [&tried](ParkedProcess& p, const char* call, int nth) {
    ++tried;
    INFO(call << " " << nth);
    for (const char* name :
         {"cuMemUnmap", "cuMemRelease", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
          "cuStreamCreate", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"}) {
      p.fake.Fail(name, std::string_view(name) == call ? nth : 1'000'000, CUDA_ERROR_DEINITIALIZED,
                  1'000'000);
    }
  };
  SECTION("of a pause") {
    for (const int nth : {1, 2, 3}) {
      ParkedProcess p;
      for (int i = 0; i < 3; ++i) p.Allocate(33_MiB);
      driver_goes(p, "cuMemUnmap", nth);
      p.fake.Fail("cuMemCreate", 1, CUDA_ERROR_DEINITIALIZED, 1'000'000);
      const auto outcome = p.Pause(Policy::kHost);
      REQUIRE_FALSE(outcome.result.ok());
      CHECK(std::string_view(outcome.result.error().reason) == "PROCESS_ENDING");
      CHECK_FALSE(Gate::IsClosed());
      CHECK((p.freezer.state() == ProcessState::kFailed) == (nth > 1));
    }
  }
  SECTION("of a resume") {
    for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync"}) {
      ParkedProcess p;
      for (int i = 0; i < 3; ++i) p.Allocate(33_MiB);
      REQUIRE(p.Pause(Policy::kHost).result.ok());
      driver_goes(p, call, 2);
      const auto outcome = p.Resume();
      REQUIRE_FALSE(outcome.result.ok());
      CHECK(p.freezer.state() == ProcessState::kFailed);
      CHECK_FALSE(Gate::IsClosed());
    }
  }
  CHECK(tried >= 3);
}

}  // namespace
}  // namespace parkade::shim
