// Reading ledgers that were written well, badly, or by someone who lies.
#include "proto/ledger.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/deadline.h"
#include "common/fd.h"
#include "common/text.h"

namespace parkade::wire {
namespace {

struct File {
  File() : fd(memfd_create("ledger", MFD_CLOEXEC)) {
    header.magic = kLedgerMagic;
    header.version = kLedgerVersion;
    header.header_bytes = kLedgerHeaderBytes;
    header.record_bytes = sizeof(LedgerRecord);
    header.capacity = 8;
    header.used_slots = 3;
    header.state = uint64_t(ProcessState::kRunning);
    for (uint32_t i = 0; i < 3; ++i) {
      LedgerRecord& r = records[i];
      r.sequence = 2;
      r.used = 1;
      r.base = 0x7000'0000 + i;
      r.bytes = 100 * (i + 1);
      r.allocation_class = uint32_t(AllocationClass::kPausable);
      r.place = uint32_t(Place::kGpu);
      CopyText(r.tag, "default");
    }
  }
  void Write(size_t size = kLedgerHeaderBytes + 8 * sizeof(LedgerRecord)) {
    REQUIRE(ftruncate(fd.get(), off_t(size)) == 0);
    REQUIRE(pwrite(fd.get(), &header, sizeof header, 0) == ssize_t(sizeof header));
    REQUIRE(pwrite(fd.get(), records, sizeof records, kLedgerHeaderBytes) ==
            ssize_t(sizeof records));
    REQUIRE(ftruncate(fd.get(), off_t(size)) == 0);
  }
  std::string Reason() const {
    const auto view = ReadLedger(fd.get());
    return view.ok() ? "" : view.error().reason;
  }

  Fd fd;
  LedgerHeader header{};
  LedgerRecord records[8] = {};
};

TEST_CASE("used records are read in slot order, free ones left out") {
  File file;
  file.records[1].used = 0;
  file.Write();
  const auto view = ReadLedger(file.fd.get());
  REQUIRE(view.ok());
  REQUIRE(view->records.size() == 2);
  CHECK(view->records[0].bytes == 100);
  CHECK(view->records[1].bytes == 300);
  CHECK(ReadText(view->records[0].tag) == "default");
}

TEST_CASE("a record whose writer stopped half way is left out, soon") {
  File file;
  file.records[0].sequence = 3;
  file.Write();
  const uint64_t start = MonotonicNs();
  const auto view = ReadLedger(file.fd.get());
  REQUIRE(view.ok());
  CHECK(view->records.size() == 2);
  CHECK(MonotonicNs() - start < 2'000'000'000);
}

TEST_CASE("what cannot be is refused") {
  File file;
  SECTION("not a ledger") { file.header.magic = 1; }
  SECTION("another version") { file.header.version = kLedgerVersion + 1; }
  SECTION("another record size") { file.header.record_bytes = 8; }
  SECTION("more slots than room") { file.header.used_slots = 9; }
  SECTION("a capacity beyond the limit") {
    file.header.capacity = file.header.used_slots = UINT64_MAX;
  }
  SECTION("an unknown state") { file.header.state = 77; }
  SECTION("a state beyond 32 bits") { file.header.state = (uint64_t(1) << 32) | 1; }
  SECTION("an unknown place") { file.records[2].place = 0; }
  SECTION("an unknown class") { file.records[2].allocation_class = 9; }
  SECTION("a negative device") { file.records[2].device = -1; }
  SECTION("a device out of range") { file.records[2].device = kMaxDevices; }
  file.Write();
  CHECK(file.Reason() == "BAD_LEDGER");
}

TEST_CASE("stores are read in the order in which they were opened, half written ones left out") {
  File file;
  file.Write();
  LedgerStore stores[3] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    stores[i].used = 1;
    stores[i].number = 9 - i;
    stores[i].state = uint32_t(StoreState::kIdle);
    memset(stores[i].name, 'a' + int(i), sizeof stores[i].name);  // without an end
  }
  stores[1].sequence = 7;
  const auto write = [&] {
    REQUIRE(pwrite(file.fd.get(), stores, sizeof stores, kLedgerStoresAt) ==
            ssize_t(sizeof stores));
  };
  write();
  const auto read = ReadLedgerStores(file.fd.get());
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].name == std::string(sizeof stores[2].name - 1, 'c'));
  CHECK((*read)[1].name == std::string(sizeof stores[0].name - 1, 'a'));

  stores[0].state = 5;
  write();
  CHECK(std::string(ReadLedgerStores(file.fd.get()).error().reason) == "BAD_LEDGER");
  REQUIRE(ftruncate(file.fd.get(), kLedgerStoresAt + 10) == 0);
  CHECK(!ReadLedgerStores(file.fd.get()).ok());
}

TEST_CASE("a file that is shorter than it says is refused, not a fault") {
  File file;
  file.Write(kLedgerHeaderBytes + sizeof(LedgerRecord));
  CHECK(file.Reason() == "BAD_LEDGER");
  REQUIRE(ftruncate(file.fd.get(), 10) == 0);
  CHECK(file.Reason() == "BAD_LEDGER");
}

TEST_CASE("the header's text is ended even if its writer did not") {
  File file;
  memset(file.header.text, 'x', sizeof file.header.text);
  file.Write();
  const auto header = ReadLedgerHeader(file.fd.get());
  REQUIRE(header.ok());
  CHECK(strlen(header->text) == sizeof header->text - 1);
}

TEST_CASE("a text whose writer stopped half way is empty, the figures are there") {
  File file;
  CopyText(file.header.text, "half of two lines");
  file.header.text_sequence = 5;
  file.Write();
  const auto torn = ReadLedgerHeader(file.fd.get());
  REQUIRE(torn.ok());
  CHECK(torn->text[0] == '\0');
  CHECK(torn->used_slots == 3);
  file.header.text_sequence = 6;
  file.Write();
  const auto whole = ReadLedgerHeader(file.fd.get());
  REQUIRE(whole.ok());
  CHECK(ReadText(whole->text) == "half of two lines");
}

TEST_CASE("a ledger of nothing but half written records takes no longer than one") {
  constexpr size_t kCount = 100'000;
  File file;
  file.header.capacity = file.header.used_slots = kCount;
  file.Write(kLedgerHeaderBytes + kCount * sizeof(LedgerRecord));
  std::vector<LedgerRecord> odd(kCount);
  for (LedgerRecord& r : odd) r.sequence = 1;
  REQUIRE(pwrite(file.fd.get(), odd.data(), kCount * sizeof(LedgerRecord), kLedgerHeaderBytes) ==
          ssize_t(kCount * sizeof(LedgerRecord)));
  const uint64_t start = MonotonicNs();
  const auto view = ReadLedger(file.fd.get());
  REQUIRE(view.ok());
  CHECK(view->records.empty());
  CHECK(MonotonicNs() - start < 5'000'000'000);  // 10 ms for each would be a quarter of an hour
}

TEST_CASE("a ledger is held until its writer's process closes it, and not by forked children") {
  const Fd fd(memfd_create("ledger", MFD_CLOEXEC));
  CHECK_FALSE(IsLedgerHeld(fd.get()));
  int ready[2], go[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(go) == 0);
  const pid_t writer = fork();
  if (writer == 0) {
    char told;
    const bool held = HoldLedger(fd.get());
    const pid_t child = fork();  // closes what it inherited, as an abandoned ledger is
    if (child == 0) {
      close(fd.get());
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (!held || write(ready[1], "r", 1) != 1 || read(go[0], &told, 1) != 1) _exit(1);
    close(fd.get());
    if (write(ready[1], "r", 1) != 1 || read(go[0], &told, 1) != 1) _exit(1);
    _exit(0);
  }
  char told;
  REQUIRE(read(ready[0], &told, 1) == 1);
  CHECK(IsLedgerHeld(fd.get()));
  REQUIRE(write(go[1], "g", 1) == 1);
  REQUIRE(read(ready[0], &told, 1) == 1);
  CHECK_FALSE(IsLedgerHeld(fd.get()));
  REQUIRE(write(go[1], "g", 1) == 1);
  int status = -1;
  REQUIRE(waitpid(writer, &status, 0) == writer);
  CHECK(status == 0);
}

}  // namespace
}  // namespace parkade::wire
