// safetensors headers from hell are refused, and state goes out and comes back in bit for bit.
#include "common/store/safetensors.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/store/import_export.h"
#include "tests/unit/common/store/world.h"

namespace parkade::store {
namespace {

namespace fs = std::filesystem;

std::string Refused(const std::string& json, Bytes data_bytes = 24) {
  auto header = ParseTensorHeader(json, data_bytes, "f");
  return header.ok() ? "" : header.error().what;
}

TEST_CASE("a header tells types, shapes and metadata") {
  auto header = ParseTensorHeader(
      R"( {"__metadata__": {"step": "7", "\u00e4\"\n": ""}, "b": {"dtype":"F32","shape":[2,3],)"
      R"("data_offsets":[0,24]}, "e": {"shape":[0,9],"data_offsets":[24,24],"dtype":"BF16"},)"
      R"( "u": {"dtype":"I64","shape":[],"data_offsets":[24,32]}}   )",
      32, "f");
  REQUIRE(header.ok());
  CHECK(header->metadata.at("step") == "7");
  CHECK(header->metadata.count("\xc3\xa4\"\n") == 1);
  REQUIRE(header->tensors.size() == 3);
  CHECK(header->tensors.at("b").type == TensorType::kF32);
  CHECK(header->tensors.at("b").shape == std::vector<uint64_t>{2, 3});
  CHECK(header->tensors.at("u").type == TensorType::kOther);
  CHECK(ParseTensorHeader("{}", 0, "f").ok());
}

TEST_CASE("headers from hell are refused") {
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string("{\"a\":{\"dtype\":\"") + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}}";
  };
  CHECK(Refused(tensor("F32", "[6]", "[0,24]")) == "");
  CHECK(Refused(tensor("F32", "[6]", "[0,24]"), 23) != "");
  for (const auto& [dtype, shape, offsets] : std::vector<std::array<const char*, 3>>{
           {"F32", "[5]", "[0,24]"},
           {"F32", "[6]", "[24,0]"},
           {"F32", "[6]", "[8,32]"},
           {"F32", "[6]", "[0]"},
           {"F32", "[6]", "[0,24,24]"},
           {"F32", "[6]", "[0,-24]"},
           {"F32", "[6]", "[0,24.0]"},
           {"F32", "[6]", "[0,1e1]"},
           {"F32", "[6", "[0,24]"},
           {"F32", "6", "[0,24]"},
           {"F32", "[-6]", "[0,24]"},
           {"F32", "[99999999999999999999]", "[0,24]"},
           {"F32", "[4294967296,4294967296,4294967296]", "[0,24]"},
           {"F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6]", "[0,24]"},
           {"BF16", "[6]", "[0,24]"}}) {
    INFO(dtype << " " << shape << " " << offsets);
    CHECK(Refused(tensor(dtype, shape, offsets)) != "");
  }
  const std::string a = "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}";
  const std::string b = "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[8,20]}";
  CHECK(Refused("{" + a + "," + a + "}").find("twice") != std::string::npos);
  CHECK(Refused("{" + a + "," + b + "}").find("over each other") != std::string::npos);
  for (const char* json :
       {"", "{", "[]", "{}x", "{\"a\"}", "{\"a\":1}", "{\"a\":{}}", "{\"a\":{\"dtype\":\"F32\"}}",
        "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}",
        "{\"__metadata__\":{},\"__metadata__\":{}}", "{\"\\u12\":1}", "{\"\\ud800\":1}",
        "{\"\\u0000\":1}", "{\"\\x\":1}", "{\"a", "{\"a\n\":1}", "{\"a\":{\"offsets\":[0,24]}}",
        "{,}"}) {
    INFO(json);
    CHECK(Refused(json) != "");
  }
  // Every beginning of a good header is none.
  const std::string good = "{" + a + "}";
  for (size_t length = 0; length < good.size(); ++length)
    CHECK(Refused(good.substr(0, length)) != "");
}

TEST_CASE("a file whose header is longer than it, or none at all, is refused") {
  const Scratch scratch;
  const std::string path = scratch.path() + "/t";
  const auto opened = [&path](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    auto file = TensorFile::Open(path);
    return file.ok() ? std::string() : file.error().reason;
  };
  const auto with_length = [](uint64_t length, const std::string& rest) {
    return std::string(reinterpret_cast<const char*>(&length), 8) + rest;
  };
  CHECK(opened("") == "BAD_HEADER");
  CHECK(opened("1234567") == "BAD_HEADER");
  CHECK(opened(with_length(3, "{}")) == "BAD_HEADER");
  CHECK(opened(with_length(~0ull, "{}")) == "BAD_HEADER");
  CHECK(opened(with_length(100'000'001, "{}")) == "BAD_HEADER");
  CHECK(opened(with_length(2, "{}")) == "");
  CHECK_FALSE(TensorFile::Open(scratch.path()).ok());
  CHECK(TensorFile::Open(scratch.path() + "/none").error().os_errno == ENOENT);
}

TEST_CASE("what is written is read, and a header's names keep their odd characters") {
  const Scratch scratch;
  TensorHeader header;
  header.metadata["note"] = "a \"quoted\" \\ line\n";
  header.tensors["w \"1\""] = {TensorType::kF32, {3}};
  header.tensors["none"] = {TensorType::kF32, {0}};
  header.tensors["x"] = {TensorType::kF32, {}};
  auto file = TensorFile::Create(scratch.path() + "/t", header);
  REQUIRE(file.ok());
  const float values[] = {1.5f, -0.0f, 3e-40f};
  REQUIRE(file->Write(file->header().tensors.at("w \"1\""), 0, 3, values).ok());
  REQUIRE(file->Sync().ok());
  auto back = TensorFile::Open(scratch.path() + "/t");
  REQUIRE(back.ok());
  CHECK(back->header().metadata == header.metadata);
  float read[3];
  REQUIRE(back->Read(back->header().tensors.at("w \"1\""), 0, 3, read).ok());
  CHECK(memcmp(read, values, sizeof values) == 0);
  CHECK_FALSE(back->Read(back->header().tensors.at("w \"1\""), 1, 3, read).ok());
  CHECK_FALSE(TensorFile::Create(scratch.path() + "/t", header).ok());
}

const std::vector<Parameter> kModel = {{"w", {40, 60}, 1}, {"b", {701}}, {"s", {}}};
const std::vector<Segment> kWide = {
    {"main", Encoding::kFp32}, {"exp_avg", Encoding::kFp32}, {"exp_avg_sq", Encoding::kFp32}};

TEST_CASE("state goes out as tensors and comes back under another cut bit for bit") {
  const Scratch scratch;
  std::vector<Segment> segments = kWide;
  segments[0].encoding = Encoding::kLo16;
  Save(scratch.path(), 41, LayoutsOf(kModel, {.dp = 2, .tp = 2}, segments));
  auto checkpoint = Checkpoint::Open(scratch.path(), 41);
  REQUIRE(checkpoint.ok());
  const std::string path = scratch.path() + "/out.safetensors";
  REQUIRE(ExportTensors(*checkpoint, path).ok());
  CHECK_FALSE(fs::exists(path + ".tmp"));
  const auto again = ExportTensors(*checkpoint, path);
  REQUIRE_FALSE(again.ok());
  CHECK(std::string(again.error().reason) == "FILE_EXISTS");

  const auto layouts = LayoutsOf(kModel, {.dp = 3, .bucket = 512}, segments);
  std::vector<Buckets> buckets;
  for (const Layout& layout : layouts) {
    auto plan = TensorImport::Plan({path}, layout, Moments::kRequired);
    if (!plan.ok()) FAIL(plan.error().what);
    CHECK(plan->step() == 41);
    auto& mine = buckets.emplace_back(layout.buckets().size());
    for (uint32_t bucket = 0; bucket < mine.size(); ++bucket) {
      REQUIRE(plan->MakeBucket(bucket, mine[bucket].bytes, mine[bucket].state).ok());
    }
  }
  CHECK(Decoded(layouts, buckets) == DecodedOf(*checkpoint));
}

TEST_CASE("an import that lacks something says what, and starts from zero only when asked") {
  const Scratch scratch;
  const Layout layout = LayoutsOf({{"w", {8}}, {"v", {4}}}, {}, kWide)[0];
  int made = 0;
  const auto write = [&](const std::vector<std::string>& names, const std::string& step) {
    TensorHeader header;
    if (!step.empty()) header.metadata["step"] = step;
    for (const std::string& name : names) {
      header.tensors[name] = {TensorType::kF32, {uint64_t(name[0] == 'w' ? 8 : 4)}};
    }
    const std::string path = scratch.path() + "/" + std::to_string(made++);
    REQUIRE(TensorFile::Create(path, header).ok());
    return path;
  };
  const auto planned = [&layout](const std::vector<std::string>& files, Moments moments) {
    auto plan = TensorImport::Plan(files, layout, moments);
    return plan.ok() ? "" : std::string(plan.error().reason) + ": " + plan.error().what;
  };
  const std::vector<std::string> mains = {"w", "v"};
  const std::vector<std::string> moments = {"w.exp_avg", "w.exp_avg_sq", "v.exp_avg",
                                            "v.exp_avg_sq"};
  const std::string only = write(mains, "3"), rest = write(moments, "3");
  CHECK(planned({only, rest}, Moments::kRequired) == "");
  CHECK(planned({only}, Moments::kZero) == "");
  CHECK(planned({only}, Moments::kRequired).starts_with("MISSING_MOMENTS: w.exp_avg: no tensor"));
  CHECK(planned({only, write({"v.exp_avg"}, "3")}, Moments::kZero)
            .starts_with("PARTIAL_MOMENTS: v.exp_avg"));
  CHECK(planned({write({"w"}, "3")}, Moments::kZero).starts_with("NO_SUCH_PARAMETER: v"));
  CHECK(planned({only, only}, Moments::kZero).starts_with("DUPLICATE_NAME: "));
  CHECK(planned({only, write(moments, "4")}, Moments::kRequired).starts_with("NO_STEP: "));
  CHECK(
      planned({write(mains, ""), write(moments, "")}, Moments::kRequired).starts_with("NO_STEP: "));
  CHECK(planned({write(mains, "x"), rest}, Moments::kRequired).starts_with("NO_STEP: "));
  TensorHeader other;
  other.tensors["w"] = {TensorType::kF32, {2, 4}};
  other.tensors["v"] = {TensorType::kF32, {4}};
  REQUIRE(TensorFile::Create(scratch.path() + "/shape", other).ok());
  CHECK(planned({scratch.path() + "/shape"}, Moments::kZero).starts_with("OTHER_SHAPE: w"));
  auto plan = TensorImport::Plan({only}, layout, Moments::kZero);
  REQUIRE(plan.ok());
  CHECK(plan->step() == 0);
}

}  // namespace
}  // namespace parkade::store
