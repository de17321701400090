// What the ledger's writer writes, read back as the daemon does.
#include "shim/heap/ledger_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "common/deadline.h"
#include "common/text.h"

namespace parkade::shim {
namespace {

using wire::Place;

// A record of which every field follows from its number, so that a torn one shows.
wire::LedgerRecord Numbered(uint64_t number) {
  wire::LedgerRecord r{};
  r.number = number;
  r.base = number * 4096;
  r.bytes = number * 3;
  r.device = int32_t(number % 2);
  r.allocation_class = uint32_t(wire::AllocationClass::kPausable);
  r.place = uint32_t(Place::kGpu);
  CopyText(r.tag, std::to_string(number));
  return r;
}

bool Whole(const wire::LedgerRecord& r) {
  const wire::LedgerRecord want = Numbered(r.number);
  return r.base == want.base && r.bytes == want.bytes && r.device == want.device &&
         ReadText(r.tag) == ReadText(want.tag);
}

std::unique_ptr<LedgerWriter> Make() {
  auto writer = LedgerWriter::Create();
  REQUIRE(writer.ok());
  return std::move(*writer);
}

TEST_CASE("a fresh ledger is running and empty") {
  const auto writer = Make();
  const auto view = wire::ReadLedger(writer->fd());
  REQUIRE(view.ok());
  CHECK(view->records.empty());
  CHECK(view->header.state == uint64_t(wire::ProcessState::kRunning));
  CHECK(writer->state() == wire::ProcessState::kRunning);
}

TEST_CASE("records can be added, moved and removed, and slots are used again") {
  const auto writer = Make();
  const uint32_t a = writer->Add(Numbered(1)), b = writer->Add(Numbered(2));
  writer->SetPlace(b, 2, Place::kHost);
  writer->SetPlace(a, 99, Place::kDisk);  // another allocation's number
  writer->Remove(a);
  writer->SetPlace(a, 1, Place::kDisk);  // gone
  auto view = wire::ReadLedger(writer->fd());
  REQUIRE(view.ok());
  REQUIRE(view->records.size() == 1);
  CHECK(view->records[0].number == 2);
  CHECK(view->records[0].place == uint32_t(Place::kHost));
  CHECK(Whole(view->records[0]));
  CHECK(writer->Add(Numbered(3)) == a);
  view = wire::ReadLedger(writer->fd());
  CHECK(view->header.allocations == 3);
  CHECK(view->header.frees == 1);
  CHECK(view->header.used_slots == 2);
  CHECK(view->records[0].place == uint32_t(Place::kGpu));
}

TEST_CASE("the file doubles as it fills, keeps what is there, and cannot be shrunk") {
  const auto writer = Make();
  struct stat before, after;
  REQUIRE(fstat(writer->fd(), &before) == 0);
  for (uint64_t i = 1; i <= 10'000; ++i) REQUIRE(writer->Add(Numbered(i)) == i - 1);
  REQUIRE(fstat(writer->fd(), &after) == 0);
  CHECK(after.st_size > before.st_size);
  CHECK(ftruncate(writer->fd(), 4096) == -1);
  CHECK(fcntl(writer->fd(), F_GETFD) == FD_CLOEXEC);
  const auto view = wire::ReadLedger(writer->fd());
  REQUIRE(view.ok());
  REQUIRE(view->records.size() == 10'000);
  for (const auto& record : view->records) REQUIRE(Whole(record));
}

TEST_CASE(
    "past the limit on file sizes an allocation is counted in the text, and no signal comes") {
  const auto writer = Make();
  rlimit limit;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit tight = limit;
  tight.rlim_cur = 512 * 1024;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  uint32_t over = 0;
  uint64_t number = 1;
  while (number < 10'000 && over != LedgerWriter::kNoSlot) over = writer->Add(Numbered(number++));
  const bool second_made = LedgerWriter::Create().ok();
  tight.rlim_cur = 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const auto refused = LedgerWriter::Create();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);

  CHECK(over == LedgerWriter::kNoSlot);
  CHECK(second_made);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().os_errno == EFBIG);
  CHECK(std::string(wire::ReadLedgerHeader(writer->fd())->text) == "unlisted=1 (ledger full)");
  CHECK(wire::ReadLedger(writer->fd())->records.size() == number - 2);
  writer->SetPlace(over, number, Place::kHost);
  writer->Remove(over);
  CHECK(std::string(wire::ReadLedgerHeader(writer->fd())->text).empty());
}

TEST_CASE("totals and state are what was said last") {
  const auto writer = Make();
  const unsigned char uuid[16] = {1, 2, 3};
  writer->SetDevice(3, uuid);
  writer->AddResident(3, 100);
  writer->AddResident(3, -40);
  writer->AddRequested(3, 7);
  writer->AddForeign(3, wire::ForeignKind::kPool, 9);
  for (int bad : {-1, int(wire::kMaxDevices)}) {
    writer->SetDevice(bad, uuid);
    writer->AddResident(bad, 1);
  }
  writer->SetState(wire::ProcessState::kEvicting);
  writer->BeginTransition(77, 1000);
  writer->AddMoved(300);
  writer->AddMoved(200);
  writer->SetHostPool(11);
  writer->AddBackup(20, 13);
  writer->AddBackup(-8, 0);
  writer->SetUnhookedNames(14);
  writer->SetGatedThreads(15);
  auto header = wire::ReadLedgerHeader(writer->fd());
  REQUIRE(header.ok());
  CHECK(header->devices[3].used == 1);
  CHECK(header->devices[3].uuid[2] == 3);
  CHECK(header->devices[3].resident_bytes == 60);
  CHECK(header->devices[3].requested_bytes == 7);
  CHECK(header->devices[3].foreign_bytes == 9);
  CHECK(header->state == uint64_t(wire::ProcessState::kEvicting));
  CHECK(header->op_id == 77);
  CHECK(header->moved_bytes == 500);
  CHECK(header->to_move_bytes == 1000);
  CHECK(header->host_pool_bytes == 11);
  CHECK(header->host_backup_bytes == 12);
  CHECK(header->disk_backup_bytes == 13);
  CHECK(header->unhooked_names == 14);
  CHECK(header->gated_threads == 15);
  writer->EndTransition();
  CHECK(wire::ReadLedgerHeader(writer->fd())->op_id == 0);
}

TEST_CASE("the text has the settings and each warning once, cut where it ends") {
  const auto writer = Make();
  writer->SetSettings("policy=host (default)\n");
  writer->AddWarning("a");
  writer->AddWarnings("b\na\n");
  CHECK(std::string(wire::ReadLedgerHeader(writer->fd())->text) ==
        "policy=host (default)\nwarning: a\nwarning: b");
  writer->AddWarning(std::string(3000, 'x'));
  CHECK(std::string(wire::ReadLedgerHeader(writer->fd())->text).size() == 2047);
}

TEST_CASE("a reader never sees half a record while another thread writes") {
  const auto writer = Make();
  std::atomic<bool> done{false};
  // A second: long enough for a reader with a fault in its order of looks to meet it.
  std::thread writing([&] {
    uint32_t slots[64];
    for (uint32_t& slot : slots) slot = writer->Add(Numbered(1));
    uint64_t number = 1;
    for (const Deadline by = Deadline::InMs(1000); !by.Passed();) {
      for (uint32_t& slot : slots) {
        writer->Remove(slot);
        slot = writer->Add(Numbered(++number));
        writer->SetPlace(slot, number, Place::kMoving);
      }
    }
    done = true;
  });
  size_t records = 0, torn = 0, failed = 0;
  while (!done) {
    const auto view = wire::ReadLedger(writer->fd());
    if (!view.ok()) {
      ++failed;
      continue;
    }
    for (const auto& record : view->records) torn += !Whole(record);
    records += view->records.size();
  }
  writing.join();
  CHECK(records > 0);
  CHECK(torn == 0);
  CHECK(failed == 0);
  CHECK(wire::ReadLedger(writer->fd())->records.size() == 64);
}

TEST_CASE("stores come and go in slots of their own, as many as there are") {
  const auto writer = Make();
  wire::LedgerStore store = {};
  store.state = uint32_t(wire::StoreState::kIdle);
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < wire::kMaxLedgerStores; ++i) slots.push_back(writer->AddStore(store));
  CHECK(writer->AddStore(store) == LedgerWriter::kNoSlot);
  writer->RemoveStore(slots[3]);
  writer->RemoveStore(LedgerWriter::kNoSlot);
  const uint32_t again = writer->AddStore(store);
  CHECK(again == slots[3]);
  writer->ChangeStore(again, [](wire::LedgerStore& s) { s.step = 42; });
  writer->Add(Numbered(1));
  const auto read = wire::ReadLedgerStores(writer->fd());
  REQUIRE(read.ok());
  REQUIRE(read->size() == wire::kMaxLedgerStores);
  CHECK(read->back().number == wire::kMaxLedgerStores + 1);
  CHECK(read->back().step == 42);
  CHECK(wire::ReadLedger(writer->fd())->records.size() == 1);
}

TEST_CASE("a forked child that has let go of the ledger writes nothing to it") {
  const auto writer = Make();
  const uint32_t slot = writer->Add(Numbered(1));
  const pid_t child = fork();
  if (child == 0) {
    writer->AbandonAfterFork();
    writer->Add(Numbered(2));
    writer->SetPlace(slot, 1, Place::kDisk);
    writer->Remove(slot);
    writer->AddResident(0, 5);
    writer->SetState(wire::ProcessState::kFailed);
    writer->SetSettings("x");
    _exit(writer->fd() == -1 && writer->state() == wire::ProcessState::kRunning ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const auto view = wire::ReadLedger(writer->fd());
  REQUIRE(view.ok());
  REQUIRE(view->records.size() == 1);
  CHECK(view->records[0].place == uint32_t(Place::kGpu));
  CHECK(view->header.devices[0].resident_bytes == 0);
}

}  // namespace
}  // namespace parkade::shim
