// fuzz_seeds DIR: writes a corpus for each fuzz target, DIR/packet, DIR/ledger and so on: inputs
// that are right, for the fuzzer to make wrong.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/store/manifest.h"
#include "common/text.h"
#include "daemon/journal_file.h"
#include "daemon/journal_record.h"
#include "daemon/status.h"
#include "proto/ledger.h"
#include "proto/scratch.h"
#include "proto/wire.h"

namespace {

using namespace parkade;

std::string dir;

void Seed(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(dir + "/" + target);
  std::ofstream(dir + "/" + target + "/" + name, std::ios::binary) << bytes;
}

template <typename T>
std::string BytesOf(const T& t) {
  return {reinterpret_cast<const char*>(&t), sizeof t};
}

// `fds`: how many descriptors come with it.
template <typename M>
void Packet(const std::string& name, const M& message, char fds = 0) {
  Seed("packet", name, std::string(1, fds) + BytesOf(message));
}

void Packets() {
  auto hello = wire::Make<wire::Hello>();
  hello.version = hello.oldest_accepted = wire::kVersion;
  hello.pid = 4711;
  hello.rank = 3;
  hello.default_policy = uint32_t(wire::Policy::kAuto);
  CopyText(hello.boot_id, "00000000-0000-4000-8000-000000000000");
  CopyText(hello.job, "rl");
  CopyText(hello.wanted_scratch_base, "/scratch/parkade_7");
  Packet("hello", hello, 2);
  auto reply = wire::Make<wire::Reply>(7);
  reply.state = uint32_t(wire::ProcessState::kPaused);
  Packet("reply", reply);
  reply.code = uint32_t(Code::kResourceExhausted);
  CopyText(reply.reason, "GPU_MEMORY");
  CopyText(reply.message, "no room");
  Packet("reply-error", reply);
  auto commit = wire::Make<wire::Commit>(8);
  commit.policy = uint32_t(wire::Policy::kDisk);
  commit.disk_bytes = 4096;
  commit.chunk_bytes = 16 << 20;
  commit.block_bytes = 4 << 20;
  commit.depth = 8;
  commit.has_lock = commit.file_count = commit.tag_count = 1;
  CopyText(commit.tags[0].tag, "weights");
  Packet("commit", commit, 2);
  Packet("welcome", wire::Make<wire::Welcome>());
  Packet("refusal", wire::Make<wire::Refusal>());
  Packet("prepare", wire::Make<wire::Prepare>(9));
  auto let_through = wire::Make<wire::LetThrough>(9);
  let_through.calls = wire::kMostLetThrough;
  Packet("let_through", let_through);
  Packet("abort", wire::Make<wire::Abort>(9));
  auto resume = wire::Make<wire::Resume>(9);
  resume.gate_mode = uint32_t(wire::GateMode::kOpen);
  resume.tag_count = 1;
  CopyText(resume.tags[0], "weights");
  Packet("resume", resume);
  Packet("want", wire::Make<wire::Want>(9));
  Packet("holders", wire::Make<wire::Holders>(9));
  Packet("warm", wire::Make<wire::Warm>(9));
  Packet("ask_warm", wire::Make<wire::AskWarm>());
  auto ask_turn = wire::Make<wire::AskTurn>(9);
  ask_turn.work = 1;
  ask_turn.bytes[0] = 80'000'000'000;
  Packet("ask_turn", ask_turn);
  Packet("no_turn", wire::Make<wire::NoTurn>(9));
  Packet("verify", wire::Make<wire::Verify>(9));
  Packet("shift", wire::Make<wire::Shift>(9));
  Packet("wrong_block", wire::Make<wire::WrongBlock>(9));
  Packet("release", wire::Make<wire::ReleaseHost>(9));
}

void Ledgers() {
  wire::LedgerHeader h{};
  h.magic = wire::kLedgerMagic;
  h.version = wire::kLedgerVersion;
  h.header_bytes = wire::kLedgerHeaderBytes;
  h.record_bytes = sizeof(wire::LedgerRecord);
  h.capacity = 8;
  h.state = uint64_t(wire::ProcessState::kRunning);
  CopyText(h.text, "policy=host (default)\nwarning: none\n");
  Seed("ledger", "empty", BytesOf(h));
  h.used_slots = 2;
  wire::LedgerRecord r{};
  r.used = 1;
  r.base = 0x7f00'0000'0000;
  r.bytes = 5 << 20;
  r.allocation_class = uint32_t(wire::AllocationClass::kPausable);
  r.place = uint32_t(wire::Place::kGpu);
  CopyText(r.tag, "default");
  Seed("ledger", "two", BytesOf(h) + BytesOf(r) + BytesOf(r));
}

std::string Spelled(const std::string& text) { return char(text.size()) + text; }

void Scratches() {
  wire::OwnerRecord owner{wire::kOwnerMagic, 1, 4711, geteuid(), 77, 4026531836, {}};
  CopyText(owner.boot_id, "00000000-0000-4000-8000-000000000000");
  const std::string name = "p4711-0123456789abcdef01234567";
  Seed("scratch", "owner", BytesOf(owner));
  Seed("scratch", "name", name);
  for (const std::string file : {"data.0", "lock", "checkpoint"}) {
    // The length decides whether the owner lives.
    for (int pad = 0; pad < 3; ++pad) {
      Seed("scratch", "sweep-" + file + std::to_string(pad),
           "\1" + Spelled(name) + Spelled(BytesOf(owner)) + Spelled(file) +
               Spelled(std::string(size_t(pad), 'x')));
    }
  }
}

void Journals() {
  daemon::RememberedProcess process;
  process.identity = {4026531836, 4711, 77,  "00000000-0000-4000-8000-000000000000",
                      4711,       1000, 100, true};
  process.introduction.job = "rl";
  process.introduction.rank = 3;
  daemon::BegunOperation operation;
  operation.parties = {{process.identity, true}, {process.identity, false}};
  operation.parts.tags = {"weights", "kv_cache"};
  daemon::GivenAnswer done{"uid 1000", "swap-6", "body", daemon::Outcomes(2)};
  daemon::GivenAnswer failed{
      "uid 1000", "swap-5", "",
      daemon::Fail(absl::StatusCode::kUnavailable, "PROCESS_ENDED", "it has ended")};
  daemon::Group group;
  group.name = "rollout";
  group.owner = "uid 1000";
  group.selector.role = "rollout";
  group.selector.ranks = {0, 1};
  group.policies.by_tag["kv_cache"] = wire::Policy::kDiscard;
  done.report = {daemon::Outcome{}};
  done.report[0].wrong_blocks = {{0x7f0000000000, 4096, 1, true, 2, 8192, true}};
  const daemon::Reservation reservation{"m3-8", "uid 1000", "trainer", "GPU-a", 4096, 77, 4711, 7};
  const std::vector<std::string> records{daemon::Pack(process),
                                         daemon::Pack(operation),
                                         daemon::Pack(done),
                                         daemon::Pack(failed),
                                         daemon::Pack(group),
                                         daemon::Pack(reservation),
                                         daemon::Pack(daemon::BudgetLimits{"rl", 4096, {}})};
  for (size_t i = 0; i < records.size(); ++i) Seed("journal", std::to_string(i), records[i]);
  if (!daemon::JournalFile::Replace(dir + "/journal/file", records).ok()) exit(1);
}

void Texts() {
  Seed(
      "config", "all",
      "[daemon]\nruntime_dir = '/run/parkade'\nlog_level = \"info\"\n[host]\nbudget = '512GiB'\n"
      "[scratch]\ndirs = ['/nvme/parkade', \"/nvme2\"]\nallow_tmpfs = ['/nvme2']\n"
      "[tcp]\nlisten = 'a:1'\ncertificate = '/c'\nkey = '/k'\nclient_ca = '/a'\nclients = ['x']\n");
  Seed("config", "wrong", "[daemon]\nport = 7\n[[x]]\n\"\\u00e9\" = 1979-05-27T07:32:00Z\n");
  Seed("config", "groups",
       "[groups.rollout]\nrole = 'rollout'\nranks = [0, 1]\npolicy = 'disk'\n"
       "tags = { kv_cache = 'discard', weight = 'host' }\n[groups.none]\n");
  Seed("config", "size", "512MiB");
  Seed("config", "mounts",
       "31 24 0:40 / /m rw shared:9 - overlay overlay "
       "rw,lowerdir=/l,upperdir=/a\\040b,workdir=/w\n");
}

void Stores() {
  using namespace parkade::store;
  Manifest manifest = {.step = 7, .seed = 1, .rank = 1, .ranks = 2};
  auto layout = Layout::Make({{.name = "layers.0.weight",
                               .global_shape = {8, 64},
                               .tp_axis = 1,
                               .tp_offset = 32,
                               .local_shape = {8, 32},
                               .flat_end = 256},
                              {.name = "norm",
                               .global_shape = {64},
                               .local_shape = {64},
                               .flat_begin = 5,
                               .flat_end = 64}},
                             {{"main", Encoding::kLo16}, {"exp_avg", Encoding::kQ8First}}, 128);
  if (!layout.ok()) abort();
  for (const Bucket& bucket : layout->buckets()) {
    manifest.buckets.push_back({9, 1, std::vector<Digest>(HashBlocksIn(bucket.saved_bytes))});
  }
  manifest.layout = std::move(*layout);
  manifest.user = "lr";
  Digest digest;
  Seed("store", "manifest", *PackManifest(manifest, digest));
  Seed("store", "tensors",
       R"({"__metadata__":{"step":"7"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
       R"("v.exp_avg":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  Packets();
  Ledgers();
  Scratches();
  Journals();
  Texts();
  Stores();
  return 0;
}
