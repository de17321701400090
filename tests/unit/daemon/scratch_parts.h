// What tests of scratch share: identities that live or are dead, and directories made for them.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "daemon/scratch_base.h"
#include "daemon/scratch_directory.h"

namespace parkade::testing {

inline const daemon::FsUser kSelf{geteuid(), getegid(), {}};
inline const daemon::FsUser kNobody{65534, 65534, {}};

inline daemon::Identity Self() {
  return {*daemon::PidNamespace(getpid()),
          getpid(),
          *daemon::StartTicks(getpid()),
          daemon::BootId(),
          getpid(),
          geteuid(),
          getegid(),
          true};
}

// The identity of a process that has ended.
inline daemon::Identity Dead() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  daemon::Identity id = Self();
  id.pid = id.own_pid = child;
  id.start_ticks = *daemon::StartTicks(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return id;
}

inline Fd BaseOf(const std::string& base, const daemon::FsUser& user = kSelf) {
  auto fd = daemon::OpenBase({{base}, {}}, {base, daemon::BaseChoice::Source::kConfig}, user);
  INFO(fd.status());
  REQUIRE(fd.ok());
  return std::move(*fd);
}

inline std::unique_ptr<daemon::ScratchDirectory> MakeIn(const std::string& base,
                                                        daemon::Identity owner,
                                                        const daemon::FsUser& user = kSelf) {
  owner.uid = user.uid;
  auto made = daemon::ScratchDirectory::Create(BaseOf(base, user).get(), base, owner, user);
  INFO(made.status());
  REQUIRE(made.ok());
  return std::move(*made);
}

inline std::string RootOf(const std::string& base) { return base + "/" + wire::kScratchRoot; }

}  // namespace parkade::testing
