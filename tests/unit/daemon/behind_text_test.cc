// What requests and answers say of backups that move while their process stays paused.
#include <catch2/catch.hpp>

#include "daemon/service_text.h"
#include "daemon/status.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

absl::StatusOr<PauseOrder> Parse(const v1::PauseRequest& in) {
  const Groups groups({});
  const Caller caller;
  return Read(in, {caller, groups});
}

}  // namespace

TEST_CASE("write-behind means the disk where no policy is named, and is refused with the host") {
  v1::PauseRequest in;
  CHECK_FALSE(Parse(in)->policies.write_behind);
  in.set_write_behind(true);
  in.set_release_host(true);
  (*in.mutable_tag_policies())["weights"] = v1::POLICY_HOST;
  const auto order = Parse(in);
  REQUIRE(order.ok());
  CHECK(order->policies.write_behind);
  CHECK(order->release_host);
  CHECK(order->policies.all == wire::Policy::kDisk);
  CHECK(order->policies.For("default", wire::Policy::kHost) == wire::Policy::kAuto);
  CHECK(order->policies.For("weights", wire::Policy::kHost) == wire::Policy::kHost);
  in.set_policy(v1::POLICY_AUTO);
  CHECK(Parse(in)->policies.all == wire::Policy::kAuto);
  in.set_policy(v1::POLICY_HOST);
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
  in.Clear();
  in.set_release_host(true);
  CHECK(ReasonOf(Parse(in).status()) == "BAD_POLICY");
}

TEST_CASE("what moves of a paused process is shown as its progress") {
  ProcessView view;
  view.state = wire::ProcessState::kPaused;
  view.ledger.emplace();
  view.ledger->moved_bytes = 3;
  view.ledger->to_move_bytes = 9;
  v1::Process out;
  Write(view, &out);
  CHECK_FALSE(out.has_progress());
  view.ledger->op_id = 5;
  Write(view, &out);
  CHECK(out.progress().done_bytes() == 3);
  CHECK(out.progress().total_bytes() == 9);
}
