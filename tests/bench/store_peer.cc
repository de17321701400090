// One thing after the other: what a program does that keeps its optimizer state in a file.
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/fd.h"
#include "shim/kernels/images.h"
#include "shim/kernels/store_quads.h"
#include "tests/bench/measure.h"
#include "tests/bench/store_loops.h"

namespace parkade::bench {
namespace {

constexpr uint64_t kBytes = 12;  // an element

class Peer {
 public:
  Peer(const char* folder, uint64_t elements, size_t chunk);
  ~Peer();
  void Step();

 private:
  void All(bool write, uint64_t offset, size_t bytes);
  void Adam(uint64_t first, uint64_t numel);

  const uint64_t elements_, in_chunk_;
  Fd file_;
  void* host_ = nullptr;
  CUdeviceptr device_ = 0, weights_ = 0, gradients_ = 0, piece_ = 0;
  CUmodule module_ = nullptr;
  CUfunction adam_ = nullptr;
  uint64_t step_ = 0;
};

Peer::Peer(const char* folder, uint64_t elements, size_t chunk)
    : elements_(elements / 32 * 32),
      in_chunk_(std::max<uint64_t>(chunk / kBytes / 32 * 32, 32)),
      file_(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
  if (!file_) Fail(folder, strerror(errno));
  if (elements_ == 0) Fail("peer", "ELEMENTS must be 32 at least");
  Check(cuMemHostAlloc(&host_, in_chunk_ * kBytes, 0), "cuMemHostAlloc");
  Check(cuMemAlloc(&device_, in_chunk_ * kBytes), "cuMemAlloc");
  Check(cuMemAlloc(&weights_, elements_ * 2), "cuMemAlloc");
  Check(cuMemAlloc(&gradients_, elements_ * 2), "cuMemAlloc");
  Check(cuMemAlloc(&piece_, sizeof(StorePiece) + sizeof(StoreFindings)), "cuMemAlloc");
  Check(cuMemsetD16(gradients_, 0x3a83, elements_), "cuMemsetD16");
  if (cuModuleLoadData(&module_, shim::StoreFatbin()) != CUDA_SUCCESS) {
    Check(cuModuleLoadData(&module_, shim::StorePtx()), "cuModuleLoadData");
  }
  Check(cuModuleGetFunction(&adam_, module_, shim::kStoreAdam), "cuModuleGetFunction");
  auto* const values = static_cast<float*>(host_);
  for (uint64_t i = 0; i < in_chunk_ * 3; ++i) {
    values[i] = float(store::Mix(i) >> 40) * 1e-8f;  // second moments are not below zero
  }
  for (uint64_t at = 0; at < elements_; at += in_chunk_) {
    All(true, at * kBytes, std::min(in_chunk_, elements_ - at) * kBytes);
  }
}

Peer::~Peer() {
  for (const CUdeviceptr memory : {device_, weights_, gradients_, piece_}) cuMemFree(memory);
  cuMemFreeHost(host_);
  cuModuleUnload(module_);
}

void Peer::All(bool write, uint64_t offset, size_t bytes) {
  auto* const at = static_cast<char*>(host_);
  for (size_t done = 0; done < bytes;) {
    const auto place = off_t(offset + done);
    const ssize_t n = write ? pwrite(file_.get(), at + done, bytes - done, place)
                            : pread(file_.get(), at + done, bytes - done, place);
    if (n <= 0) Fail(write ? "pwrite" : "pread", n < 0 ? strerror(errno) : "end of file");
    done += size_t(n);
  }
}

// The built-in kernel, as ours has it: the chunk's elements from `first` on.
void Peer::Adam(uint64_t first, uint64_t numel) {
  StorePiece piece = {};
  piece.numel = numel;
  piece.weight = weights_ + first * 2;
  piece.gradient = gradients_ + first * 2;
  piece.weight_type = piece.gradient_type = kTypeBf16;
  Check(cuMemcpyHtoD(piece_, &piece, sizeof piece), "cuMemcpyHtoD");
  StoreBucketArgs bucket = {};
  bucket.pieces = piece_;
  bucket.findings = piece_ + sizeof piece;
  bucket.groups = numel / store::kGroup;
  bucket.step = step_;
  bucket.piece_count = 1;
  bucket.segment_count = 3;
  for (uint32_t i = 0; i < 3; ++i) {
    bucket.segments[i].bytes = device_ + i * numel * 4;
    bucket.segments[i].encoding = kStoreFp32;
  }
  StoreAdamArgs adam = {};
  adam.first = 1;
  adam.second = 2;
  adam.gradient_factor = 1.0f;
  adam.groups[0] = {0.9f, 0.1f, 0.95f, 0.05f, 1e-4f, 1.0f, 1e-8f, 0.0f, 1.0f};
  void* arguments[] = {&bucket, &adam};
  constexpr uint64_t kGroups = PARKADE_STORE_THREADS / PARKADE_STORE_TEAM;
  const auto blocks = unsigned((bucket.groups + kGroups - 1) / kGroups);
  Check(cuLaunchKernel(adam_, blocks, 1, 1, PARKADE_STORE_THREADS, 1, 1, 0, nullptr, arguments,
                       nullptr),
        "cuLaunchKernel");
  Check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

void Peer::Step() {
  // A program's state does not fit into the page cache; here it might.
  if (fdatasync(file_.get()) != 0) Fail("fdatasync", strerror(errno));
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  ++step_;
  const double begin = Now();
  for (uint64_t at = 0; at < elements_; at += in_chunk_) {
    const uint64_t numel = std::min(in_chunk_, elements_ - at);
    All(false, at * kBytes, numel * kBytes);
    Check(cuMemcpyHtoD(device_, host_, numel * kBytes), "cuMemcpyHtoD");
    Adam(at, numel);
    Check(cuMemcpyDtoH(host_, device_, numel * kBytes), "cuMemcpyDtoH");
    All(true, at * kBytes, numel * kBytes);
  }
  const double returned = Now() - begin;
  if (fdatasync(file_.get()) != 0) Fail("fdatasync", strerror(errno));
  printf("seconds=%.6f synced=%.6f\n", returned, Now() - begin);
  fflush(stdout);
}

}  // namespace

void ServePeer(const char* folder, uint64_t elements, size_t chunk) {
  Peer peer(folder, elements, chunk);
  printf("ready\n");
  fflush(stdout);
  for (int c = getchar(); c != EOF; c = getchar()) {
    if (c == '\n') peer.Step();
  }
}

}  // namespace parkade::bench
