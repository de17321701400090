// What every subject of edge calls is written with: a case, its answer, and memory to try it on.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

// What came of a case, as one line of words. Addresses and identities differ from run to run, so
// they are told as relations; two runs can then be compared line by line.
class Answer {
 public:
  // Adds the code of a call, without CUDA_ and ERROR_.
  Answer& Code(CUresult result);
  // The same with what the call was, for cases of several calls.
  Answer& Code(const char* call, CUresult result);
  [[gnu::format(printf, 2, 3)]] Answer& Note(const char* format, ...);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A call at the edge of what the driver allows. It leaves nothing behind; the primary context of
// device 0 is current before and after. None makes the GPU touch an address that is not mapped,
// whatever the driver answers: its fault would end the context.
struct Case {
  const char* name;
  void (*run)(Answer&);
};

// What out-parameters hold before a call, to see whether it wrote them.
constexpr CUdeviceptr kUntouched = 0xabcdef00abcdef00;
inline const char* Touched(uint64_t value) {
  return value == kUntouched ? "untouched" : value == 0 ? "zero" : "set";
}
// Where an address lies: "untouched", "null", or its offset from `base`.
std::string From(CUdeviceptr base, CUdeviceptr at);

const char* Name(CUresult result);
// Ends the program when what a case stands on cannot be had.
void Must(CUresult result, const char* call);

// Device 0 and its primary context.
CUcontext PrimaryContext();

// Memory of cuMemAlloc for one case.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  operator CUdeviceptr() const { return base_; }
  CUdeviceptr end() const { return base_ + bytes_; }
  size_t bytes() const { return bytes_; }

 private:
  CUdeviceptr base_ = 0;
  const size_t bytes_;
};

// Sizes with room behind them that belongs to nobody, so that one past the end is no memory.
constexpr size_t kSmall = 5000;
constexpr size_t kMiddle = (3 << 20) + 100;
// More than one handle of a heap that cuts its ranges.
constexpr size_t kLarge = (600 << 20) + 100;

// An address at which there was an allocation of `bytes`, beside a live one.
class Freed {
 public:
  explicit Freed(size_t bytes);
  operator CUdeviceptr() const { return base_; }

 private:
  const Memory neighbour_;
  CUdeviceptr base_ = 0;
};

// Host memory that no call has pinned.
extern char host_bytes[1 << 20];  // begins a page
inline CUdeviceptr AsDevice(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

// Runs `work` on another thread, with that context current (none: nullptr).
void OnThread(CUcontext context, const std::function<void()>& work);
// A second context of device 0, current while it lives.
class OtherContext {
 public:
  OtherContext();
  ~OtherContext();
  OtherContext(const OtherContext&) = delete;
  OtherContext& operator=(const OtherContext&) = delete;
  operator CUcontext() const { return context_; }
  // Ends it early; none is current then but what was before.
  void Destroy();
  // Somebody else has destroyed it.
  void Forget();

 private:
  CUcontext context_ = nullptr;
};

// A non-blocking stream for one case.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

// The subjects, each in the file of its name.
std::span<const Case> AllocationCases();
std::span<const Case> StreamOrderedCases();
std::span<const Case> PitchedCases();
std::span<const Case> AttributeCases();
std::span<const Case> RangeCases();
std::span<const Case> SharingCases();
std::span<const Case> ContextCases();
std::span<const Case> InformationCases();
std::span<const Case> FillCases();
std::span<const Case> CopyCases();
std::span<const Case> CaptureCases();
std::span<const Case> HostMemoryCases();
std::span<const Case> ManagedCases();
std::span<const Case> MappingCases();
std::span<const Case> OwnMappingCases();
std::span<const Case> GraphCases();
std::span<const Case> ResolverCases();
