// The state file of a live store: cut after every write, and within every one, it says exactly how
// the store stands.
#include "common/store/records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>

#include "common/store/record_bytes.h"

namespace {

// What the library writes while a test listens.
std::function<void(const void*, size_t, off_t)>* listener = nullptr;

}  // namespace

// In place of libc's in this program.
extern "C" ssize_t pwrite(int fd, const void* memory, size_t bytes, off_t offset) {
  if (listener != nullptr) (*listener)(memory, bytes, offset);
  return syscall(SYS_pwrite64, fd, memory, bytes, offset);
}

namespace parkade::store {
namespace {

constexpr Digest kLayout = {11, 22};
constexpr uint64_t kBoot = 33;
constexpr uint32_t kBuckets = 3;

Fd NewFile(const std::string& content = "") {
  Fd fd(memfd_create("state", MFD_CLOEXEC));
  REQUIRE(fd);
  REQUIRE(syscall(SYS_pwrite64, fd.get(), content.data(), content.size(), 0) ==
          ssize_t(content.size()));
  return fd;
}

StateFile::Shape ShapeOf(Redundancy redundancy) {
  const uint32_t files = redundancy == Redundancy::kInplace  ? kBuckets
                         : redundancy == Redundancy::kRotate ? kBuckets + 2
                                                             : kBuckets * 2;
  return {kLayout, kBuckets, redundancy, files, kBoot};
}

// What a file of a bucket holds.
struct Content {
  int bucket = -1;
  uint64_t step = kNoStep;
  bool whole = false;
};

// One write to the state file, or one half of a bucket's write to its file.
struct Event {
  enum Kind { kOther, kBegin, kEnd, kCommit, kData } kind = kOther;
  uint32_t bucket = 0;
  std::string bytes = {};
  off_t offset = 0;
  uint32_t file = 0;     // kData
  Content content = {};  // kData
};

// Runs a filling and `steps` steps, buckets interleaved, and writes down all that reaches a file.
std::vector<Event> Record(Redundancy redundancy, uint64_t steps) {
  std::vector<Event> events;
  Event next;
  std::function<void(const void*, size_t, off_t)> listen = [&](const void* memory, size_t bytes,
                                                               off_t at) {
    next.bytes.assign(static_cast<const char*>(memory), bytes);
    next.offset = at;
    events.push_back(next);
  };
  listener = &listen;
  auto file = StateFile::Create(NewFile(), ShapeOf(redundancy));
  REQUIRE(file.ok());
  uint32_t targets[kBuckets];
  for (uint64_t step = 0; step <= steps; ++step) {
    next = {};
    REQUIRE(file->BeginStep(step).ok());
    const auto begin = [&](uint32_t bucket) {
      next = {.kind = Event::kBegin, .bucket = bucket};
      auto target = file->BeginBucket(bucket);
      REQUIRE(target.ok());
      targets[bucket] = *target;
      events.push_back(
          {.kind = Event::kData, .file = *target, .content = {int(bucket), step, false}});
    };
    const auto end = [&](uint32_t bucket) {
      events.push_back(
          {.kind = Event::kData, .file = targets[bucket], .content = {int(bucket), step, true}});
      next = {.kind = Event::kEnd, .bucket = bucket};
      REQUIRE(
          file->EndBucket(bucket, {.ties = uint32_t(step), .weight_sum = step * 10 + bucket}).ok());
    };
    begin(0), begin(1), end(0), begin(2), end(2), end(1);
    next = {.kind = Event::kCommit};
    REQUIRE(file->CommitStep().ok());
    CHECK(file->committed() == step);
  }
  listener = nullptr;
  return events;
}

// What Open must say after the first `count` events and `part` bytes of the next one.
struct Moment {
  std::string state;
  std::vector<Content> files;
  uint64_t committed = kNoStep;
  std::vector<uint32_t> begun, ended;  // in the step after the committed one, by their records
};

Moment MomentAt(const std::vector<Event>& events, size_t count, size_t part,
                Redundancy redundancy) {
  Moment moment;
  moment.files.resize(ShapeOf(redundancy).files);
  for (size_t i = 0; i <= count && i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.kind == Event::kData) {
      if (i < count) moment.files[event.file] = event.content;
      continue;
    }
    const size_t bytes = i < count ? event.bytes.size() : std::min(part, event.bytes.size());
    if (bytes == 0) continue;
    const size_t end = size_t(event.offset) + bytes;
    if (moment.state.size() < end) moment.state.resize(end);
    char* at = &moment.state[size_t(event.offset)];
    // The first bytes of a record are those that it had.
    const bool changed = memcmp(at, event.bytes.data(), bytes) != 0;
    memcpy(at, event.bytes.data(), bytes);
    const bool whole = bytes == event.bytes.size();
    if (event.kind == Event::kBegin && changed) moment.begun.push_back(event.bucket);
    if (event.kind == Event::kEnd && whole) {
      std::erase(moment.begun, event.bucket);
      moment.ended.push_back(event.bucket);
    }
    if (event.kind == Event::kCommit && whole) {
      ++moment.committed;  // kNoStep + 1 is 0
      moment.ended.clear();
    }
  }
  std::sort(moment.begun.begin(), moment.begun.end());
  std::sort(moment.ended.begin(), moment.ended.end());
  return moment;
}

void CheckMoment(const Moment& moment, Redundancy redundancy) {
  StateReport report;
  auto file = StateFile::Open(NewFile(moment.state), kLayout, kBoot, report);
  if (!file.ok()) {
    // Only while it is being created.
    REQUIRE(moment.committed == kNoStep);
    REQUIRE(moment.begun.empty());
    REQUIRE(moment.ended.empty());
    return;
  }
  const bool filled = moment.committed != kNoStep;
  if (!moment.begun.empty()) {
    REQUIRE(redundancy == Redundancy::kInplace);
    REQUIRE(report.standing == Standing::kTorn);
    REQUIRE(report.buckets == moment.begun);
  } else if (moment.ended.size() == kBuckets && !(filled && redundancy == Redundancy::kShadow)) {
    REQUIRE(report.standing == Standing::kClean);
    REQUIRE(report.step == moment.committed + 1);
  } else if (!filled) {
    REQUIRE(report.standing == Standing::kInterrupted);
    REQUIRE(report.buckets.size() == kBuckets - moment.ended.size());
  } else if (redundancy == Redundancy::kShadow || moment.ended.empty()) {
    REQUIRE(report.standing == Standing::kClean);
    REQUIRE(report.step == moment.committed);
  } else {
    REQUIRE(report.standing == Standing::kInterrupted);
    REQUIRE(report.buckets == moment.ended);
  }
  if (report.standing != Standing::kClean) {
    REQUIRE_FALSE(report.text.empty());
    REQUIRE(std::string(file->BeginStep(1).error().reason) == "NOT_CLEAN");
    return;
  }
  // Whatever is called clean is whole, all of it at that step.
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const BucketState& state = file->bucket(bucket);
    const Content& content = moment.files[state.file];
    REQUIRE(state.step == report.step);
    REQUIRE(content.bucket == int(bucket));
    REQUIRE(content.step == report.step);
    REQUIRE(content.whole);
    REQUIRE(state.ties == report.step);
    REQUIRE(state.weight_sum == report.step * 10 + bucket);
  }
  // And the next step goes on from there.
  REQUIRE(file->BeginStep(report.step + 1).ok());
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    auto target = file->BeginBucket(bucket);
    REQUIRE(target.ok());
    if (redundancy != Redundancy::kInplace) {
      for (uint32_t other = 0; other < kBuckets; ++other) {
        if (other != bucket) REQUIRE(file->bucket(other).file != *target);
      }
    }
    REQUIRE(file->EndBucket(bucket, {}).ok());
  }
  REQUIRE(file->CommitStep().ok());
}

TEST_CASE("cut at and within every write, a store is never called clean unless it is") {
  for (const Redundancy redundancy :
       {Redundancy::kInplace, Redundancy::kRotate, Redundancy::kShadow}) {
    const std::vector<Event> events = Record(redundancy, 3);
    size_t moments = 0;
    for (size_t count = 0; count <= events.size(); ++count) {
      const size_t bytes = count < events.size() ? events[count].bytes.size() : 0;
      for (size_t part = 0; part < std::max<size_t>(bytes, 1); part += bytes <= 64 ? 7 : 61) {
        INFO("redundancy " << uint32_t(redundancy) << ", " << count << " events and " << part
                           << " bytes");
        CheckMoment(MomentAt(events, count, part, redundancy), redundancy);
        ++moments;
      }
    }
    CHECK(moments > 100);
  }
}

TEST_CASE("after another start of the machine nothing is known") {
  const auto events = Record(Redundancy::kInplace, 1);
  const Moment moment = MomentAt(events, events.size(), 0, Redundancy::kInplace);
  StateReport report;
  auto file = StateFile::Open(NewFile(moment.state), kLayout, kBoot + 1, report);
  REQUIRE(file.ok());
  CHECK(report.standing == Standing::kVoid);
  CHECK(report.step == kNoStep);
  CHECK(std::string(file->BeginStep(2).error().reason) == "NOT_CLEAN");
}

TEST_CASE("a flipped byte of a record never makes a store clean that is not") {
  for (const Redundancy redundancy :
       {Redundancy::kInplace, Redundancy::kRotate, Redundancy::kShadow}) {
    const auto events = Record(redundancy, 2);
    for (const size_t count : {events.size(), events.size() - 1, events.size() - 3}) {
      const Moment moment = MomentAt(events, count, 0, redundancy);
      for (size_t at = 0; at < moment.state.size(); at += at < 64 || at >= 512 ? 5 : 64) {
        std::string state = moment.state;
        state[at] = char(state[at] ^ 0x10);
        StateReport report;
        auto file = StateFile::Open(NewFile(state), kLayout, kBoot, report);
        if (!file.ok() || report.standing != Standing::kClean) continue;
        for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
          const Content& content = moment.files[file->bucket(bucket).file];
          INFO("byte " << at << " of " << count << " events, redundancy " << uint32_t(redundancy));
          REQUIRE((content.whole && content.step == report.step && content.bucket == int(bucket)));
        }
      }
    }
  }
}

std::string ReasonOf(const Result<void>& r) { return r.ok() ? "" : r.error().reason; }

TEST_CASE("a step that was given up before its first bucket leaves the store as it was") {
  for (const Redundancy redundancy :
       {Redundancy::kInplace, Redundancy::kRotate, Redundancy::kShadow}) {
    Fd fd = NewFile();
    const Fd copy(dup(fd.get()));
    auto file = StateFile::Create(std::move(fd), ShapeOf(redundancy));
    REQUIRE(file.ok());
    const auto step = [&file](uint64_t number) {
      REQUIRE(file->BeginStep(number).ok());
      for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
        REQUIRE(file->BeginBucket(bucket).ok());
        REQUIRE(file->EndBucket(bucket, {.weight_sum = number}).ok());
      }
    };
    step(7);
    REQUIRE(file->CommitStep().ok());
    REQUIRE(file->BeginStep(8).ok());
    REQUIRE(file->AbortStep().ok());
    StateReport report;
    REQUIRE(StateFile::Open(Fd(dup(copy.get())), kLayout, kBoot, report).ok());
    CHECK(report.standing == Standing::kClean);
    CHECK(report.step == 7);
    // With shadows also after all of them.
    step(8);
    if (redundancy != Redundancy::kShadow) {
      CHECK(ReasonOf(file->AbortStep()) == "STEP_UNDER_WAY");
      continue;
    }
    REQUIRE(file->AbortStep().ok());
    auto again = StateFile::Open(Fd(dup(copy.get())), kLayout, kBoot, report);
    REQUIRE(again.ok());
    CHECK(report.standing == Standing::kClean);
    CHECK(report.step == 7);
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      CHECK(again->bucket(bucket).weight_sum == 7);
      CHECK(file->bucket(bucket).weight_sum == 7);
    }
    step(8);
    REQUIRE(file->CommitStep().ok());
    REQUIRE(StateFile::Open(Fd(dup(copy.get())), kLayout, kBoot, report).ok());
    CHECK(report.step == 8);
  }
}

TEST_CASE("calls out of order are refused and change nothing") {
  auto file = StateFile::Create(NewFile(), ShapeOf(Redundancy::kRotate));
  REQUIRE(file.ok());
  CHECK(ReasonOf(file->CommitStep()) == "STEP_ORDER");
  CHECK(ReasonOf(file->AbortStep()) == "STEP_ORDER");
  CHECK(ReasonOf(file->EndBucket(0, {})) == "STEP_ORDER");
  CHECK(std::string(file->BeginBucket(0).error().reason) == "STEP_ORDER");
  REQUIRE(file->BeginStep(5).ok());
  CHECK(ReasonOf(file->BeginStep(6)) == "STEP_ORDER");
  REQUIRE(file->BeginBucket(0).ok());
  CHECK(std::string(file->BeginBucket(0).error().reason) == "STEP_ORDER");
  CHECK(std::string(file->BeginBucket(kBuckets).error().reason) == "STEP_ORDER");
  CHECK(ReasonOf(file->CommitStep()) == "STEP_ORDER");
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (bucket > 0) REQUIRE(file->BeginBucket(bucket).ok());
    REQUIRE(file->EndBucket(bucket, {}).ok());
  }
  REQUIRE(file->CommitStep().ok());
  CHECK(ReasonOf(file->BeginStep(5)) == "STEP_ORDER");
  CHECK(ReasonOf(file->BeginStep(7)) == "STEP_ORDER");
  // Two spare files: a third bucket waits until one of the others has ended.
  REQUIRE(file->BeginStep(6).ok());
  REQUIRE(file->BeginBucket(0).ok());
  REQUIRE(file->BeginBucket(1).ok());
  CHECK(std::string(file->BeginBucket(2).error().reason) == "NO_SPARE_FILE");
  REQUIRE(file->EndBucket(1, {}).ok());
  CHECK(file->BeginBucket(2).ok());
}

TEST_CASE("what is no state file of this layout is refused with the reason") {
  const auto events = Record(Redundancy::kInplace, 1);
  const std::string good = MomentAt(events, events.size(), 0, Redundancy::kInplace).state;
  const auto reason = [](const std::string& content, Digest layout = kLayout) {
    StateReport report;
    auto file = StateFile::Open(NewFile(content), layout, kBoot, report);
    return file.ok() ? std::string() : file.error().reason;
  };
  CHECK(reason(good) == "");
  CHECK(reason("") == "SHORT_FILE");
  CHECK(reason(std::string(8192, '\0')) == "NOT_A_STORE");
  CHECK(reason(good.substr(0, good.size() - 1)) == "SHORT_FILE");
  CHECK(reason(good, {11, 23}) == "OTHER_LAYOUT");
  std::string changed = good;
  changed[20] ^= 1;
  CHECK(reason(changed) == "DAMAGED_HEADER");
  StateHeader header;
  memcpy(&header, good.data(), sizeof header);
  header.version = 2;
  Seal(header);
  memcpy(changed.data(), &header, sizeof header);
  CHECK(reason(changed) == "STORE_VERSION");
  header.version = 1;
  header.files = 100;
  Seal(header);
  memcpy(changed.data(), &header, sizeof header);
  CHECK(reason(changed) == "DAMAGED_HEADER");
  CHECK(std::string(StateFile::Create(NewFile(), {kLayout, 3, Redundancy::kRotate, 3, kBoot})
                        .error()
                        .reason) == "BAD_SHAPE");
}

TEST_CASE("this boot has a number, always the same") {
  auto boot = ThisBoot();
  REQUIRE(boot.ok());
  CHECK(*boot == *ThisBoot());
}

}  // namespace
}  // namespace parkade::store
