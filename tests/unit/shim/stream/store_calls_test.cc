// The C functions of stores: what they refuse, and how, and that a step by them is the engine's.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/store/checkpoint.h"
#include "common/store/import_export.h"
#include "shim/stream/store_options.h"
#include "shim/stream/stores.h"
#include "tests/unit/shim/stream/stream_fixture.h"

namespace parkade::shim {
namespace {

constexpr parkade_store_adam kHyper = {sizeof kHyper, 0, 0.01, 0.9, 0.999, 1e-8, 0.1, 0};

// A process with one tensor of 5000 elements, and what opens a store of it.
struct Caller {
  Caller() { Stores::SetLive(&surroundings); }
  ~Caller() {
    if (store != nullptr) parkade_store_close(store, 0);
    Stores::SetLive(nullptr);
  }
  int Open() { return parkade_store_open(&options, &entry, 1, &store); }
  std::string Said(bool of_store = true) const {
    char text[256];
    parkade_store_last_error(of_store ? store : nullptr, text, sizeof text);
    return text;
  }

  StreamProcess p;
  const StepEngine::Surroundings surroundings{p.fake.driver(), p.contexts, p.pool, *p.ledger};
  std::vector<float> weight = std::vector<float>(5000, 0.5f),
                     gradient = std::vector<float>(5000, 1);
  const uint64_t shape = 5000;
  const char* const directory = p.dir.path().c_str();
  parkade_store_entry entry = {sizeof entry,
                               1,
                               "w",
                               &shape,
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
  parkade_store_options options = [this] {
    parkade_store_options o = {};
    o.struct_size = sizeof o;
    o.flags = PARKADE_STORE_IN_MEMORY;
    o.directories = &directory;
    o.directory_count = 1;
    o.bucket_elements = 1024;
    return o;
  }();
  parkade_store* store = nullptr;
};

TEST_CASE("a whole life by the C functions") {
  Caller c;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  REQUIRE(parkade_store_fill(c.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_step_adam(c.store, 1, nullptr, &kHyper, 1, 1.0f, 1) == PARKADE_STORE_OK);
  // Bias correction makes the first step lr times the gradient's sign.
  CHECK(c.weight[4999] == Approx(0.5 * (1 - 0.001) - 0.01).margin(1e-6));
  struct Seen {
    uint64_t elements = 0;
    uint32_t buckets = 0;
    bool right = true;
  } seen;
  const auto look = [](const parkade_store_bucket* b, void* user) {
    auto& s = *static_cast<Seen*>(user);
    s.right = s.right && b->bucket == s.buckets && b->segment_count == 3 && b->step == 2 &&
              b->fills == 0 && b->piece_count == 1 && b->pieces[0].user_tag == 7;
    ++s.buckets;
    s.elements += b->pieces[0].elements;
    return 0;
  };
  REQUIRE(parkade_store_step_run(c.store, 2, nullptr, look, &seen) == PARKADE_STORE_OK);
  CHECK(seen.right);
  CHECK(seen.elements == 5000);
  REQUIRE(parkade_store_drain(c.store, 20'000) == PARKADE_STORE_OK);
  parkade_store_stats stats = {};
  stats.struct_size = sizeof stats;
  REQUIRE(parkade_store_stats_get(c.store, &stats) == PARKADE_STORE_OK);
  CHECK(stats.committed == 2);
  CHECK(stats.buckets == seen.buckets);
  CHECK(stats.read_bytes > 0);
  REQUIRE(parkade_store_close(c.store, 1) == PARKADE_STORE_OK);
  c.store = nullptr;
  c.options.flags |= PARKADE_STORE_KEPT;
  for (const uint32_t other : {PARKADE_STORE_ROTATE, PARKADE_STORE_SHADOW}) {
    c.options.redundancy = other;
    CHECK(c.Open() < 0);
  }
  c.options.redundancy = PARKADE_STORE_INPLACE;
  c.options.bucket_elements = 2048;
  CHECK(c.Open() == PARKADE_STORE_E_LAYOUT);
  c.options.bucket_elements = 1024;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  CHECK(parkade_store_step_begin(c.store, 2, nullptr) == PARKADE_STORE_E_STEP);
  CHECK(parkade_store_step_begin(c.store, 3, nullptr) == PARKADE_STORE_OK);
  CHECK(parkade_store_step_abort(c.store) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_close(c.store, 0) == PARKADE_STORE_OK);
  c.store = nullptr;
  CHECK(testing::Entries(c.p.dir.path()) == 0);
}

TEST_CASE("what is wrong is refused with a code and a sentence") {
  Caller c;
  const auto refused = [&c](int code, const char* says) {
    CHECK(c.Open() == code);
    CHECK(c.store == nullptr);
    INFO(c.Said(false));
    CHECK(c.Said(false).find(says) != std::string::npos);
  };
  c.options.name = "a/b";
  refused(PARKADE_STORE_E_INVAL, "name");
  c.options.name = nullptr;
  c.options.chunk_bytes = 1000;
  refused(PARKADE_STORE_E_INVAL, "4096");
  c.options.chunk_bytes = 0;
  c.options.device_budget = 1;
  refused(PARKADE_STORE_E_NOSPACE, "smallest");
  c.options.device_budget = 0;
  c.options.flags = PARKADE_STORE_IN_MEMORY | PARKADE_STORE_KEPT;
  refused(PARKADE_STORE_E_STATE, "no store");
  c.options.flags = 1u << 31;
  refused(PARKADE_STORE_E_INVAL, "flag");
  c.options.flags = PARKADE_STORE_IN_MEMORY;
  const parkade_store_segment fp8 = {sizeof fp8, 0, "exp_avg_sq", "e4m3"};
  c.options.segments = &fp8;
  c.options.segment_count = 1;
  refused(PARKADE_STORE_E_INVAL, "");
  const parkade_store_segment lo16 = {sizeof lo16, 0, "main", "lo16"};
  c.options.segments = &lo16;
  refused(PARKADE_STORE_E_INVAL, "bf16");
  c.options.segment_count = 0;
  c.entry.flat_end = 6000;
  refused(PARKADE_STORE_E_INVAL, "w");
  c.entry.flat_end = 0;
  c.options.struct_size = 2;
  refused(PARKADE_STORE_E_INVAL, "struct_size");
  CHECK(testing::Entries(c.p.dir.path()) == 0);
  CHECK(c.p.fake.used(0) == 0);
  CHECK(parkade_store_submit(nullptr, 0) == PARKADE_STORE_E_INVAL);
}

TEST_CASE("a callback may not call its store, and what it returns ends the step") {
  Caller c;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  REQUIRE(parkade_store_fill(c.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  const auto call = [](const parkade_store_bucket*, void* store) {
    return parkade_store_step_end(static_cast<parkade_store*>(store)) == PARKADE_STORE_E_BUSY ? -77
                                                                                              : 0;
  };
  CHECK(parkade_store_step_run(c.store, 1, nullptr, call, c.store) == PARKADE_STORE_E_CALLBACK);
  CHECK(c.Said().find("-77") != std::string::npos);
  // Nothing had been written.
  CHECK(parkade_store_step_adam(c.store, 1, nullptr, &kHyper, 1, 1.0f, 0) == PARKADE_STORE_OK);
}

TEST_CASE("gradients that are not finite skip the step, which can be made again") {
  Caller c;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  REQUIRE(parkade_store_fill(c.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  c.gradient[17] = INFINITY;
  CHECK(parkade_store_step_adam(c.store, 1, nullptr, &kHyper, 1, 1.0f, 1) ==
        PARKADE_STORE_E_NONFINITE);
  CHECK(c.weight[17] == 0.5f);
  c.gradient[17] = 1;
  CHECK(parkade_store_step_adam(c.store, 1, nullptr, &kHyper, 1, 1.0f, 1) == PARKADE_STORE_OK);
  CHECK(parkade_store_set_tensors(c.store, 0, c.weight.data(), PARKADE_STORE_F32, nullptr,
                                  PARKADE_STORE_NONE) == PARKADE_STORE_OK);
  CHECK(parkade_store_step_adam(c.store, 2, nullptr, &kHyper, 1, 1.0f, 1) == PARKADE_STORE_E_INVAL);
}

TEST_CASE("checkpoints by the C functions: saved, refused, loaded, imported") {
  const testing::TestDir base, elsewhere;
  Caller c;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  parkade_store_save_options save = {};
  save.struct_size = sizeof save;
  const std::string folder = base.path(), nowhere = elsewhere.path();
  save.directory = folder.c_str();
  save.set = 4711;
  save.user = "lr=1";
  save.user_bytes = 4;
  CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_STATE);  // not filled
  CHECK(parkade_store_save_wait(c.store, 0) == PARKADE_STORE_E_STATE);
  REQUIRE(parkade_store_fill(c.store, 0, nullptr, nullptr, nullptr) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_step_adam(c.store, 1, nullptr, &kHyper, 1, 1.0f, 0) == PARKADE_STORE_OK);
  const std::vector<float> at_one = c.weight;

  for (const auto& [field, wrong] :
       {std::pair{&save.rank, 3u}, std::pair{&save.ranks, 9'000'000u}}) {
    const uint32_t right = *field;
    *field = wrong;
    CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_INVAL);
    *field = right;
  }
  save.ranks = 2;
  save.set = 0;
  CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_INVAL);
  save.ranks = 1;
  save.set = 4711;
  save.directory = "relative";
  CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_INVAL);
  save.directory = "/does/not/exist";
  CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_IO);
  save.directory = folder.c_str();

  // Two ranks: the first one's part is whole, and no checkpoint yet.
  save.ranks = 2;
  REQUIRE(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_save_wait(c.store, -1) == 0);
  parkade_store_load_options load = {};
  load.struct_size = sizeof load;
  load.directory = folder.c_str();
  CHECK(parkade_store_load(c.store, &load, nullptr) == PARKADE_STORE_E_STATE);
  CHECK(c.Said().find("no complete checkpoint") != std::string::npos);
  save.ranks = 1;
  REQUIRE(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_OK);
  REQUIRE(parkade_store_save_wait(c.store, -1) == 1);
  CHECK(parkade_store_save(c.store, &save, nullptr) == PARKADE_STORE_E_STATE);  // it is there
  CHECK(parkade_store_load(c.store, &load, nullptr) == PARKADE_STORE_E_STEP);   // it is filled
  REQUIRE(parkade_store_step_adam(c.store, 2, nullptr, &kHyper, 1, 1.0f, 0) == PARKADE_STORE_OK);
  const std::vector<float> at_two = c.weight;
  REQUIRE(parkade_store_close(c.store, 0) == PARKADE_STORE_OK);
  c.store = nullptr;

  // Another name of the parameter, and a flipped byte: refused, and no weight is touched.
  const std::vector<float> before = c.weight;
  c.entry.name = "v";
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  CHECK(parkade_store_load(c.store, &load, nullptr) < 0);
  CHECK(c.Said().find("v") != std::string::npos);
  REQUIRE(parkade_store_close(c.store, 0) == PARKADE_STORE_OK);
  c.store = nullptr;
  c.entry.name = "w";
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  const std::string file = folder + "/step-000000000001/rank-00000.bucket-00004";
  const auto flip = [&file] {
    const Fd fd(open(file.c_str(), O_RDWR));
    char byte;
    REQUIRE(pread(fd.get(), &byte, 1, 100) == 1);
    byte = char(byte ^ 1);
    REQUIRE(pwrite(fd.get(), &byte, 1, 100) == 1);
  };
  flip();
  CHECK(parkade_store_load(c.store, &load, nullptr) == PARKADE_STORE_E_CORRUPT);
  CHECK(c.Said().find("bucket-00004") != std::string::npos);
  CHECK(c.weight == before);
  flip();
  load.flags = 64;
  CHECK(parkade_store_load(c.store, &load, nullptr) == PARKADE_STORE_E_INVAL);
  load.flags = PARKADE_STORE_THIS_STEP;  // of step 0 there is none
  CHECK(parkade_store_load(c.store, &load, nullptr) < 0);
  load.flags = 0;
  load.directory = nowhere.c_str();
  CHECK(parkade_store_load(c.store, &load, nullptr) < 0);
  load.directory = folder.c_str();
  REQUIRE(parkade_store_load(c.store, &load, nullptr) == PARKADE_STORE_OK);
  CHECK(c.weight == at_one);
  REQUIRE(parkade_store_step_adam(c.store, 2, nullptr, &kHyper, 1, 1.0f, 0) == PARKADE_STORE_OK);
  CHECK(c.weight == at_two);
  REQUIRE(parkade_store_close(c.store, 0) == PARKADE_STORE_OK);
  c.store = nullptr;

  // The same by whole tensors.
  const std::string tensors = elsewhere.path() + "/tensors.safetensors";
  const auto checkpoint = store::Checkpoint::Open(folder, 1);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->manifests()[0].user == "lr=1");
  REQUIRE(store::ExportTensors(*checkpoint, tensors).ok());
  c.weight.assign(c.weight.size(), 0);
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  const char* const files[] = {tensors.c_str()};
  CHECK(parkade_store_import(c.store, files, 0, 0, nullptr) == PARKADE_STORE_E_INVAL);
  CHECK(parkade_store_import(c.store, files, 1, PARKADE_STORE_ZERO_MOMENTS, nullptr) ==
        PARKADE_STORE_E_STATE);
  REQUIRE(parkade_store_import(c.store, files, 1, 0, nullptr) == PARKADE_STORE_OK);
  CHECK(c.weight == at_one);
  REQUIRE(parkade_store_step_adam(c.store, 2, nullptr, &kHyper, 1, 1.0f, 0) == PARKADE_STORE_OK);
  CHECK(c.weight == at_two);
}

TEST_CASE("a forked child must not use its parent's store, and does not keep it locked") {
  Caller c;
  REQUIRE(c.Open() == PARKADE_STORE_OK);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Stores::AbandonAfterFork();
    const bool refused = parkade_store_drain(c.store, 0) == PARKADE_STORE_E_STATE;
    char byte;
    close(ends[1]);
    const bool told = read(ends[0], &byte, 1) == 0;  // the parent has opened another one
    _exit(refused && told ? 0 : 1);
  }
  close(ends[0]);
  CHECK(parkade_store_close(c.store, 0) == PARKADE_STORE_OK);
  c.store = nullptr;
  CHECK(c.Open() == PARKADE_STORE_OK);
  close(ends[1]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace parkade::shim
