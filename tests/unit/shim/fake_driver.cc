// FakeDriver's account and faults; its functions are in the files beside.
#include "tests/unit/shim/fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/shim/fake_state.h"

namespace parkade::shim {

FakeDriver* fake = nullptr;
thread_local std::vector<CUcontext> current_contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

FakeDriver::FakeDriver(const Options& options) : options_(options) {
  fake = this;
  FillDeviceCalls(driver_);
  FillMemoryCalls(driver_);
  FillStreamCalls(driver_);
  FillKernelCalls(driver_);
}

FakeDriver::~FakeDriver() {
  fake = nullptr;
  current_contexts.clear();
  MutexLock lock(mu_);
  for (const auto& [base, bytes] : reservations_) munmap(Address(base), bytes);
  for (const auto& [ptr, native] : native_) munmap(Address(ptr), native.bytes);
  for (const auto& [number, handle] : handles_) close(handle.fd);
}

CUcontext FakeDriver::Context(int device) const {
  return reinterpret_cast<CUcontext>(kFirstContext + uintptr_t(device));
}

void FakeDriver::MakeCurrent(CUcontext context) {
  current_contexts.clear();
  if (context != nullptr) current_contexts.push_back(context);
}

void FakeDriver::DestroyContext(CUcontext context) {
  MutexLock lock(mu_);
  for (auto it = native_.begin(); it != native_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    munmap(Address(it->first), it->second.bytes);
    used_[DeviceOf(context)] -= it->second.bytes;
    it = native_.erase(it);
  }
}

void FakeDriver::Fail(const std::string& name, int n, CUresult code, int times) {
  MutexLock lock(mu_);
  faults_[name] = {n - 1, times, code};
}

bool FakeDriver::FaultPending(const std::string& name) {
  MutexLock lock(mu_);
  return faults_.erase(name) == 1;
}

int FakeDriver::Calls(const std::string& name) const {
  MutexLock lock(mu_);
  const auto it = calls_.find(name);
  return it == calls_.end() ? 0 : it->second;
}

FakeDriver::Held FakeDriver::held() const {
  MutexLock lock(mu_);
  return {reservations_.size(), handles_.size(), mappings_.size(), native_.size(),
          host_.size(),         streams_.size(), events_.size(),   modules_.size()};
}

Bytes FakeDriver::used(int device) const {
  MutexLock lock(mu_);
  const auto it = used_.find(device);
  return it == used_.end() ? 0 : it->second;
}

Bytes FakeDriver::handle_bytes() const {
  MutexLock lock(mu_);
  Bytes bytes = 0;
  for (const auto& [number, handle] : handles_) bytes += handle.bytes;
  return bytes;
}

unsigned FakeDriver::access(CUdeviceptr at, int device) const {
  MutexLock lock(mu_);
  const auto mapping = mappings_.find(at);
  if (mapping == mappings_.end()) return 0;
  const auto flags = mapping->second.access.find(device);
  return flags == mapping->second.access.end() ? 0u : unsigned(flags->second);
}

std::vector<CUmemAllocationProp> FakeDriver::handle_properties() const {
  MutexLock lock(mu_);
  std::vector<CUmemAllocationProp> properties;
  for (const auto& [number, handle] : handles_) properties.push_back(handle.prop);
  return properties;
}

int FakeDriver::mistakes() const {
  MutexLock lock(mu_);
  return mistakes_;
}

void FakeDriver::OnNativeFree(void (*call)(void*), void* arg) {
  MutexLock lock(mu_);
  on_native_free_ = call;
  on_native_free_arg_ = arg;
}

CUresult FakeDriver::Begin(const char* name) {
  ++calls_[name];
  const auto it = faults_.find(name);
  if (it == faults_.end()) return CUDA_SUCCESS;
  if (it->second.after-- > 0) return CUDA_SUCCESS;
  const CUresult code = it->second.code;
  if (--it->second.times == 0) faults_.erase(it);
  return code;
}

void FakeDriver::Unreference(CUmemGenericAllocationHandle number) {
  const auto it = handles_.find(number);
  if (--it->second.references > 0) return;
  close(it->second.fd);
  if (!it->second.imported) used_[it->second.prop.location.id] -= it->second.bytes;
  handles_.erase(it);
}

CUresult FakeDriver::Mistake(CUresult code) {
  ++mistakes_;
  return code;
}

bool FakeDriver::Room(int device, Bytes bytes) const {
  const auto it = used_.find(device);
  return (it == used_.end() ? 0 : it->second) + bytes <= options_.memory;
}

}  // namespace parkade::shim
