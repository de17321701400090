// The journal: what comes back after a death at any byte, and after what cannot be read or written.
#include "daemon/journal.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "daemon/status.h"
#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;
using parkade::testing::TestDir;
using wire::ProcessState;

namespace {

constexpr char kBoot[] = "this-boot";

Identity Number(int pid) {
  Identity identity;
  identity.pid_namespace = 4;
  identity.pid = identity.own_pid = pid;
  identity.start_ticks = 99;
  identity.boot_id = kBoot;
  identity.uid = 7;
  identity.visible = true;
  return identity;
}

Event StateOf(int pid, ProcessState state, Event::Kind kind = Event::Kind::kState) {
  ProcessView view;
  view.identity = Number(pid);
  view.introduction.job = "train";
  view.introduction.rank = pid;
  view.state = state;
  return {kind, 0, view};
}

BegunOperation PauseOf(std::vector<int> pids) {
  BegunOperation operation;
  for (const int pid : pids) operation.parties.push_back({Number(pid), pid == 1});
  return operation;
}

std::string Content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

const DeepMark kMark{DeepMark::State::kDeep, {{"GPU-1", 620}}};

// Some of everything.
void Fill(Journal& journal) {
  journal.Note(StateOf(1, ProcessState::kRunning, Event::Kind::kAppeared));
  journal.Note(StateOf(2, ProcessState::kRunning, Event::Kind::kAppeared));
  const uint64_t first = journal.Begin(PauseOf({1, 2}));
  Event deep = StateOf(1, ProcessState::kPaused);
  deep.process.deep = kMark;
  journal.Note(deep);
  journal.End(first);
  Outcome outcome;
  outcome.pid = 1;
  outcome.state = ProcessState::kPaused;
  outcome.stats.host_bytes = 12345;
  outcome.total_seconds = 1.5;
  outcome.gpus.push_back({"GPU-1", 1, 2, 3});
  outcome.deep = {true, true, 620, 0.7, Fail(absl::StatusCode::kInternal, "CUDA_ERROR_X", "no")};
  journal.Answer({"uid 7", "first", "body", Outcomes{outcome}});
  journal.Answer(
      {"uid 7", "second", "other",
       Fail(absl::StatusCode::kResourceExhausted, "DISK_SPACE", "full", {{"path", "/x"}})});
  BegunOperation second = PauseOf({2});
  second.parts = {{"weights", "kv_cache"}, wire::GateMode::kClosed};
  journal.Begin(second);
  journal.Note(StateOf(2, ProcessState::kRunning, Event::Kind::kGone));
}

}  // namespace

TEST_CASE("the next daemon finds processes, what was begun and not ended, and answers") {
  const TestDir dir;
  { Journal(dir.path(), kBoot); }
  {
    Journal journal(dir.path(), kBoot);
    Fill(journal);
  }
  struct stat s;
  REQUIRE(stat((dir / "journal").c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
  for (int restart = 0; restart < 3; ++restart) {
    Journal journal(dir.path(), kBoot);
    const Journal::Found& found = journal.found();
    REQUIRE(found.processes.size() == 1);
    CHECK(found.processes[0].identity.Key() == Number(1).Key());
    CHECK(found.processes[0].identity.uid == 7);
    CHECK(found.processes[0].introduction.job == "train");
    CHECK(found.processes[0].introduction.rank == 1);
    CHECK(found.processes[0].state == ProcessState::kPaused);
    CHECK(found.processes[0].deep == kMark);
    REQUIRE(found.interrupted.size() == 1);
    CHECK(found.interrupted[0].kind == OperationKind::kPause);
    REQUIRE(found.interrupted[0].parties.size() == 1);
    CHECK(found.interrupted[0].parties[0].identity.pid == 2);
    CHECK(found.interrupted[0].parts.tags == std::vector<std::string>{"weights", "kv_cache"});
    CHECK(found.interrupted[0].parts.gate == wire::GateMode::kClosed);
    REQUIRE(found.answers.size() == 2);
    CHECK(found.answers[0].caller == "uid 7");
    REQUIRE(found.answers[0].answer.ok());
    const Outcome& outcome = (*found.answers[0].answer)[0];
    CHECK(outcome.stats.host_bytes == 12345);
    CHECK(outcome.total_seconds == 1.5);
    CHECK(outcome.gpus[0].uuid == "GPU-1");
    CHECK(outcome.gpus[0].expected == 3);
    CHECK(outcome.deep.concerns);
    CHECK(outcome.deep.deep);
    CHECK(outcome.deep.bytes == 620);
    CHECK(outcome.deep.seconds == 0.7);
    CHECK(ReasonOf(outcome.deep.refusal) == "CUDA_ERROR_X");
    const absl::Status failed = found.answers[1].answer.status();
    CHECK(failed.code() == absl::StatusCode::kResourceExhausted);
    CHECK(ReasonOf(failed) == "DISK_SPACE");
    CHECK(MetadataOf(failed)["path"] == "/x");
    CHECK(MessageOf(failed) == "full");
  }
}

TEST_CASE("a file that ends at any byte gives the records before it, and takes new ones") {
  const TestDir dir;
  const std::string path = dir / "journal";
  {
    Journal journal(dir.path(), kBoot);
    Fill(journal);
  }
  const std::string whole = Content(path);
  const size_t all = JournalFile::Read(path)->records.size();
  size_t left = all, offsets = 0;
  for (size_t cut = whole.size() + 1; cut-- > 0; ++offsets) {
    REQUIRE(truncate(path.c_str(), off_t(cut)) == 0);
    const auto content = JournalFile::Read(path);
    REQUIRE(content.ok());
    REQUIRE(content->records.size() <= left);
    REQUIRE(content->records.size() + 1 >= left);  // no more than the torn one is lost
    left = content->records.size();
    // A daemon on each would take long: at the ends of records and beside them is where it matters.
    if (content->lost_bytes > 1 && content->lost_bytes != 17) continue;
    {
      Journal journal(dir.path(), kBoot);
      journal.Note(StateOf(3, ProcessState::kPaused));
    }
    const auto after = Journal(dir.path(), kBoot).found();
    const bool kept = std::any_of(after.processes.begin(), after.processes.end(),
                                  [](const auto& p) { return p.identity.pid == 3; });
    REQUIRE(kept);
    Put(path, whole.substr(0, cut));
  }
  WARN("torn at " << offsets << " offsets, " << all << " records");
  CHECK(all == 10);
  CHECK(left == 0);
}

TEST_CASE("a byte that has changed anywhere ends the file there, and is never believed") {
  const TestDir dir;
  const std::string path = dir / "journal";
  {
    Journal journal(dir.path(), kBoot);
    Fill(journal);
  }
  const std::string whole = Content(path);
  const auto good = JournalFile::Read(path);
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string bad = whole;
    bad[at] = char(bad[at] ^ 0x40);
    Put(path, bad);
    const auto content = JournalFile::Read(path);
    REQUIRE(content.ok());
    REQUIRE(content->lost_bytes > 0);
    for (size_t i = 0; i < content->records.size(); ++i) {
      REQUIRE(content->records[i] == good->records[i]);
    }
  }
}

TEST_CASE("records of another boot and garbage are left out") {
  const TestDir dir;
  {
    Journal journal(dir.path(), "another-boot");
    Fill(journal);
  }
  CHECK(Journal(dir.path(), kBoot).found().processes.empty());
  for (const std::string& garbage : {std::string("x"), std::string(100'000, 'x'), std::string()}) {
    Put(dir / "journal", garbage);
    {
      Journal journal(dir.path(), kBoot);
      CHECK(journal.found().answers.empty());
      journal.Note(StateOf(3, ProcessState::kPaused));
    }
    CHECK(Journal(dir.path(), kBoot).found().processes.size() == 1);
  }
}

TEST_CASE("a journal that is not ours is left alone, and the work goes on without") {
  const TestDir dir;
  const std::string path = dir / "journal";
  const auto works = [&] {
    Journal journal(dir.path(), kBoot);
    Fill(journal);
    return journal.found().processes.empty();
  };
  Put(path, "somebody's");
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  CHECK(works());
  CHECK(Content(path) == "somebody's");
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(symlink("/etc/passwd", path.c_str()) == 0);
  CHECK(works());
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(works());
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkdir(path.c_str(), 0700) == 0);
  CHECK(works());
}

TEST_CASE("two daemons do not write one journal") {
  const TestDir dir;
  Journal first(dir.path(), kBoot);
  first.Note(StateOf(1, ProcessState::kPaused));
  {
    Journal second(dir.path(), kBoot);
    CHECK(second.found().processes.empty());
    second.Note(StateOf(2, ProcessState::kPaused));
  }
  const auto content = JournalFile::Read(dir / "journal");
  CHECK(content->records.size() == 2);  // the boot, and the first one's process
}

TEST_CASE("after a write that failed nothing stale stays in the file") {
  const TestDir dir;
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  signal(SIGXFSZ, SIG_IGN);
  {
    Journal journal(dir.path(), kBoot);
    journal.Note(StateOf(1, ProcessState::kPaused));
    const rlimit full{Content(dir / "journal").size() + 40, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
    // The end of an operation could be the record that is missing.
    journal.Note(StateOf(1, ProcessState::kRunning));
    journal.Note(StateOf(2, ProcessState::kRunning));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    struct stat s;
    CHECK(stat((dir / "journal").c_str(), &s) != 0);
  }
  CHECK(Journal(dir.path(), kBoot).found().processes.empty());
}

TEST_CASE("a file that cannot be removed after a write that failed is emptied") {
  const TestDir dir;
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  signal(SIGXFSZ, SIG_IGN);
  Journal journal(dir.path(), kBoot);
  journal.Note(StateOf(1, ProcessState::kPaused));
  REQUIRE(rename((dir / "journal").c_str(), (dir / "moved").c_str()) == 0);
  REQUIRE(mkdir((dir / "journal").c_str(), 0700) == 0);
  const rlimit full{Content(dir / "moved").size() + 40, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  journal.Note(StateOf(1, ProcessState::kRunning));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(Content(dir / "moved").empty());
}

TEST_CASE("a file that cannot be written anew stays, and goes on growing") {
  const TestDir dir;
  Journal journal(dir.path(), kBoot);
  journal.Note(StateOf(1, ProcessState::kPaused));
  // What stands in the way of the new file cannot be unlinked.
  REQUIRE(mkdir((dir / "journal.new").c_str(), 0700) == 0);
  for (int i = 0; i < 5000; ++i) journal.End(journal.Begin(PauseOf({1, 2})));
  const size_t grown = Content(dir / "journal").size();
  CHECK(grown > (1 << 20) + 4096);
  journal.Note(StateOf(2, ProcessState::kPaused));
  CHECK(Content(dir / "journal").size() > grown);
  CHECK(JournalFile::Read(dir / "journal")->records.back().find("train") != std::string::npos);
  // When it can be, it is.
  REQUIRE(rmdir((dir / "journal.new").c_str()) == 0);
  for (int i = 0; i < 10'000; ++i) journal.End(journal.Begin(PauseOf({1, 2})));
  CHECK(Content(dir / "journal").size() < (1 << 20) + 4096);
}

TEST_CASE("a record that is too long is refused, and those around it stay") {
  const TestDir dir;
  const std::string path = dir / "journal";
  auto file = JournalFile::Replace(path, {"first"});
  REQUIRE(file.ok());
  const std::string long_one(JournalFile::kLongest + 1, 'x');
  CHECK(ReasonOf(file->Append(long_one)) == "TOO_LONG");
  REQUIRE(file->Append(long_one.substr(1)).ok());
  REQUIRE(file->Append("last").ok());
  CHECK(JournalFile::Read(path)->records ==
        std::vector<std::string>{"first", long_one.substr(1), "last"});
  {
    Journal journal(dir.path(), kBoot);
    journal.Begin(PauseOf(std::vector<int>(5000, 1)));
    journal.Begin(PauseOf({2}));
  }
  const auto found = Journal(dir.path(), kBoot).found();
  REQUIRE(found.interrupted.size() == 1);
  CHECK(found.interrupted[0].parties[0].identity.pid == 2);
  // One that stands in the file is not read either.
  REQUIRE(JournalFile::Replace(path, {"first", long_one, "last"}).ok());
  CHECK(JournalFile::Read(path)->records.size() == 1);
}

TEST_CASE("an answer with a number that means nothing is none") {
  Outcome outcome;
  outcome.state = ProcessState::kPaused;
  const std::string good = Pack(GivenAnswer{"c", "i", "b", Outcomes{outcome}});
  REQUIRE(UnpackAnswer(good).has_value());
  // Three texts of one byte stand before the code; behind it the count, then pid, already, state.
  constexpr size_t kCode = 27, kState = kCode + 4 * 8, kStats = kState + 8;
  const auto with = [&](size_t at, uint64_t number) {
    std::string bytes = good;
    memcpy(&bytes[at], &number, sizeof number);
    return bytes;
  };
  CHECK(UnpackAnswer(with(kState, uint64_t(ProcessState::kRunning))).has_value());
  for (const uint64_t state : {uint64_t(0), uint64_t(99), (uint64_t(1) << 32) + 1}) {
    CHECK_FALSE(UnpackAnswer(with(kState, state)).has_value());
  }
  // Figures of another version's size, all bytes of which are there.
  std::string shorter = with(kStats, sizeof(wire::Stats) - 8);
  shorter.erase(kStats + 8, 8);
  CHECK_FALSE(UnpackAnswer(shorter).has_value());
  const std::string failed =
      Pack(GivenAnswer{"c", "i", "b", Fail(absl::StatusCode::kUnavailable, "X", "x")});
  REQUIRE(UnpackAnswer(failed).has_value());
  for (const uint64_t code : {uint64_t(17), uint64_t(1) << 32, UINT64_MAX}) {
    std::string bytes = failed;
    memcpy(&bytes[kCode], &code, sizeof code);
    CHECK_FALSE(UnpackAnswer(bytes).has_value());
  }
}

TEST_CASE("what a failed operation found comes back with its answer") {
  GivenAnswer given{"c", "i", "b", Fail(absl::StatusCode::kDataLoss, "BACKUP_CORRUPT", "x")};
  given.kind = OperationKind::kVerify;
  Outcome outcome;
  outcome.pid = 7;
  outcome.state = ProcessState::kPaused;
  outcome.stats.wrong_blocks = 1;
  outcome.wrong_blocks.push_back({0x7000, 4096, 1, true, 2, 8192, true});
  outcome.reservation = "r-1";
  given.report = {outcome};
  const auto back = UnpackAnswer(Pack(given));
  REQUIRE(back);
  CHECK(back->kind == OperationKind::kVerify);
  REQUIRE(back->report.size() == 1);
  CHECK(back->report[0].reservation == "r-1");
  REQUIRE(back->report[0].wrong_blocks.size() == 1);
  const WrongBlock& block = back->report[0].wrong_blocks[0];
  CHECK(block.address == 0x7000);
  CHECK(block.device == 1);
  CHECK(block.on_disk);
  CHECK(block.file == 2);
  CHECK(block.offset == 8192);
  CHECK(block.missing);
}

TEST_CASE("a journal does not grow with the number of operations") {
  const TestDir dir;
  Journal journal(dir.path(), kBoot);
  for (int i = 0; i < 20'000; ++i) {
    journal.End(journal.Begin(PauseOf({1, 2})));
    journal.Note(StateOf(1, i % 2 == 0 ? ProcessState::kPaused : ProcessState::kRunning));
  }
  CHECK(Content(dir / "journal").size() < (1 << 20) + 4096);
  // Nor with what one caller sends.
  journal.Answer({"uid 7", "long", std::string(1 << 20, 'x'), Outcomes{}});
  CHECK(Content(dir / "journal").size() < (1 << 20) + 4096);
}
