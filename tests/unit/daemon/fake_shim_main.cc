// fake_shim SOCKET BYTES[:TAG] ...: a process of its own with a FakeShim that serves until its
// input ends. Prints "ready". A line "fork" makes a child that keeps its descriptors open, "hang
// TYPE" leaves that message unanswered until "work TYPE", "reconnect" connects to the next daemon.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/text.h"
#include "tests/unit/daemon/fake_shim.h"

using parkade::testing::Act;

namespace {

parkade::wire::Type TypeOf(const char* word) {
  using parkade::wire::Type;
  if (strcmp(word, "prepare\n") == 0) return Type::kPrepare;
  if (strcmp(word, "commit\n") == 0) return Type::kCommit;
  return Type::kResume;
}

// Has the ledger list a store of that name, half way to step 8.
void ListStore(int ledger, const char* name) {
  parkade::wire::LedgerStore store = {};
  store.used = 1;
  store.number = 1;
  store.state = uint32_t(parkade::wire::StoreState::kStepping);
  store.step = 7;
  store.open_step = 8;
  store.elements = 5000;
  store.file_bytes = store.host_bytes = 4096;
  store.redundancy = 2;
  store.last_ns = 1'500'000'000;
  store.written_bytes = 1 << 20;
  parkade::CopyText(store.name, name);
  parkade::CopyText(store.segments, "main=fp32\nexp_avg=q8\n");
  parkade::CopyText(store.directories, "/nvme0\n/nvme1\n");
  [[maybe_unused]] const ssize_t n =
      pwrite(ledger, &store, sizeof store, off_t(parkade::wire::kLedgerStoresAt));
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
  if (const char* store = getenv("FAKE_STORE")) ListStore(shim.ledger(), store);
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
