// The disk's limit for what a store does, with liburing alone.
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "common/fd.h"
#include "common/store/encode_math.h"
#include "tests/bench/measure.h"
#include "tests/bench/store_loops.h"

namespace parkade::bench {
namespace {

constexpr size_t kBlock = 4 << 20;
constexpr unsigned kDepth = 16;

class Turns {
 public:
  Turns(const char* folder, size_t most);
  ~Turns();
  double Mixed(size_t bytes);
  double Phased(size_t bytes, size_t phase);
  // One direction, from `offset` on.
  void Go(bool write, size_t offset, size_t bytes);

 private:
  void Submit(bool write, unsigned slot, size_t offset);
  // The slots of the requests that are done by now, one at least.
  std::vector<unsigned> Done();

  Fd file_;
  char* memory_;
  io_uring ring_{};
};

Turns::Turns(const char* folder, size_t most)
    : file_(open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)) {
  if (!file_) Fail(folder, strerror(errno));
  if (int e = posix_fallocate(file_.get(), 0, off_t(most)); e != 0) Fail(folder, strerror(e));
  void* mapped =
      mmap(nullptr, kDepth * kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap", strerror(errno));
  madvise(mapped, kDepth * kBlock, MADV_HUGEPAGE);
  memory_ = static_cast<char*>(mapped);
  for (size_t i = 0; i < kDepth * kBlock / 8; ++i) {
    reinterpret_cast<uint64_t*>(memory_)[i] = store::Mix(i);
  }
  if (int e = io_uring_queue_init(kDepth, &ring_, 0); e < 0) Fail("io_uring", strerror(-e));
  Go(true, 0, most);  // what was never written is read without the disk
}

Turns::~Turns() {
  io_uring_queue_exit(&ring_);
  munmap(memory_, kDepth * kBlock);
}

void Turns::Submit(bool write, unsigned slot, size_t offset) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  char* const at = memory_ + slot * kBlock;
  if (write) {
    io_uring_prep_write(entry, file_.get(), at, unsigned(kBlock), offset);
  } else {
    io_uring_prep_read(entry, file_.get(), at, unsigned(kBlock), offset);
  }
  io_uring_sqe_set_data64(entry, slot);
}

std::vector<unsigned> Turns::Done() {
  io_uring_submit_and_wait(&ring_, 1);
  std::vector<unsigned> slots;
  io_uring_cqe* completed;
  while (io_uring_peek_cqe(&ring_, &completed) == 0) {
    if (completed->res != int(kBlock)) {
      Fail("disk", completed->res < 0 ? strerror(-completed->res) : "short transfer");
    }
    slots.push_back(unsigned(io_uring_cqe_get_data64(completed)));
    io_uring_cqe_seen(&ring_, completed);
  }
  return slots;
}

void Turns::Go(bool write, size_t offset, size_t bytes) {
  size_t next = offset, done = 0;
  const size_t end = offset + bytes;
  for (unsigned slot = 0; slot < kDepth && next < end; ++slot, next += kBlock) {
    Submit(write, slot, next);
  }
  while (done < bytes) {
    for (unsigned slot : Done()) {
      done += kBlock;
      if (next == end) continue;
      Submit(write, slot, next);
      next += kBlock;
    }
  }
}

double Turns::Mixed(size_t bytes) {
  struct {
    size_t offset;
    bool writing;
  } slots[kDepth] = {};
  const double begin = Now();
  size_t next = 0, written = 0;
  for (unsigned slot = 0; slot < kDepth && next < bytes; ++slot, next += kBlock) {
    slots[slot] = {next, false};
    Submit(false, slot, next);
  }
  while (written < bytes) {
    for (unsigned slot : Done()) {
      if (!slots[slot].writing) {
        slots[slot].writing = true;
        Submit(true, slot, slots[slot].offset);
        continue;
      }
      written += kBlock;
      if (next == bytes) continue;
      slots[slot] = {next, false};
      Submit(false, slot, next);
      next += kBlock;
    }
  }
  return 2.0 * double(bytes) / (Now() - begin) * 1e-9;
}

double Turns::Phased(size_t bytes, size_t phase) {
  const double begin = Now();
  for (size_t at = 0; at < bytes; at += phase) {
    const size_t part = std::min(phase, bytes - at);
    Go(false, at, part);
    Go(true, at, part);
  }
  return 2.0 * double(bytes) / (Now() - begin) * 1e-9;
}

}  // namespace

void ServeDiskTurns(const char* folder, size_t most) {
  most = most / kBlock * kBlock;
  if (most == 0) Fail("turns", "BYTES must be 4 MiB at least");
  Turns turns(folder, most);
  const auto whole = [most](size_t bytes) {
    return std::clamp(bytes / kBlock * kBlock, kBlock, most);
  };
  for (char line[64]; fgets(line, sizeof line, stdin) != nullptr;) {
    size_t bytes = 0, phase = 0;
    if (sscanf(line, "mixed %zu", &bytes) == 1) {
      Answer(turns.Mixed(whole(bytes)));
    } else if (sscanf(line, "phased %zu %zu", &bytes, &phase) == 2) {
      Answer(turns.Phased(whole(bytes), whole(phase)));
    } else {
      Fail(line, "is neither mixed BYTES nor phased BYTES PHASE");
    }
  }
}

}  // namespace parkade::bench
