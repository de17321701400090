// Measures the disk, with liburing alone: our own I/O engine must not be its own yardstick.
#include "tests/bench/disk_limit.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "common/fd.h"
#include "tests/bench/measure.h"

namespace parkade::bench {
namespace {

constexpr size_t kRequest = 1 << 20;
constexpr unsigned kDepth = 16;

enum class Direction { kWrite, kRead };

double Gbps(int file, char* memory, size_t bytes, Direction direction) {
  io_uring ring;
  if (int e = io_uring_queue_init(kDepth, &ring, 0); e < 0)
    Fail("io_uring_queue_init", strerror(-e));
  const double begin = Now();
  size_t submitted = 0, done = 0;
  unsigned in_flight = 0;
  while (done < bytes) {
    while (in_flight < kDepth && submitted < bytes) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring);
      char* at = memory + submitted % (kDepth * kRequest);
      if (direction == Direction::kWrite) {
        io_uring_prep_write(entry, file, at, kRequest, submitted);
      } else {
        io_uring_prep_read(entry, file, at, kRequest, submitted);
      }
      submitted += kRequest;
      ++in_flight;
    }
    io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* completed;
    while (io_uring_peek_cqe(&ring, &completed) == 0) {
      if (completed->res != static_cast<int>(kRequest)) Fail("disk", strerror(-completed->res));
      io_uring_cqe_seen(&ring, completed);
      --in_flight;
      done += kRequest;
    }
  }
  const double seconds = Now() - begin;
  io_uring_queue_exit(&ring);
  return static_cast<double>(bytes) / seconds * 1e-9;
}

}  // namespace

void PrintDiskLimit(const char* folder, size_t bytes) {
  bytes -= bytes % kRequest;
  const std::string path = std::string(folder) + "/limit";
  Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  if (file.get() < 0) Fail(path.c_str(), strerror(errno));
  unlink(path.c_str());
  if (int e = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); e != 0) {
    Fail(path.c_str(), strerror(e));
  }
  void* memory = mmap(nullptr, kDepth * kRequest, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap", strerror(errno));
  char* bytes_in_memory = static_cast<char*>(memory);
  printf("disk_write_gbps %.2f\n", Gbps(file.get(), bytes_in_memory, bytes, Direction::kWrite));
  printf("disk_read_gbps %.2f\n", Gbps(file.get(), bytes_in_memory, bytes, Direction::kRead));
  munmap(memory, kDepth * kRequest);
}

}  // namespace parkade::bench
