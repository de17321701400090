// What the daemon reads of a store in the ledger, at each turn of its life.
#include <string>

#include "shim/stream/store_options.h"
#include "shim/stream/stores.h"
#include "tests/unit/shim/stream/stream_fixture.h"

namespace parkade::shim {
namespace {

constexpr uint64_t kNumel = 5000;

struct Owner {
  Owner() { Stores::SetLive(&surroundings); }
  ~Owner() {
    Close();
    Stores::SetLive(nullptr);
  }
  void Open() {
    const parkade_store_entry entry = {sizeof entry,
                                       1,
                                       "w",
                                       &kShape,
                                       nullptr,
                                       -1,
                                       0,
                                       0,
                                       0,
                                       0,
                                       7,
                                       weight.data(),
                                       gradient.data(),
                                       PARKADE_STORE_F32,
                                       PARKADE_STORE_F32};
    parkade_store_options o = {};
    o.struct_size = sizeof o;
    o.flags = PARKADE_STORE_IN_MEMORY;
    o.name = "rank0";
    o.directories = &directory;
    o.directory_count = 1;
    o.bucket_elements = 1024;
    REQUIRE(parkade_store_open(&o, &entry, 1, &store) == PARKADE_STORE_OK);
  }
  void Close() {
    if (store != nullptr) parkade_store_close(store, 0);
    store = nullptr;
  }
  // A step whose callback returns that for the bucket, and zero for those before it.
  int Step(uint64_t step, uint32_t bucket, int code) {
    const std::pair<uint32_t, int> when{bucket, code};
    return parkade_store_step_run(
        store, step, nullptr,
        [](const parkade_store_bucket* b, void* user) {
          const auto* w = static_cast<const std::pair<uint32_t, int>*>(user);
          return b->bucket == w->first ? w->second : 0;
        },
        const_cast<std::pair<uint32_t, int>*>(&when));
  }
  std::vector<wire::LedgerStore> Listed() const {
    auto stores = wire::ReadLedgerStores(p.ledger->fd());
    REQUIRE(stores.ok());
    return *stores;
  }

  static constexpr uint64_t kShape = kNumel;
  StreamProcess p;
  const StepEngine::Surroundings surroundings{p.fake.driver(), p.contexts, p.pool, *p.ledger};
  std::vector<float> weight = std::vector<float>(kNumel, 0.5f),
                     gradient = std::vector<float>(kNumel, 1);
  const char* const directory = p.dir.path().c_str();
  parkade_store* store = nullptr;
};

TEST_CASE("a store is listed while it is open, with what it is") {
  Owner o;
  CHECK(o.Listed().empty());
  o.Open();
  REQUIRE(o.Listed().size() == 1);
  const wire::LedgerStore s = o.Listed()[0];
  CHECK(std::string(s.name) == "rank0");
  CHECK(std::string(s.segments) == "main=fp32\nexp_avg=fp32\nexp_avg_sq=fp32\n");
  CHECK(std::string(s.directories) == o.p.dir.path() + "\n");
  CHECK(s.elements == kNumel);
  CHECK(s.buckets == 5);
  CHECK(s.slots == 3);
  CHECK(s.redundancy == PARKADE_STORE_INPLACE);
  CHECK(s.file_bytes >= kNumel * 12);
  CHECK(s.host_bytes == 0);
  CHECK(s.step == wire::kNoStoreStep);
  CHECK(wire::StoreState(s.state) == wire::StoreState::kIdle);
  CHECK(s.serving == 0);
  o.Close();
  CHECK(o.Listed().empty());
}

TEST_CASE("a step that is whole is listed with what it took and moved") {
  Owner o;
  o.Open();
  REQUIRE(parkade_store_fill(o.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  const wire::LedgerStore filled = o.Listed()[0];
  CHECK(filled.step == 0);
  REQUIRE(o.Step(1, 0, 0) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_drain(o.store, 20'000) == PARKADE_STORE_OK);
  const wire::LedgerStore s = o.Listed()[0];
  CHECK(s.step == 1);
  CHECK(s.open_step == wire::kNoStoreStep);
  CHECK(wire::StoreState(s.state) == wire::StoreState::kIdle);
  CHECK(s.last_ns > 0);
  CHECK(s.last_written_bytes >= kNumel * 12);
  CHECK(s.written_bytes == filled.written_bytes + s.last_written_bytes);
  CHECK(s.device_bytes > 0);
}

TEST_CASE("a step under way is listed as such") {
  Owner o;
  o.Open();
  REQUIRE(parkade_store_fill(o.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_step_begin(o.store, 1, nullptr) == PARKADE_STORE_OK);
  const wire::LedgerStore s = o.Listed()[0];
  CHECK(wire::StoreState(s.state) == wire::StoreState::kStepping);
  CHECK(s.step == 0);
  CHECK(s.open_step == 1);
  REQUIRE(parkade_store_step_abort(o.store) == PARKADE_STORE_OK);
  CHECK(std::string(o.Listed()[0].reason) == "ABORTED");
}

TEST_CASE("a step that fails is listed with its reason, and the next one takes that away") {
  Owner o;
  o.Open();
  REQUIRE(parkade_store_fill(o.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  REQUIRE(o.Step(1, 0, -5) == PARKADE_STORE_E_CALLBACK);
  const wire::LedgerStore s = o.Listed()[0];
  CHECK(wire::StoreState(s.state) == wire::StoreState::kFailed);
  CHECK(s.step == 0);
  CHECK(std::string(s.reason) == "CALLBACK");
  CHECK(std::string(s.message) == "the callback returned -5 for bucket 0");
  REQUIRE(o.Step(1, 0, 0) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_drain(o.store, 20'000) == PARKADE_STORE_OK);
  CHECK(o.Listed()[0].reason[0] == '\0');
  CHECK(wire::StoreState(o.Listed()[0].state) == wire::StoreState::kIdle);
}

TEST_CASE("a torn store is listed as torn") {
  Owner o;
  o.Open();
  REQUIRE(parkade_store_fill(o.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  // More buckets than slots: the fifth is given out only once one before it has been written.
  REQUIRE(o.Step(1, 4, -5) == PARKADE_STORE_E_CALLBACK);
  const wire::LedgerStore s = o.Listed()[0];
  CHECK(wire::StoreState(s.state) == wire::StoreState::kTorn);
  CHECK(std::string(s.reason) == "TORN");
  CHECK(s.message[0] != '\0');
}

}  // namespace
}  // namespace parkade::shim
