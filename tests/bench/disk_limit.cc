// Measures the disk, with liburing alone: our own I/O engine must not be its own yardstick.
#include "tests/bench/disk_limit.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/fd.h"
#include "tests/bench/measure.h"

namespace parkade::bench {
namespace {

enum class Direction { kWrite, kRead };

class Loop {
 public:
  explicit Loop(const DiskLoop& loop);
  ~Loop();
  double Gbps(Direction direction);

 private:
  void Submit(Direction direction, unsigned slot, size_t offset);

  const DiskLoop loop_;
  Fd file_;
  char* memory_;
  io_uring ring_{};
};

Loop::Loop(const DiskLoop& loop)
    : loop_(loop), file_(open(loop.folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)) {
  if (!file_) {  // a file system without O_TMPFILE
    const std::string path = std::string(loop.folder) + "/limit";
    file_.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600));
    if (!file_) Fail(path.c_str(), strerror(errno));
    unlink(path.c_str());
  }
  if (int e = posix_fallocate(file_.get(), 0, off_t(loop.bytes)); e != 0) {
    Fail(loop.folder, strerror(e));
  }
  const size_t memory = loop.depth * loop.block;
  void* mapped = mmap(nullptr, memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap", strerror(errno));
  madvise(mapped, memory, MADV_HUGEPAGE);
  memory_ = static_cast<char*>(mapped);
  // A disk may have a short way for zeros.
  uint64_t word = 1;
  for (size_t i = 0; i < memory / sizeof word; ++i) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    reinterpret_cast<uint64_t*>(memory_)[i] = word;
  }
  if (int e = io_uring_queue_init(loop.depth, &ring_, 0); e < 0) {
    Fail("io_uring_queue_init", strerror(-e));
  }
}

Loop::~Loop() {
  io_uring_queue_exit(&ring_);
  munmap(memory_, loop_.depth * loop_.block);
}

void Loop::Submit(Direction direction, unsigned slot, size_t offset) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  char* const at = memory_ + slot * loop_.block;
  if (direction == Direction::kWrite) {
    io_uring_prep_write(entry, file_.get(), at, unsigned(loop_.block), offset);
  } else {
    io_uring_prep_read(entry, file_.get(), at, unsigned(loop_.block), offset);
  }
  io_uring_sqe_set_data64(entry, slot);
}

double Loop::Gbps(Direction direction) {
  std::vector<unsigned> free_slots;
  for (unsigned slot = 0; slot < loop_.depth; ++slot) free_slots.push_back(slot);
  const double begin = Now();
  for (size_t submitted = 0, done = 0; done < loop_.bytes;) {
    for (; !free_slots.empty() && submitted < loop_.bytes; submitted += loop_.block) {
      Submit(direction, free_slots.back(), submitted);
      free_slots.pop_back();
    }
    io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* completed;
    while (io_uring_peek_cqe(&ring_, &completed) == 0) {
      if (completed->res != int(loop_.block)) {
        Fail("disk", completed->res < 0 ? strerror(-completed->res) : "short transfer");
      }
      free_slots.push_back(unsigned(io_uring_cqe_get_data64(completed)));
      io_uring_cqe_seen(&ring_, completed);
      done += loop_.block;
    }
  }
  return double(loop_.bytes) / (Now() - begin) * 1e-9;
}

}  // namespace

void ServeDisk(const DiskLoop& asked) {
  if (asked.block == 0 || asked.block % 4096 != 0 || asked.depth == 0 ||
      asked.bytes < asked.block) {
    Fail("disk", "BLOCK must be a multiple of 4096, DEPTH at least 1, BYTES at least a block");
  }
  DiskLoop whole_blocks = asked;
  whole_blocks.bytes -= asked.bytes % asked.block;
  Loop loop(whole_blocks);
  for (char line[32]; fgets(line, sizeof line, stdin) != nullptr;) {
    const bool writes = strcmp(line, "write\n") == 0;
    if (!writes && strcmp(line, "read\n") != 0) Fail(line, "is neither write nor read");
    Answer(loop.Gbps(writes ? Direction::kWrite : Direction::kRead));
  }
}

}  // namespace parkade::bench
