// UringEngine: the IoEngine over one io_uring.
#pragma once

#include <liburing.h>

#include <memory>
#include <vector>

#include "common/io/io_engine.h"
#include "common/io/transfer.h"

namespace parkade {

class UringEngine final : public IoEngine {
 public:
  // Fails with an OsError when the kernel, a sysctl, seccomp or a limit refuses any part.
  static Result<std::unique_ptr<UringEngine>> Create(uint32_t depth);
  ~UringEngine() override;

  void UseFiles(std::span<const int> files) override;
  bool UseMemory(std::span<const std::span<char>> blocks) override;
  Result<void> Submit(const IoRequest& request) override;
  Result<IoCompletion> WaitAny(Deadline by) override;
  void Abandon() override {}  // the kernel holds the files of what it has been given
  uint32_t in_flight() const override { return depth() - uint32_t(free_slots_.size()); }
  uint32_t depth() const override { return uint32_t(slots_.size()); }

 private:
  explicit UringEngine(uint32_t depth);
  Result<void> RoundTrip();
  void Queue(uint32_t slot);
  Result<void> Push();

  io_uring ring_{};
  bool ring_made_ = false;
  bool files_registered_ = false;
  bool memory_registered_ = false;
  std::vector<int> files_;
  std::vector<Transfer> slots_;
  std::vector<uint32_t> free_slots_;
};

}  // namespace parkade
