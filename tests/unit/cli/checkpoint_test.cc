// `parkade checkpoint` on checkpoints of a made-up model, whole, damaged and half made.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/store/checkpoint_writer.h"
#include "common/store/import_export.h"
#include "tests/unit/cli/runner.h"
#include "tests/unit/common/store/world.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;
using store::Checkpoint;

const std::vector<store::Parameter> kModel = {{"layers.0.weight", {8, 40}, 0}, {"norm", {333}}};
const std::vector<store::Segment> kSegments = {{"main", store::Encoding::kFp32},
                                               {"exp_avg", store::Encoding::kFp32},
                                               {"exp_avg_sq", store::Encoding::kBf16}};

// Checkpoints of two ranks at steps 10 and 20, and what a killed save has left of step 30.
struct Saved {
  Saved() {
    store::Cut cut;
    cut.dp = 2;
    const auto layouts = store::LayoutsOf(kModel, cut, kSegments);
    for (const uint64_t step : {10, 20, 30}) store::Save(base(), step, layouts);
    fs::remove(StepFolder(30) + "/COMPLETE");
  }
  std::string base() const { return scratch.path(); }
  std::string StepFolder(uint64_t step) const { return base() + "/" + store::StepDirectory(step); }
  void Damage(const std::string& file) const {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(50);
    const char byte = char(f.get() ^ 1);
    f.seekp(50);
    f.put(byte);
    REQUIRE(f.good());
  }
  store::Scratch scratch;
};

Outcome Run(std::vector<std::string> words) {
  words.insert(words.begin(), "checkpoint");
  return RunCli(words);
}

TEST_CASE("ls says what is there, whole or not") {
  const Saved saved;
  const Outcome o = Run({"ls", saved.base()});
  CHECK(o.exit_code == 0);
  CHECK(o.err == "");
  CHECK(o.out.find("STEP  RANKS  PARAMETERS") == 0);
  const auto json = nlohmann::json::parse(Run({"ls", saved.base(), "-o", "json"}).out);
  CHECK(json["schema_version"] == 1);
  REQUIRE(json["checkpoints"].size() == 3);
  const auto& twenty = json["checkpoints"][1];
  CHECK(twenty["step"] == 20);
  CHECK(twenty["complete"] == true);
  CHECK(twenty["ranks"] == 2);
  CHECK(twenty["parameters"] == 2);
  CHECK(twenty["elements"] == 8 * 40 + 333);
  CHECK(twenty["encodings"] == "main fp32, exp_avg fp32, exp_avg_sq bf16");
  uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(saved.StepFolder(20))) {
    if (file.path().extension() != ".manifest" && file.path().filename() != "COMPLETE") {
      bytes += file.file_size();
    }
  }
  CHECK(twenty["bytes"] == bytes);
  CHECK(json["checkpoints"][2]["state"] == "incomplete");

  saved.Damage(saved.StepFolder(10) + "/rank-00001.manifest");
  const Outcome damaged = Run({"ls", saved.base()});
  CHECK(damaged.exit_code == kExitDataLoss);
  CHECK(damaged.out.find("rank-00001.manifest") != std::string::npos);
  CHECK(Run({"ls", saved.base() + "/none"}).exit_code == kExitUsage);
}

TEST_CASE("verify reads every byte of the newest, or of one") {
  const Saved saved;
  CHECK(Run({"verify", saved.base()}).out.find("step 20 is whole") == 0);
  saved.Damage(saved.StepFolder(20) + "/rank-00001.bucket-00000");
  const Outcome o = Run({"verify", saved.base()});
  CHECK(o.exit_code == kExitDataLoss);
  CHECK(o.err.find("rank-00001.bucket-00000") != std::string::npos);
  CHECK(Run({"verify", saved.base(), "--step", "10"}).exit_code == 0);
  CHECK(Run({"verify", saved.base(), "--step", "11"}).exit_code == kExitNotFound);
  CHECK(Run({"verify", saved.base(), "--step", "30"}).exit_code == kExitState);
}

TEST_CASE("export writes what an import reads, and no file twice") {
  const Saved saved;
  const std::string file = saved.base() + "/out.safetensors";
  REQUIRE(Run({"export", saved.base(), file, "--step", "10"}).exit_code == 0);
  const auto layout = store::WholeLayout(*Checkpoint::Open(saved.base(), 10), kSegments);
  REQUIRE(layout.ok());
  const auto import = store::TensorImport::Plan({file}, *layout, store::Moments::kRequired);
  REQUIRE(import.ok());
  CHECK(import->step() == 10);
  const Outcome again = Run({"export", saved.base(), file});
  CHECK(again.exit_code != 0);
  CHECK(again.err.find("FILE_EXISTS") != std::string::npos);
}

TEST_CASE("convert keeps every value that its encodings hold, and refuses what is none") {
  const Saved saved;
  const store::Scratch other;
  REQUIRE(Run({"convert", saved.base(), other.path(), "--encoding", "exp_avg_sq=fp32",
               "--bucket-elements", "64"})
              .exit_code == 0);
  const auto before = Checkpoint::Open(saved.base(), 20);
  const auto after = Checkpoint::Open(other.path(), 20);
  REQUIRE(before.ok());
  REQUIRE(after.ok());
  REQUIRE(after->Verify().ok());
  CHECK(after->manifests().size() == 1);
  CHECK(after->manifests()[0].layout.bucket_numel() == 64);
  CHECK(after->manifests()[0].layout.segments()[2].encoding == store::Encoding::kFp32);
  CHECK(store::DecodedOf(*before) == store::DecodedOf(*after));
  for (const char* wrong : {"exp=bf16", "exp_avg=e4m3", "exp_avg", "main=q8"}) {
    INFO(wrong);
    CHECK(Run({"convert", saved.base(), other.path(), "--encoding", wrong, "--step", "10"})
              .exit_code != 0);
    CHECK(!fs::exists(other.path() + "/" + store::StepDirectory(10)));
  }
  CHECK(Run({"convert", saved.base(), other.path()}).exit_code != 0);  // step 20 is there
}

TEST_CASE("prune leaves the newest complete ones") {
  const Saved saved;
  CHECK(Run({"prune", saved.base()}).exit_code == kExitUsage);
  CHECK(Run({"prune", saved.base(), "--keep", "0"}).exit_code == kExitUsage);
  CHECK(Run({"prune", saved.base(), "--keep", "1"}).out == "1 removed\n");
  const auto left = store::ListGenerations(saved.base());
  REQUIRE(left.ok());
  REQUIRE(left->size() == 2);
  CHECK((*left)[0].step == 20);
  CHECK((*left)[1].step == 30);  // newer than the newest complete one: it may be under way
}

}  // namespace
}  // namespace parkade::cli
