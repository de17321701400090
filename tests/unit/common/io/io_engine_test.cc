// Both engines move the same bytes in the same way; a refused io_uring falls back.
#include "common/io/io_engine.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "common/io/pool_engine.h"
#include "common/io/uring_engine.h"
#include "tests/unit/common/io/pthread_starter.h"
#include "tests/unit/common/io/temporary_file.h"

namespace parkade {
namespace {

constexpr uint32_t kDepth = 8;

struct Kind {
  const char* name;
  std::function<std::unique_ptr<IoEngine>()> make;
};

std::vector<Kind> Engines() {
  std::vector<Kind> kinds;
  if (UringEngine::Create(kDepth).ok()) {
    kinds.push_back({"io_uring", [] { return std::move(*UringEngine::Create(kDepth)); }});
  } else {
    WARN("io_uring is refused here: only the pool is tested");
  }
  kinds.push_back(
      {"threads",
       [] { return std::make_unique<PoolEngine>(kDepth, std::make_unique<PthreadStarter>()); }});
  kinds.push_back(
      {"no threads",
       [] { return std::make_unique<PoolEngine>(kDepth, std::make_unique<PthreadStarter>(0)); }});
  return kinds;
}

std::vector<unsigned char> Pattern(size_t bytes, unsigned seed) {
  std::vector<unsigned char> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = (unsigned char)((i * 2654435761u + seed) >> 8);
  return pattern;
}

IoCompletion WaitOne(IoEngine& engine) {
  auto completion = engine.WaitAny(Deadline::InMs(30'000));
  REQUIRE(completion.ok());
  return *completion;
}

TEST_CASE("what is written over two files comes back, in any order of completion") {
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    auto engine = kind.make();
    const Fd a = TemporaryFile(0), b = TemporaryFile(0);
    const int files[] = {a.get(), b.get()};
    engine->UseFiles(files);
    std::vector<std::vector<unsigned char>> out;
    const size_t sizes[] = {1, 4095, 4096, 4097, 1 << 20, 3, 65536, 12289};
    uint64_t at[2] = {0, 0};
    std::vector<IoRequest> requests;
    for (uint64_t i = 0; i < kDepth; ++i) {
      out.push_back(Pattern(sizes[i], unsigned(i)));
      requests.push_back(
          {IoRequest::Kind::kWrite, uint32_t(i % 2), at[i % 2], out[i].data(), sizes[i], i});
      at[i % 2] += sizes[i];
      REQUIRE(engine->Submit(requests.back()).ok());
    }
    CHECK(engine->in_flight() == kDepth);
    CHECK_FALSE(engine->Submit(requests[0]).ok());  // deeper than it is
    std::map<uint64_t, int> seen;
    while (engine->in_flight() != 0) {
      const IoCompletion done = WaitOne(*engine);
      REQUIRE(done.result.ok());
      ++seen[done.tag];
    }
    REQUIRE(seen.size() == kDepth);

    std::vector<std::vector<unsigned char>> in;
    for (uint64_t i = 0; i < kDepth; ++i) {
      in.emplace_back(sizes[i]);
      requests[i].kind = IoRequest::Kind::kRead;
      requests[i].memory = in[i].data();
      REQUIRE(engine->Submit(requests[i]).ok());
    }
    while (engine->in_flight() != 0) REQUIRE(WaitOne(*engine).result.ok());
    CHECK(in == out);
  }
}

TEST_CASE("reading past the end is data loss, and the engine goes on") {
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    auto engine = kind.make();
    const Fd file = TemporaryFile(6000);
    const int files[] = {file.get()};
    engine->UseFiles(files);
    std::vector<unsigned char> memory(8192);
    REQUIRE(engine->Submit({IoRequest::Kind::kRead, 0, 0, memory.data(), 8192, 1}).ok());
    const IoCompletion torn = WaitOne(*engine);
    REQUIRE_FALSE(torn.result.ok());
    CHECK(torn.result.error().code == Code::kDataLoss);
    REQUIRE(engine->Submit({IoRequest::Kind::kRead, 0, 0, memory.data(), 6000, 2}).ok());
    CHECK(WaitOne(*engine).result.ok());
  }
}

TEST_CASE("a write to a file open for reading says so") {
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    auto engine = kind.make();
    const Fd file = TemporaryFile(4096);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file.get());
    const Fd read_only(open(path, O_RDONLY | O_CLOEXEC));
    const int files[] = {read_only.get()};
    engine->UseFiles(files);
    char byte = 1;
    REQUIRE(engine->Submit({IoRequest::Kind::kWrite, 0, 0, &byte, 1, 1}).ok());
    const IoCompletion done = WaitOne(*engine);
    REQUIRE_FALSE(done.result.ok());
    CHECK(done.result.error().os_errno == EBADF);
  }
}

TEST_CASE("a wait with nothing in flight ends at its deadline") {
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    const auto completion = kind.make()->WaitAny(Deadline::InMs(5));
    REQUIRE_FALSE(completion.ok());
    CHECK(completion.error().code == Code::kDeadlineExceeded);
  }
}

// Installs a filter that answers `refusal` to one system call, for the rest of this process.
bool Deny(uint32_t number, uint32_t refusal) {
  const sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, const_cast<sock_filter*>(code)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The exit code of `work` in a child of its own; -1 when a signal ended it.
int InChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kNotHere = 77;

// EPERM is also what the sysctl kernel.io_uring_disabled gives, and ENOSYS what a kernel without
// gives.
TEST_CASE("a sandbox that refuses any io_uring call gets the pool, with the reason") {
  for (const long number : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}) {
    for (const int refusal : {EPERM, ENOSYS}) {
      INFO("call " << number << " answers " << refusal);
      const int code = InChild([&] {
        if (!Deny(uint32_t(number), uint32_t(refusal))) return kNotHere;
        IoEngineChoice choice = MakeIoEngine(2, std::make_unique<PthreadStarter>(0));
        const int wanted = number == SYS_io_uring_register ? EOPNOTSUPP : refusal;
        if (!choice.uring_refusal || choice.uring_refusal->os_errno != wanted) return 1;
        const int files[] = {STDIN_FILENO};
        choice.engine->UseFiles(files);
        char byte = 0;
        const std::span<char> memory[] = {{&byte, 1}};
        if (choice.engine->UseMemory(memory)) return 4;
        if (!choice.engine->Submit({IoRequest::Kind::kRead, 0, 0, &byte, 0, 5}).ok()) return 2;
        const auto done = choice.engine->WaitAny(Deadline::InMs(5000));
        return done.ok() && done->tag == 5 ? 0 : 3;
      });
      if (code == kNotHere) {
        WARN("seccomp filters are refused here");
        continue;
      }
      CHECK(code == 0);
    }
  }
}

// Writes a block and reads it back, by registered memory where that can be had; 0 when it is right.
int RoundTrip(IoEngine& engine, int file, bool* registered) {
  static char blocks[2][8192];
  const std::span<char> memory[] = {blocks[0], blocks[1]};
  *registered = engine.UseMemory(memory);
  const int files[] = {file};
  engine.UseFiles(files);
  memset(blocks[0], 'r', sizeof blocks[0]);
  for (const auto kind : {IoRequest::Kind::kWrite, IoRequest::Kind::kRead}) {
    const int32_t block = kind == IoRequest::Kind::kWrite ? 0 : 1;
    const IoRequest request{
        kind, 0, 0, blocks[block], sizeof blocks[block], 7, *registered ? block : -1};
    if (!engine.Submit(request).ok()) return 1;
    const auto done = engine.WaitAny(Deadline::InMs(30'000));
    if (!done.ok() || !done->result.ok()) return 2;
  }
  return memcmp(blocks[0], blocks[1], sizeof blocks[0]) == 0 ? 0 : 3;
}

TEST_CASE("requests may name registered memory, where there is such a thing") {
  const Fd file = TemporaryFile(0);
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    bool registered = false;
    CHECK(RoundTrip(*kind.make(), file.get(), &registered) == 0);
    CHECK(registered == (kind.name == std::string_view("io_uring")));
  }
}

TEST_CASE("where hardly any memory may be locked, requests do without") {
  const Fd file = TemporaryFile(0);
  for (const rlim_t limit : {0, 8192}) {
    const int code = InChild([&] {
      const rlimit few = {limit, limit};
      // Root may lock as much as it likes.
      if (setrlimit(RLIMIT_MEMLOCK, &few) != 0 || setresuid(65534, 65534, 65534) != 0) {
        return kNotHere;
      }
      bool registered = true;
      auto choice = MakeIoEngine(2, std::make_unique<PthreadStarter>(0));
      const int wrong = RoundTrip(*choice.engine, file.get(), &registered);
      return registered ? 4 : wrong;
    });
    if (code == kNotHere) {
      WARN("a limit on locked memory needs root to be tried");
      continue;
    }
    CHECK(code == 0);
  }
}

// Runs `work` in a child with a limit on file sizes of 64 KiB, on a thread that blocks every signal
// as the shim's do; its exit code, or -1 when a signal ended it.
int UnderFileLimit(int (*work)(IoEngine& engine), const Kind& kind) {
  return InChild([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    const rlimit limit = {64 << 10, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return kNotHere;
    return work(*kind.make());
  });
}

TEST_CASE(
    "a write past the limit on file sizes is an error, no signal, also in a file that is large") {
  for (const Kind& kind : Engines()) {
    INFO(kind.name);
    const auto work = [](IoEngine& engine) {
      char path[] = "./parkade-unit-XXXXXX";
      const Fd file(mkostemp(path, O_CLOEXEC));
      unlink(path);
      static char memory[128 << 10];
      const int files[] = {file.get()};
      engine.UseFiles(files);
      // Across the limit, and beyond it.
      for (const uint64_t at : {uint64_t(0), uint64_t(1) << 20}) {
        if (!engine.Submit({IoRequest::Kind::kWrite, 0, at, memory, sizeof memory, at}).ok())
          return 1;
        const auto done = engine.WaitAny(Deadline::InMs(30'000));
        if (!done.ok() || done->result.ok()) return 2;
        if (done->result.error().os_errno != EFBIG) return 3;
      }
      return 0;
    };
    const int code = UnderFileLimit(work, kind);
    CHECK((code == 0 || code == kNotHere));
  }
}

TEST_CASE("an engine that is abandoned begins nothing any more") {
  PoolEngine engine(kDepth, std::make_unique<PthreadStarter>(0));
  const Fd file = TemporaryFile(4096);
  const int files[] = {file.get()};
  engine.UseFiles(files);
  char written[] = "written";
  REQUIRE(engine.Submit({IoRequest::Kind::kWrite, 0, 0, written, sizeof written, 1}).ok());
  engine.Abandon();
  CHECK_FALSE(engine.WaitAny(Deadline::InMs(5)).ok());
  char read[sizeof written] = {};
  REQUIRE(pread(file.get(), read, sizeof read, 0) == ssize_t(sizeof read));
  CHECK(read[0] == 0);
}

TEST_CASE("the pool writes to the file that it was given, whatever becomes of its number") {
  PoolEngine engine(kDepth, std::make_unique<PthreadStarter>());
  Fd file = TemporaryFile(4096);
  const Fd same(dup(file.get()));
  const int files[] = {file.get()};
  engine.UseFiles(files);
  const int number = file.get();
  const Fd other = TemporaryFile(4096);
  REQUIRE(dup3(other.get(), number, O_CLOEXEC) == number);  // closed and used again
  char written[] = "written";
  REQUIRE(engine.Submit({IoRequest::Kind::kWrite, 0, 0, written, sizeof written, 1}).ok());
  REQUIRE(WaitOne(engine).result.ok());
  char read[sizeof written] = {};
  REQUIRE(pread(same.get(), read, sizeof read, 0) == ssize_t(sizeof read));
  CHECK(strcmp(read, written) == 0);
  REQUIRE(pread(other.get(), read, sizeof read, 0) == ssize_t(sizeof read));
  CHECK(read[0] == 0);
}

}  // namespace
}  // namespace parkade
