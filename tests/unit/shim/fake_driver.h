// FakeDriver: a driver in the test's own process for unit tests of the shim: memory with real bytes
// and real addresses, faults on request, and an account of what was not given back.
//
// Streams are idle at once: what is submitted has happened when the call returns. Programs on a
// whole simulated GPU stand in tests/sim.
#pragma once

#include <cuda.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/mutex.h"
#include "shim/cuda/driver.h"

namespace parkade::shim {

// One at a time in a process: the driver's functions find it by a global. Thread-safe.
class FakeDriver {
 public:
  struct Options {
    int devices = 1;
    Bytes memory = 8_GiB;  // of each device
    bool vmm = true;
    bool posix_fd = true;
    bool rdma = true;
    bool kernels = true;  // takes the shim's: the GPU hashes
  };
  FakeDriver() : FakeDriver(Options{}) {}
  explicit FakeDriver(const Options& options);
  ~FakeDriver();

  const Driver& driver() const { return driver_; }

  // A context of the device; made current on the calling thread by MakeCurrent (null: none).
  CUcontext Context(int device) const;
  static void MakeCurrent(CUcontext context);
  // What the driver does with a context that is destroyed: native memory made under it is freed.
  void DestroyContext(CUcontext context);

  // The nth call of `name` ("cuMemCreate") from now fails with `code`, and does nothing. n from 1;
  // `times` calls in a row.
  void Fail(const std::string& name, int n, CUresult code, int times = 1);
  // True when a fault that was asked for has not come up; forgets it.
  bool FaultPending(const std::string& name);
  int Calls(const std::string& name) const;

  // What is held now.
  struct Held {
    size_t reservations = 0;
    size_t handles = 0;  // created, not yet released and unmapped
    size_t mappings = 0;
    size_t native = 0;  // cuMemAlloc
    size_t host = 0;    // cuMemHostRegister
    size_t streams = 0;
    size_t events = 0;
    size_t modules = 0;
    bool operator==(const Held&) const = default;
  };
  Held held() const;
  Bytes used(int device) const;  // physical memory, native and by handle
  Bytes handle_bytes() const;
  // Properties of each handle that was created and still is.
  std::vector<CUmemAllocationProp> handle_properties() const;
  // What a device may do at an address: 0 where nothing is mapped.
  unsigned access(CUdeviceptr at, int device) const;
  // How often mappings were undone or memory freed wrongly (unknown address, unmapped twice...).
  int mistakes() const;

  // Called inside every native cuMemFree, which waits for the GPU, without a lock.
  void OnNativeFree(void (*call)(void*), void* arg);

 private:
  friend struct FakeDeviceCalls;
  friend struct FakeMemoryCalls;
  friend struct FakeStreamCalls;
  friend struct FakeKernelCalls;

  struct Handle {
    int fd;
    Bytes bytes;
    CUmemAllocationProp prop;
    int references;         // the creator's and one for each mapping
    bool released;          // by its creator
    bool imported = false;  // another handle's memory, which is counted there
  };
  struct Mapping {
    Bytes bytes;
    CUmemGenericAllocationHandle handle;
    std::map<int, CUmemAccess_flags> access;  // by device
  };
  struct Native {
    Bytes bytes;
    CUcontext context;
  };
  struct Fault {
    int after;  // calls that still succeed
    int times;
    CUresult code;
  };

  // Counts the call; SUCCESS or the fault that was asked for.
  CUresult Begin(const char* name) REQUIRES(mu_);
  void Unreference(CUmemGenericAllocationHandle handle) REQUIRES(mu_);
  CUresult Mistake(CUresult code) REQUIRES(mu_);
  bool Room(int device, Bytes bytes) const REQUIRES(mu_);

  const Options options_;
  Driver driver_;
  mutable Mutex mu_;
  std::map<std::string, int> calls_ GUARDED_BY(mu_);
  std::map<std::string, Fault> faults_ GUARDED_BY(mu_);
  std::map<CUdeviceptr, Bytes> reservations_ GUARDED_BY(mu_);
  std::map<CUmemGenericAllocationHandle, Handle> handles_ GUARDED_BY(mu_);
  std::map<CUdeviceptr, Mapping> mappings_ GUARDED_BY(mu_);
  std::map<CUdeviceptr, Native> native_ GUARDED_BY(mu_);
  std::map<void*, Bytes> host_ GUARDED_BY(mu_);
  std::map<int, Bytes> used_ GUARDED_BY(mu_);
  std::set<CUstream> streams_ GUARDED_BY(mu_);
  std::set<CUevent> events_ GUARDED_BY(mu_);
  CUmemGenericAllocationHandle last_handle_ GUARDED_BY(mu_) = 0;
  uintptr_t last_object_ GUARDED_BY(mu_) = 0;
  std::set<CUmodule> modules_ GUARDED_BY(mu_);
  int mistakes_ GUARDED_BY(mu_) = 0;
  void (*on_native_free_)(void*) GUARDED_BY(mu_) = nullptr;
  void* on_native_free_arg_ GUARDED_BY(mu_) = nullptr;
};

}  // namespace parkade::shim
