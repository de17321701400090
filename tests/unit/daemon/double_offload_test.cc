// Signs of a second offloader in a process.
#include "daemon/double_offload.h"

#include <catch2/catch.hpp>

#include "common/bytes.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

constexpr std::string_view kOrdinary =
    "7f10-7f20 r-xp 00000000 08:01 11 /opt/torch/lib/libtorch_cuda.so\n"
    "7f20-7f30 r-xp 00000000 08:01 12 /opt/parkade/lib/libparkade.so\n"
    "7f30-7f40 rw-p 00000000 00:00 0 \n";

wire::LedgerHeader With(Bytes resident, Bytes pinned) {
  wire::LedgerHeader ledger{};
  ledger.devices[0].used = 1;
  ledger.devices[0].resident_bytes = resident;
  ledger.pinned_bytes = pinned;
  return ledger;
}

}  // namespace

TEST_CASE("an ordinary process has no sign of a second offloader") {
  CHECK(DoubleOffload(With(64_GiB, 512_MiB), kOrdinary).empty());
  CHECK(DoubleOffload(With(64_GiB, 0), "").empty());
  CHECK(DoubleOffload(With(1_GiB, 512_MiB), kOrdinary).empty());  // what everybody pins
  CHECK(DoubleOffload(With(64_GiB, 15_GiB), kOrdinary).empty());
}

TEST_CASE("much pinned memory beside what is moved is a sign") {
  const auto signs = DoubleOffload(With(64_GiB, 16_GiB), kOrdinary);
  REQUIRE(signs.size() == 1);
  CHECK(signs[0].find("pinned 16.0 GiB") != std::string::npos);
  CHECK(signs[0].find("64.0 GiB that Parkade moves") != std::string::npos);
  auto paused = With(0, 16_GiB);
  paused.host_backup_bytes = 40_GiB;
  paused.disk_backup_bytes = 30_GiB;
  CHECK(DoubleOffload(paused, kOrdinary).empty());
  paused.disk_backup_bytes = 24_GiB;
  CHECK(DoubleOffload(paused, kOrdinary).size() == 1);
}

TEST_CASE("claims that make no sense are figures like others") {
  auto ledger = With(UINT64_MAX, UINT64_MAX);
  ledger.host_backup_bytes = ledger.disk_backup_bytes = UINT64_MAX;
  CHECK(DoubleOffload(ledger, "").size() == 1);
}

TEST_CASE("libraries of other offloaders are known by their files, ours under any name is none") {
  const std::string maps(kOrdinary);
  const auto with = [&](const char* path) {
    return DoubleOffload(With(1_GiB, 0), maps + "7f40-7f50 r-xp 0 08:01 13 " + path + "\n");
  };
  CHECK(with("/x/torch_memory_saver_hook_mode_preload.abi3.so").size() == 1);
  CHECK(with("/x/cpu_adam.so").size() == 1);
  CHECK(with("/x/kvcached_vmm.so (deleted)").size() == 1);
  CHECK(with("/opt/parkade/lib/libparkade_torch_memory_saver.so").empty());
  CHECK(with("/y/torch_memory_saver/lib/libother.so").empty());
  CHECK(DoubleOffload(With(1_GiB, 0), "7f40-7f50 r-xp 0 08:01 13 /x/cpu_adam.so").size() == 1);
}
