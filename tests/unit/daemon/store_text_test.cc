// A store in a ledger as the API tells of it.
#include <catch2/catch.hpp>
#include <cstring>

#include "common/text.h"
#include "daemon/service_text.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

v1::Store Told(const wire::LedgerStore& in) {
  v1::Store out;
  Write(ProcessView(), in, &out);
  return out;
}

}  // namespace

TEST_CASE("states, places and redundancies of stores mean the same on both sides") {
  const std::pair<wire::StoreState, v1::Store::State> states[] = {
      {wire::StoreState::kIdle, v1::Store::STATE_IDLE},
      {wire::StoreState::kStepping, v1::Store::STATE_STEPPING},
      {wire::StoreState::kTorn, v1::Store::STATE_TORN},
      {wire::StoreState::kFailed, v1::Store::STATE_FAILED}};
  wire::LedgerStore in = {};
  for (const auto& [ours, theirs] : states) {
    in.state = uint32_t(ours);
    CHECK(Told(in).state() == theirs);
  }
  in.file_bytes = 1;
  CHECK(Told(in).placement() == v1::Store::PLACEMENT_FILES);
  in.host_bytes = 1;
  CHECK(Told(in).placement() == v1::Store::PLACEMENT_BOTH);
  in.file_bytes = 0;
  CHECK(Told(in).placement() == v1::Store::PLACEMENT_HOST);
  in.redundancy = 3;  // PARKADE_STORE_SHADOW
  CHECK(Told(in).redundancy() == v1::Store::REDUNDANCY_SHADOW);
  in.redundancy = 4;
  CHECK(Told(in).redundancy() == v1::Store::REDUNDANCY_UNSPECIFIED);
}

TEST_CASE("lines of a store become lists, and a store that is not filled has no step") {
  wire::LedgerStore in = {};
  CopyText(in.directories, "/a\n/b\x01\n");
  CopyText(in.segments, "main=lo16\nodd\n");
  in.step = in.open_step = wire::kNoStoreStep;
  const v1::Store out = Told(in);
  REQUIRE(out.directories_size() == 2);
  CHECK(out.directories(1) == "/b?");
  REQUIRE(out.segments_size() == 2);
  CHECK(out.segments(0).name() == "main");
  CHECK(out.segments(0).encoding() == "lo16");
  CHECK(out.segments(1).name() == "odd");
  CHECK(out.segments(1).encoding().empty());
  CHECK_FALSE(out.has_step());
  CHECK_FALSE(out.has_open_step());
  in.step = 0;
  CHECK(Told(in).step() == 0);
}
