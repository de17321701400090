// Submits transfers to an io_uring and carries unfinished ones on.
#include "common/io/uring_engine.h"

#include <cerrno>

namespace parkade {
namespace {

__kernel_timespec Left(Deadline by) {
  const uint64_t ns = by.LeftNs();
  return {int64_t(ns / 1'000'000'000), int64_t(ns % 1'000'000'000)};
}

}  // namespace

UringEngine::UringEngine(uint32_t depth) : slots_(depth) {
  free_slots_.reserve(depth);
  for (uint32_t i = depth; i > 0; --i) free_slots_.push_back(i - 1);
}

Result<std::unique_ptr<UringEngine>> UringEngine::Create(uint32_t depth) {
  std::unique_ptr<UringEngine> engine(new UringEngine(depth));
  const int made = io_uring_queue_init(depth, &engine->ring_, IORING_SETUP_CLAMP);
  if (made < 0) return OsError(-made, "io_uring_setup with %u entries", depth);
  engine->ring_made_ = true;
  // A forked child must not see, and by exit not disturb, the parent's ring.
  const int unshared = io_uring_ring_dontfork(&engine->ring_);
  if (unshared < 0) return OsError(-unshared, "keeping the io_uring from forked children");

  io_uring_probe* probe = io_uring_get_probe_ring(&engine->ring_);
  const bool reads_and_writes = probe != nullptr &&
                                io_uring_opcode_supported(probe, IORING_OP_READ) &&
                                io_uring_opcode_supported(probe, IORING_OP_WRITE);
  io_uring_free_probe(probe);
  if (!reads_and_writes) return OsError(EOPNOTSUPP, "io_uring without plain reads and writes");
  if (auto r = engine->RoundTrip(); !r.ok()) return r.error();
  return engine;
}

UringEngine::~UringEngine() {
  if (ring_made_) io_uring_queue_exit(&ring_);
}

// A seccomp filter may let the ring be made and refuse io_uring_enter.
Result<void> UringEngine::RoundTrip() {
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  const int sent = io_uring_submit(&ring_);
  if (sent < 0) return OsError(-sent, "io_uring_enter");
  __kernel_timespec second{1, 0};
  io_uring_cqe* cqe = nullptr;
  const int got = io_uring_wait_cqe_timeout(&ring_, &cqe, &second);
  if (got < 0) return OsError(-got, "waiting for an io_uring no-op");
  io_uring_cqe_seen(&ring_, cqe);
  return {};
}

void UringEngine::UseFiles(std::span<const int> files) {
  if (files_registered_) io_uring_unregister_files(&ring_);
  files_.assign(files.begin(), files.end());
  // Refused by some limits; plain descriptors do as well, a little slower.
  files_registered_ = !files_.empty() &&
                      io_uring_register_files(&ring_, files_.data(), unsigned(files_.size())) == 0;
}

bool UringEngine::UseMemory(std::span<const std::span<char>> blocks) {
  std::vector<iovec> vectors;
  for (const std::span<char>& block : blocks) vectors.push_back({block.data(), block.size()});
  memory_registered_ = !vectors.empty() && io_uring_register_buffers(&ring_, vectors.data(),
                                                                     unsigned(vectors.size())) == 0;
  return memory_registered_;
}

// The queue has as many entries as there are slots, so an entry is always free here.
void UringEngine::Queue(uint32_t slot) {
  const Transfer& transfer = slots_[slot];
  const uint32_t file = transfer.request().file;
  const int fd = files_registered_ ? int(file) : files_[file];
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  const bool reads = transfer.request().kind == IoRequest::Kind::kRead;
  const bool fixed = memory_registered_ && transfer.request().registered >= 0;
  const uint8_t call = reads ? (fixed ? IORING_OP_READ_FIXED : IORING_OP_READ)
                             : (fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE);
  io_uring_prep_rw(call, sqe, fd, transfer.memory(), unsigned(transfer.bytes()), transfer.offset());
  if (fixed) sqe->buf_index = uint16_t(transfer.request().registered);
  if (files_registered_) sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, slot);
}

Result<void> UringEngine::Push() {
  while (io_uring_sq_ready(&ring_) != 0) {
    const int sent = io_uring_submit(&ring_);
    if (sent >= 0 || sent == -EINTR) continue;
    // Out of kernel memory for now, or completions wait to be read: WaitAny pushes again.
    if ((sent == -EAGAIN || sent == -EBUSY) && in_flight() > io_uring_sq_ready(&ring_)) return {};
    return OsError(-sent, "io_uring_enter with %u requests", io_uring_sq_ready(&ring_));
  }
  return {};
}

Result<void> UringEngine::Submit(const IoRequest& request) {
  if (free_slots_.empty() || request.file >= files_.size()) {
    return MakeError(Code::kInternal, "IO_DEPTH", "request for file %u of %zu with %u in flight",
                     request.file, files_.size(), in_flight());
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = Transfer(request);
  Queue(slot);
  return Push();
}

Result<IoCompletion> UringEngine::WaitAny(Deadline by) {
  while (in_flight() != 0) {
    if (auto r = Push(); !r.ok()) return r.error();
    io_uring_cqe* cqe = nullptr;
    __kernel_timespec left = Left(by);
    int got = io_uring_peek_cqe(&ring_, &cqe);
    if (got == -EAGAIN && !by.Passed()) got = io_uring_wait_cqe_timeout(&ring_, &cqe, &left);
    if (got == -EINTR) continue;
    if (got == -ETIME || got == -EAGAIN) break;
    if (got < 0) return OsError(-got, "waiting for io_uring completions");

    const uint32_t slot = uint32_t(io_uring_cqe_get_data64(cqe));
    const int outcome = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (slots_[slot].Advance(outcome) == Transfer::Next::kCallAgain) {
      Queue(slot);
      continue;
    }
    free_slots_.push_back(slot);
    return IoCompletion{slots_[slot].request().tag, slots_[slot].result()};
  }
  return MakeError(Code::kDeadlineExceeded, "TIMED_OUT", "waiting for one of %u requests",
                   in_flight());
}

}  // namespace parkade
