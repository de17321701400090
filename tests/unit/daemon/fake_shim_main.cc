// fake_shim SOCKET BYTES[:TAG] ...: a process of its own with a FakeShim that serves until its
// input ends. Prints "ready". A line "fork" makes a child that keeps its descriptors open, "hang
// TYPE" leaves that message unanswered until "work TYPE", "reconnect" connects to the next daemon.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/daemon/fake_shim.h"

using parkade::testing::Act;

namespace {

parkade::wire::Type TypeOf(const char* word) {
  using parkade::wire::Type;
  if (strcmp(word, "prepare\n") == 0) return Type::kPrepare;
  if (strcmp(word, "commit\n") == 0) return Type::kCommit;
  return Type::kResume;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace parkade::testing;
  if (argc < 3) return 2;
  FakeShimSettings settings;
  if (const char* job = getenv("FAKE_JOB")) settings.job = job;
  if (const char* rank = getenv("FAKE_RANK")) settings.rank = atoi(rank);
  for (int i = 2; i < argc; ++i) {
    const char* tag = strchr(argv[i], ':');
    settings.allocations.push_back({strtoull(argv[i], nullptr, 10), tag ? tag + 1 : "default"});
  }
  FakeShim shim(settings);
  if (const auto r = shim.Connect(argv[1]); !r.ok()) {
    fprintf(stderr, "fake_shim: %s\n", r.error().what);
    return 1;
  }
  printf("ready\n");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    const bool hangs = strncmp(line, "hang ", 5) == 0;
    if (hangs || strncmp(line, "work ", 5) == 0) {
      shim.On(TypeOf(line + 5), hangs ? Act::kHang : Act::kWork);
      printf("ok\n");
      fflush(stdout);
    }
    if (strcmp(line, "reconnect\n") == 0) {
      printf("%s\n", shim.Connect(argv[1]).ok() ? "ready" : "refused");
      fflush(stdout);
    }
    if (strcmp(line, "fork\n") != 0) continue;
    const pid_t child = fork();
    if (child == 0) {
      // Until the test kills it.
      for (;;) pause();
    }
    printf("%d\n", child);
    fflush(stdout);
  }
  return 0;
}
