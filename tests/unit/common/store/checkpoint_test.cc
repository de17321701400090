// Checkpoints on disk: published whole or not at all, and refused by file and reason when anything
// in them is not as it was written.
#include "common/store/checkpoint.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/store/bytes_hash.h"
#include "common/store/manifest_bytes.h"
#include "tests/unit/common/store/world.h"

namespace {

// The process ends before this many more system calls that change a file; -1: never.
int calls_left = -1;
void Count() {
  if (calls_left >= 0 && calls_left-- == 0) _exit(42);
}

}  // namespace

// In place of libc's in this program.
extern "C" ssize_t pwrite(int fd, const void* memory, size_t bytes, off_t offset) {
  Count();
  // A write that is cut short by the end.
  if (calls_left == 0) syscall(SYS_pwrite64, fd, memory, bytes / 2, offset);
  Count();
  return syscall(SYS_pwrite64, fd, memory, bytes, offset);
}
// A process that ends loses nothing that was written, so the disk need not be waited for.
extern "C" int fsync(int) {
  Count();
  return 0;
}
extern "C" int fdatasync(int) {
  Count();
  return 0;
}
extern "C" int renameat(int from, const char* old_name, int to, const char* new_name) noexcept {
  Count();
  return int(syscall(SYS_renameat2, from, old_name, to, new_name, 0));
}

namespace parkade::store {
namespace {

namespace fs = std::filesystem;

std::vector<Layout> Small(uint32_t ranks) {
  return LayoutsOf({{"w", {40, 60}, 0}, {"b", {700}}}, {.dp = ranks, .bucket = 1024},
                   {{"main", Encoding::kLo16}, {"exp_avg", Encoding::kQ8First}});
}

std::string Content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void Replace(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// Opens and reads all of it: "" or "REASON: what".
std::string Checked(const std::string& base, uint64_t step) {
  auto checkpoint = Checkpoint::Open(base, step);
  if (!checkpoint.ok())
    return std::string(checkpoint.error().reason) + ": " + checkpoint.error().what;
  auto r = checkpoint->Verify();
  return r.ok() ? "" : std::string(r.error().reason) + ": " + r.error().what;
}

TEST_CASE("a manifest gives back all that was put into it") {
  const Scratch scratch;
  Save(scratch.path(), 12, Small(3));
  auto checkpoint = Checkpoint::Open(scratch.path(), 12);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->Verify().ok());
  CHECK(checkpoint->step() == 12);
  REQUIRE(checkpoint->manifests().size() == 3);
  const auto layouts = Small(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const Manifest& manifest = checkpoint->manifests()[rank];
    CHECK(manifest.rank == rank);
    CHECK(manifest.ranks == 3);
    CHECK(manifest.user == "lr 0.1");
    CHECK(manifest.layout.hash() == layouts[rank].hash());
    CHECK(manifest.layout.entries()[1].name == "b");
    const Buckets buckets = Filled(layouts[rank]);
    for (uint32_t bucket = 0; bucket < buckets.size(); ++bucket) {
      std::vector<uint8_t> bytes;
      REQUIRE(checkpoint->ReadBucket(rank, bucket, bytes).ok());
      CHECK(bytes == buckets[bucket].bytes);
      CHECK(manifest.buckets[bucket].ties == buckets[bucket].state.ties);
      CHECK(manifest.buckets[bucket].weight_sum == buckets[bucket].state.weight_sum);
    }
  }
}

TEST_CASE("one flipped byte anywhere is found, and its file named") {
  const Scratch scratch;
  Save(scratch.path(), 1, Small(2));
  const fs::path directory = fs::path(scratch.path()) / StepDirectory(1);
  uint32_t flips = 0;
  for (const auto& file : fs::directory_iterator(directory)) {
    const std::string good = Content(file.path());
    const std::string name = file.path().filename();
    const size_t step = name.find("bucket") != name.npos ? 1021 : 13;
    for (size_t at = 0; at < good.size(); at += step, ++flips) {
      std::string bad = good;
      bad[at] = char(bad[at] ^ 4);
      Replace(file.path(), bad);
      const std::string found = Checked(scratch.path(), 1);
      INFO("byte " << at << " of " << name);
      REQUIRE(found.find(name) != found.npos);
      if (name.find("bucket") == name.npos) continue;
      REQUIRE(found.find("block " + std::to_string(at / kHashBlock) + " ") != found.npos);
    }
    Replace(file.path(), good);
  }
  CHECK(flips > 100);
  CHECK(Checked(scratch.path(), 1) == "");
}

TEST_CASE("a damaged block tells which parameter lies there") {
  const Scratch scratch;
  Save(scratch.path(), 1,
       LayoutsOf({{"first", {1 << 20}}, {"second", {1 << 20}}}, {.bucket = 1 << 22},
                 {{"main", Encoding::kFp32}}));
  const fs::path path = fs::path(scratch.path()) / StepDirectory(1) / BucketFile(0, 0);
  std::string content = Content(path);
  content[5 << 20] ^= 1;
  Replace(path, content);
  const std::string found = Checked(scratch.path(), 1);
  CHECK(found.find("block 2 ") != found.npos);
  CHECK(found.find("main of second") != found.npos);
}

TEST_CASE("files cut short, missing or swapped are refused by name") {
  const Scratch scratch;
  Save(scratch.path(), 1, Small(2));
  const fs::path directory = fs::path(scratch.path()) / StepDirectory(1);
  for (const auto& file : fs::directory_iterator(directory)) {
    const std::string good = Content(file.path()), name = file.path().filename();
    INFO(name);
    for (const size_t length :
         {size_t{0}, size_t{1}, size_t{200}, good.size() / 2, good.size() - 1}) {
      if (length >= good.size()) continue;
      Replace(file.path(), good.substr(0, length));
      CHECK(Checked(scratch.path(), 1).find(name) != std::string::npos);
    }
    Replace(file.path(), good + "x");
    CHECK(Checked(scratch.path(), 1).find(name) != std::string::npos);
    fs::remove(file.path());
    CHECK(Checked(scratch.path(), 1).find(name) != std::string::npos);
    fs::create_symlink("/dev/null", file.path());
    CHECK(Checked(scratch.path(), 1).find(name) != std::string::npos);
    fs::remove(file.path());
    Replace(file.path(), good);
  }
  REQUIRE(Checked(scratch.path(), 1) == "");
  const auto swapped = [&](const std::string& a, const std::string& b) {
    const std::string content_a = Content(directory / a), content_b = Content(directory / b);
    Replace(directory / a, content_b);
    Replace(directory / b, content_a);
    const std::string found = Checked(scratch.path(), 1);
    Replace(directory / a, content_a);
    Replace(directory / b, content_b);
    return found;
  };
  CHECK(swapped(ManifestFile(0), ManifestFile(1)).starts_with("OTHER_RANK: "));
  CHECK(swapped(BucketFile(0, 0), BucketFile(1, 0))
            .starts_with("DAMAGED_BLOCK: rank-00000.bucket-00000"));
  // A whole manifest of another save of the same rank.
  const Scratch other;
  Save(other.path(), 2, Small(2));
  const std::string mine = Content(directory / ManifestFile(1));
  Replace(directory / ManifestFile(1),
          Content(fs::path(other.path()) / StepDirectory(2) / ManifestFile(1)));
  CHECK(Checked(scratch.path(), 1).starts_with("OTHER_MANIFEST: "));
  Replace(directory / ManifestFile(1), mine);
  fs::remove(directory / kCompleteFile);
  CHECK(Checked(scratch.path(), 1).starts_with("INCOMPLETE: "));
}

TEST_CASE("numbers that do not fit each other are refused even under a right digest") {
  Digest digest;
  const auto layouts = Small(2);
  Manifest manifest = {.step = 1, .rank = 1, .ranks = 2, .layout = layouts[0]};
  for (const Bucket& bucket : layouts[0].buckets()) {
    manifest.buckets.push_back({0, 0, std::vector<Digest>(HashBlocksIn(bucket.saved_bytes))});
  }
  const std::string good = *PackManifest(manifest, digest);
  REQUIRE(ParseManifest(good, "m", digest).ok());
  // Every 32-bit word of the numbers in turn becomes large, and then the digest right again.
  size_t refused = 0, tried = 0;
  for (size_t at = 8; at + 4 <= good.size(); at += 4) {
    if (at >= 24 && at < 40) continue;
    for (const uint32_t value : {0xffffffffu, 0x7fffffffu, 1000u}) {
      std::string bad = good;
      memcpy(&bad[at], &value, sizeof value);
      memset(&bad[24], 0, 16);
      const Digest right = HashBytes(bad);
      memcpy(&bad[24], &right, sizeof right);
      auto parsed = ParseManifest(bad, "m", digest);
      ++tried;
      refused += !parsed.ok();
      // What is accepted can be packed and read again.
      if (parsed.ok()) REQUIRE(ParseManifest(*PackManifest(*parsed, digest), "m", digest).ok());
    }
  }
  CHECK(refused > tried / 4);
}

TEST_CASE("ended at any system call of a save, the base has the old checkpoint or the new one") {
  const auto layouts = Small(2);
  const auto save = [&layouts](const std::string& base, uint64_t step) {
    for (uint32_t rank = 0; rank < layouts.size(); ++rank) {
      const Buckets buckets = Filled(layouts[rank]);
      auto writer = CheckpointWriter::Begin(
          base, {.step = step, .rank = rank, .ranks = 2, .layout = layouts[rank]});
      if (!writer.ok()) _exit(1);
      for (uint32_t i = 0; i < buckets.size(); ++i) {
        if (!writer
                 ->WriteBucket(i, buckets[i].bytes.data(), buckets[i].state.ties,
                               buckets[i].state.weight_sum)
                 .ok())
          _exit(2);
      }
      if (!writer->Publish().ok() || !CompleteCheckpoint(base, step).ok()) _exit(3);
    }
    if (!PruneGenerations(base, 1).ok()) _exit(4);
  };
  bool ended = false;
  int olds = 0, news = 0;
  for (int calls = 0; !ended; ++calls) {
    const Scratch scratch;
    Save(scratch.path(), 5, layouts);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      calls_left = calls;
      save(scratch.path(), 6);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    ended = WEXITSTATUS(status) == 0;
    REQUIRE((ended || WEXITSTATUS(status) == 42));
    INFO("ended before call " << calls);
    auto generations = ListGenerations(scratch.path());
    REQUIRE(generations.ok());
    uint64_t newest = 0;
    for (const Generation& generation : *generations) {
      if (generation.complete) newest = generation.step;
    }
    REQUIRE(Checked(scratch.path(), newest) == "");
    (newest == 5 ? olds : news) += 1;
    // Saving once more goes over what was left.
    if (newest == 5) {
      Save(scratch.path(), 6, layouts);
      REQUIRE(Checked(scratch.path(), 6) == "");
    }
  }
  CHECK(olds > 10);
  CHECK(news >= 1);
}

TEST_CASE("what another attempt at the same step left is never a part of this one") {
  const Scratch scratch;
  const auto layouts = Small(2);
  const auto save = [&](uint32_t rank, uint64_t set) {
    auto writer = CheckpointWriter::Begin(
        scratch.path(), {.step = 4, .rank = rank, .ranks = 2, .set = set, .layout = layouts[rank]});
    REQUIRE(writer.ok());
    const Buckets buckets = Filled(layouts[rank]);
    for (uint32_t i = 0; i < buckets.size(); ++i) {
      REQUIRE(writer->WriteBucket(i, buckets[i].bytes.data(), 0, 0).ok());
    }
    REQUIRE(writer->Publish().ok());
    auto complete = CompleteCheckpoint(scratch.path(), 4);
    REQUIRE(complete.ok());
    return *complete;
  };
  CHECK_FALSE(save(1, 7));
  CHECK_FALSE(save(0, 8));
  CHECK(Checked(scratch.path(), 4).starts_with("INCOMPLETE: "));
  CHECK(save(1, 8));
  CHECK(Checked(scratch.path(), 4) == "");
}

TEST_CASE("old generations go, and an unfinished newer one stays") {
  const Scratch scratch;
  const auto layouts = Small(1);
  for (const uint64_t step : {1, 2, 3, 4, 5, 6}) Save(scratch.path(), step, layouts);
  const fs::path base = scratch.path();
  fs::remove(base / StepDirectory(2) / kCompleteFile);
  fs::remove(base / StepDirectory(6) / kCompleteFile);
  fs::create_directory(base / "step-7");
  fs::create_directory(base / "other");
  auto removed = PruneGenerations(scratch.path(), 2);
  REQUIRE(removed.ok());
  CHECK(*removed == 3);  // 1, 2 and 3
  auto left = ListGenerations(scratch.path());
  REQUIRE(left.ok());
  REQUIRE(left->size() == 3);
  CHECK((*left)[0].step == 4);
  CHECK((*left)[1].step == 5);
  CHECK((*left)[2].step == 6);
  CHECK_FALSE((*left)[2].complete);
  CHECK(fs::exists(base / "other"));
  // Somebody else's file in a generation keeps its directory, and is said.
  Replace(base / StepDirectory(4) / "notes.txt", "mine");
  CHECK_FALSE(PruneGenerations(scratch.path(), 1).ok());
  CHECK(fs::exists(base / StepDirectory(4) / "notes.txt"));
  CHECK(Checked(scratch.path(), 5) == "");
}

TEST_CASE("a complete checkpoint is not written over, and one without all buckets not published") {
  const Scratch scratch;
  const auto layouts = Small(1);
  Save(scratch.path(), 1, layouts);
  auto again = CheckpointWriter::Begin(scratch.path(), {.step = 1, .layout = layouts[0]});
  REQUIRE_FALSE(again.ok());
  CHECK(std::string(again.error().reason) == "COMPLETE_ALREADY");
  REQUIRE(RemoveGeneration(scratch.path(), 1).ok());
  CHECK(Checkpoint::Open(scratch.path(), 1).error().os_errno == ENOENT);
  Save(scratch.path(), 1, layouts);
  auto writer = CheckpointWriter::Begin(scratch.path(), {.step = 2, .layout = layouts[0]});
  REQUIRE(writer.ok());
  auto r = writer->Publish();
  REQUIRE_FALSE(r.ok());
  CHECK(std::string(r.error().reason) == "MISSING_BUCKET");
  CHECK_FALSE(writer->AddBucket(0, {}).ok());
  CHECK_FALSE(writer->AddBucket(99, {}).ok());
  auto nowhere =
      CheckpointWriter::Begin(scratch.path() + "/none", {.step = 2, .layout = layouts[0]});
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().os_errno == ENOENT);
}

}  // namespace
}  // namespace parkade::store
