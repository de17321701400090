// Rank and Node: a real process on the simulated GPU, paused as its ledger by hand says, and what
// of a daemon DeepPause needs.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/deep_pause.h"
#include "daemon/status.h"
#include "tests/sim/device_names.h"
#include "tests/unit/daemon/test_dir.h"
#include "tests/unit/sim/peer.h"

namespace parkade::daemon {

using parkade::testing::TestDir;
using wire::AllocationClass;

// The ledger of a process whose one allocation is out.
struct FakeLedger {
  FakeLedger() {
    header.magic = wire::kLedgerMagic;
    header.version = wire::kLedgerVersion;
    header.header_bytes = wire::kLedgerHeaderBytes;
    header.record_bytes = sizeof record;
    header.capacity = header.used_slots = 1;
    header.state = uint64_t(wire::ProcessState::kPaused);
    header.gate_mode = uint64_t(wire::GateMode::kClosed);
    header.devices[0].used = 1;
    const auto uuid = sim::DeviceUuid(0);
    memcpy(header.devices[0].uuid, uuid.data(), uuid.size());
    record.used = 1;
    record.base = 1 << 21;
    record.bytes = record.number = 1;
    record.allocation_class = uint32_t(AllocationClass::kPausable);
    record.place = uint32_t(wire::Place::kHost);
  }
  void Write() const {
    REQUIRE(ftruncate(fd.get(), wire::kLedgerHeaderBytes + sizeof record) == 0);
    REQUIRE(pwrite(fd.get(), &header, sizeof header, 0) == ssize_t(sizeof header));
    REQUIRE(pwrite(fd.get(), &record, sizeof record, wire::kLedgerHeaderBytes) ==
            ssize_t(sizeof record));
  }
  void Hold(AllocationClass allocation_class) {
    record.place = uint32_t(wire::Place::kGpu);
    record.allocation_class = uint32_t(allocation_class);
  }

  Fd fd{memfd_create("ledger", MFD_CLOEXEC)};
  wire::LedgerHeader header{};
  wire::LedgerRecord record{};
};

// A process with a context, which is paused as far as its ledger says.
struct Rank {
  explicit Rank(bool visible = true) {
    Identity identity;
    identity.boot_id = BootId();
    identity.pid = identity.own_pid = peer.pid();
    identity.uid = getuid();
    identity.gid = getgid();
    identity.visible = visible;
    member.process =
        std::make_shared<Process>(identity, Fd(int(syscall(SYS_pidfd_open, peer.pid(), 0))));
    ledger.Write();
    member.process->Connect({}, nullptr, std::make_shared<const Fd>(dup(ledger.fd.get())));
  }
  DeepMark mark() const { return member.process->View().deep; }
  std::string refusal() const { return ReasonOf(member.deep.refusal); }
  DriverProcess driver() const { return DriverProcess(member.process, Helper()); }
  // Its calls do not wait in the driver.
  bool Works() { return peer.Do("alloc 4096") == CUDA_SUCCESS && peer.Do("free") == CUDA_SUCCESS; }

  static DriverProcess::Helper Helper() {
    return {std::string(getenv("PARKADE_BIN")) + "/parkaded"};
  }

  sim::Peer peer;
  FakeLedger ledger;
  Member member;
};

struct Node {
  DeepPause Deep(std::vector<Rank*> ranks, DeepPause::Limits limits = {}) {
    std::vector<Member*> members;
    for (Rank* rank : ranks) members.push_back(&rank->member);
    return DeepPause(members, events, gpus, {Rank::Helper(), limits});
  }
  Bytes Free() const { return gpus.Read().at(0).free; }

  TestDir dir;
  Journal journal{dir.path(), BootId()};
  Events events{[this](const Event& event) { journal.Note(event); }};
  Gpus gpus;
};

}  // namespace parkade::daemon
