// Peer: a second process on the simulated node, told what to do line by line (peer.cc).
#pragma once

#include <cuda.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/fd.h"

namespace parkade::sim {

// A running sim_peer with a context on GPU 0.
class Peer {
 public:
  Peer() {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    char program[] = SIM_PEER;
    char* argv[] = {program, nullptr};
    REQUIRE(posix_spawn(&pid_, program, &actions, nullptr, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_.Reset(in[1]);
    from_.Reset(out[0]);
    REQUIRE(Answer() == CUDA_SUCCESS);
  }
  ~Peer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  CUresult Do(const std::string& line) {
    Say(line);
    return Answer();
  }
  void Say(const std::string& line) {
    const std::string text = line + "\n";
    REQUIRE(write(to_.get(), text.data(), text.size()) == ssize_t(text.size()));
  }
  // Whether an answer is there within so long.
  bool HasAnswered(int wait_ms) {
    pollfd answer{from_.get(), POLLIN, 0};
    return poll(&answer, 1, wait_ms) == 1;
  }
  CUresult Answer() {
    std::string text;
    for (char c = 0; read(from_.get(), &c, 1) == 1 && c != '\n';) text += c;
    REQUIRE_FALSE(text.empty());
    return CUresult(std::stoi(text));
  }
  // Returns when it is dead, before anybody has waited for it.
  void Kill() {
    kill(pid_, SIGKILL);
    siginfo_t info;
    REQUIRE(waitid(P_PID, id_t(pid_), &info, WEXITED | WNOWAIT) == 0);
  }

 private:
  pid_t pid_ = 0;
  Fd to_;
  Fd from_;
};

}  // namespace parkade::sim
