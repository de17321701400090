// A disk that fails in every way it knows, at every write and read: bytes, states and reasons.
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/unit/shim/pause/parked_process.h"

namespace parkade::shim {
namespace {

using wire::Policy;
using wire::ProcessState;

EvictionPlan Plan() {
  EvictionPlan plan;
  plan.chunk_bytes = 2_MiB;  // blocks of 512 KiB
  return plan;
}

std::unique_ptr<ParkedProcess> Start() {
  auto p = std::make_unique<ParkedProcess>();
  p->files_in_memory = true;
  p->Allocate(1_MiB, "a");
  p->Allocate(512_KiB, "b");
  p->Allocate(5000, "c");
  return p;
}

int CleanCompletions() {
  auto p = Start();
  REQUIRE(p->Pause(Policy::kDisk, Plan()).result.ok());
  return FaultyEngine::plan.completions;
}

void RequireWorks(ParkedProcess& p) {
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  FaultyEngine::plan.fail_at = FaultyEngine::plan.stall_at = 0;
  REQUIRE(p.Pause(Policy::kDisk, Plan()).result.ok());
  REQUIRE(p.Resume().result.ok());
  REQUIRE(p.Runs());
  REQUIRE(p.BytesRight());
  REQUIRE(p.fake.mistakes() == 0);
}

TEST_CASE("each error of a write undoes the pause and keeps its reason") {
  const struct {
    int os_errno;
    Code code;
    const char* reason;
  } kinds[] = {
      {EIO, Code::kInternal, "OS_ERROR"},
      {ENOSPC, Code::kResourceExhausted, "DISK_SPACE"},
      {EDQUOT, Code::kResourceExhausted, "DISK_QUOTA"},
      {EFBIG, Code::kResourceExhausted, "FILE_SIZE_LIMIT"},
      {EROFS, Code::kFailedPrecondition, "READ_ONLY"},
  };
  const int writes = CleanCompletions();
  int tried = 0;
  for (const auto& kind : kinds) {
    for (int n = 1; n <= writes; ++n) {
      INFO("errno " << kind.os_errno << " at write " << n);
      auto p = Start();
      FaultyEngine::plan.error = OsError(kind.os_errno, "writing");
      FaultyEngine::plan.fail_at = n;
      const auto outcome = p->Pause(Policy::kDisk, Plan());
      REQUIRE_FALSE(outcome.result.ok());
      CHECK(outcome.result.error().code == kind.code);
      CHECK(std::string_view(outcome.result.error().reason) == kind.reason);
      REQUIRE(p->pool.used() == 0);
      RequireWorks(*p);
      ++tried;
    }
  }
  printf("disk: %d writes with an error\n", tried);
}

TEST_CASE("each error of a read leaves the process paused and names the allocation") {
  const int reads = CleanCompletions();
  for (const int os_errno : {EIO, EROFS, ESTALE}) {
    for (int n = 1; n <= reads; ++n) {
      auto p = Start();
      REQUIRE(p->Pause(Policy::kDisk, Plan()).result.ok());
      FaultyEngine::plan.error = OsError(os_errno, "reading");
      FaultyEngine::plan.fail_at = FaultyEngine::plan.completions + n;
      const auto outcome = p->Resume();
      REQUIRE_FALSE(outcome.result.ok());
      CHECK(outcome.result.error().os_errno == os_errno);
      CHECK(std::string_view(outcome.result.error().what).find("the backup of 0x") == 0);
      REQUIRE(p->Is(ProcessState::kPaused));
      REQUIRE(p->fake.handle_bytes() == 0);
      REQUIRE(p->Resume().result.ok());
      RequireWorks(*p);
    }
  }
}

bool SaysUnpinned(const ParkedProcess& p) {
  const auto ledger = wire::ReadLedgerHeader(p.ledger->fd());
  REQUIRE(ledger.ok());
  return ReadText(ledger->text).find("memory that is not pinned") != std::string_view::npos;
}

TEST_CASE("memory that the kernel refuses to touch is replaced by pageable memory") {
  const int each = CleanCompletions();
  for (int n = 1; n <= 2 * each; ++n) {
    INFO("completion " << n);
    auto p = Start();
    FaultyEngine::plan.error = OsError(EFAULT, "touching");
    FaultyEngine::plan.fail_at = n;
    REQUIRE(p->Pause(Policy::kDisk, Plan()).result.ok());
    REQUIRE(p->Resume().result.ok());
    CHECK(SaysUnpinned(*p));
    REQUIRE(p->pool.used() == 0);
    RequireWorks(*p);
  }
  auto p = Start();
  FaultyEngine::plan.error = OsError(EFAULT, "touching");
  FaultyEngine::plan.fail_also = FaultyMemory::Has;  // all that is pinned, for ever
  for (int cycle = 0; cycle < 2; ++cycle) {
    REQUIRE(p->Pause(Policy::kDisk, Plan()).result.ok());
    REQUIRE(p->Resume().result.ok());
    REQUIRE(p->BytesRight());
  }
  FaultyEngine::plan.fail_also = [](const void*) { return true; };
  const auto refused = p->Pause(Policy::kDisk, Plan());
  REQUIRE_FALSE(refused.result.ok());
  CHECK(refused.result.error().os_errno == EFAULT);
  FaultyEngine::plan.fail_also = nullptr;
  RequireWorks(*p);
  printf("disk: %d blocks whose pinned memory was refused\n", 2 * each);
}

TEST_CASE("a disk that hangs in a pause undoes it; in a resume the process stays paused") {
  const int each = CleanCompletions();
  for (int n = 1; n <= each; ++n) {
    INFO("completion " << n << " never comes");
    auto p = Start();
    FaultyEngine::plan.stall_at = n;
    const auto paused = p->Pause(Policy::kDisk, Plan());
    REQUIRE_FALSE(paused.result.ok());
    CHECK(paused.result.error().code == Code::kDeadlineExceeded);
    CHECK(std::string_view(paused.result.error().reason) == "DISK_STALLED");
    RequireWorks(*p);

    p.reset();  // one fake driver at a time
    p = Start();
    REQUIRE(p->Pause(Policy::kDisk, Plan()).result.ok());
    FaultyEngine::plan.stall_at = FaultyEngine::plan.completions + n;
    const auto resumed = p->Resume();
    REQUIRE_FALSE(resumed.result.ok());
    CHECK(std::string_view(resumed.result.error().reason) == "DISK_STALLED");
    REQUIRE(p->Is(ProcessState::kPaused));
    FaultyEngine::plan.stall_at = 0;
    REQUIRE(p->Resume().result.ok());
    RequireWorks(*p);
  }
  CHECK(FaultyEngine::abandoned.size() == size_t(2 * each));
}

// The thread sanitizer lets no child of a process with threads start any.
#ifndef __SANITIZE_THREAD__
TEST_CASE(
    "a limit on file sizes below the backup is an error before anything moves, never a signal") {
  const pid_t child = fork();
  if (child == 0) {
    auto p = std::make_unique<ParkedProcess>();
    p->Allocate(40_MiB);
    p->Allocate(1_MiB);
    std::vector<Fd> files;
    files.push_back(TemporaryFile(42_MiB));
    std::vector<Fd> again;
    again.push_back(TemporaryFile(42_MiB));
    const rlimit limit = {16 << 20, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(77);
    EvictionPlan plan;
    plan.policy = Policy::kDisk;
    plan.disk_bytes = 42_MiB;
    plan.files = files;
    if (!p->Prepare().result.ok()) _exit(1);
    const auto outcome = p->freezer.Commit(2, plan);
    if (outcome.result.ok()) _exit(2);
    if (std::string_view(outcome.result.error().reason) != "FILE_SIZE_LIMIT") _exit(3);
    if (p->fake.Calls("cuMemcpyDtoHAsync") != 0) _exit(4);
    if (!p->Runs() || !p->BytesRight()) _exit(5);
    // As much as may be written can be, also in a file that is larger.
    CUresult freed = CUDA_ERROR_UNKNOWN;
    if (!p->heap.Free(p->app[0].ptr, &freed)) _exit(6);
    p->app.erase(p->app.begin());
    plan.files = again;
    if (!p->Prepare().result.ok() || !p->freezer.Commit(2, plan).result.ok()) _exit(7);
    _exit(p->Resume().result.ok() && p->BytesRight() ? 0 : 8);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}
#endif

}  // namespace
}  // namespace parkade::shim
