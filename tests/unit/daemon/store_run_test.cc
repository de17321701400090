// The whole daemon: what it says of the stores in its processes' ledgers.
#include <catch2/catch.hpp>

#include "common/deadline.h"
#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::DaemonRun;
using testing::ReasonIn;

namespace {

v1::ListStoresResponse List(DaemonRun& run, const std::string& job) {
  grpc::ClientContext context;
  v1::ListStoresRequest request;
  request.mutable_selector()->set_job(job);
  v1::ListStoresResponse response;
  REQUIRE(run.stub().ListStores(&context, request, &response).ok());
  return response;
}

}  // namespace

TEST_CASE("stores are listed by process and found by name, also by the next daemon") {
  DaemonRun run;
  const auto plain = run.StartShim({"4096"}, {"FAKE_JOB=rl"});
  const auto one = run.StartShim({"4096"}, {"FAKE_JOB=rl", "FAKE_RANK=0", "FAKE_STORE=adam"});
  const auto two = run.StartShim({"4096"}, {"FAKE_JOB=rl", "FAKE_RANK=1", "FAKE_STORE=muon"});
  for (const bool again : {false, true}) {
    if (again) {
      run.Kill();
      run.Start();
      for (const auto* shim : {&one, &two}) {
        (*shim)->Write("reconnect\n");
        REQUIRE((*shim)->Line() == "ready");
        // It is welcome a moment before its ledger can be read.
        const int pid = (*shim)->pid();
        for (const Deadline by = Deadline::InMs(10'000); !run.Find(pid).connected();) {
          REQUIRE_FALSE(by.Passed());
        }
      }
    }
    const auto listed = List(run, "rl");
    REQUIRE(listed.stores_size() == 2);
    CHECK(List(run, "other").stores().empty());
    grpc::ClientContext context;
    v1::GetStoreRequest request;
    request.set_name("muon");
    v1::GetStoreResponse found;
    REQUIRE(run.stub().GetStore(&context, request, &found).ok());
    REQUIRE(found.stores_size() == 1);
    CHECK(found.stores(0).pid() == two->pid());
    CHECK(found.stores(0).rank() == 1);
    CHECK(found.stores(0).step() == 7);
    CHECK(found.stores(0).open_step() == 8);
  }
  grpc::ClientContext context;
  v1::GetStoreRequest request;
  request.set_name("none");
  v1::GetStoreResponse found;
  const auto status = run.stub().GetStore(&context, request, &found);
  CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(ReasonIn(status) == "NO_STORE");
}
