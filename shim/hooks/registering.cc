// The shim's functions in the place of libibverbs' and NCCL's: hold what is about to be registered,
// pass the call on, and let go of it when it fails or when the registration has ended.
//
// Interfaces: verbs.h of rdma-core 50 (ibv_reg_mr and its kin), nccl.h of NCCL 2.27.
#include "shim/hooks/registering.h"

#include <errno.h>

#include <utility>

#include "shim/hooks/gate_pass.h"
#include "shim/hooks/hooked.h"

struct ibv_mr;
struct ibv_pd;
struct ncclComm;

namespace parkade::shim {
namespace {

constexpr int kOnDemand = 1 << 6;  // IBV_ACCESS_ON_DEMAND: the card asks for host pages itself
constexpr int kChangesTranslation = 1 << 0;  // IBV_REREG_MR_CHANGE_TRANSLATION
constexpr char kVerbsHeld[] =
    "memory registered for RDMA (ibv_reg_mr) stays in HBM until it is deregistered";
constexpr char kNcclHeld[] =
    "memory registered with NCCL (ncclCommRegister, ncclCommWindowRegister) stays in HBM until "
    "it is deregistered";

// ncclResult_t
enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclCudaError = 1,
  kNcclInvalidUsage = 5,
  kNcclInProgress = 7
};

bool Went(int result) { return result == kNcclSuccess || result == kNcclInProgress; }

// In an exported function: what stands behind it for whoever calls that.
template <typename F>
F* Real(Registering function, const void* caller) {
  return reinterpret_cast<F*>(RealRegistering(function, caller));
}

Parts* PartsNow() { return Inert() ? nullptr : LiveParts(); }

// Memory that stays in HBM while a call registers it. Where it is out, the constructor waits at the
// gate for it, as for any call that uses it, and is refused at a gate that is open all the same. No
// pass lasts for the call, which may wait for other ranks.
class Claim {
 public:
  Claim(const void* at, size_t bytes) : parts_(PartsNow()) {
    if (parts_ == nullptr || Hold(at, bytes)) return;
    const GatePass pass;
    refused_ = !pass || !Hold(at, bytes);
  }
  ~Claim() {
    if (parts_ == nullptr) return;
    InShim guard;
    parts_->heap.LetGo(held_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  bool refused() const { return refused_; }
  // The call has gone well, and `key` stands for the registration.
  void Keep(Registrations::Key key, const char* why) {
    if (parts_ == nullptr) return;
    InShim guard;
    parts_->registrations.Add(key, std::exchange(held_, {}), why);
  }

 private:
  bool Hold(const void* at, size_t bytes) {
    InShim guard;
    auto held = parts_->heap.HoldIn(reinterpret_cast<CUdeviceptr>(at), bytes);
    if (held) held_ = std::move(*held);
    return held.has_value();
  }

  Parts* const parts_;
  Heap::Held held_;
  bool refused_ = false;
};

// Registrations while a call ends them: one, or all of a communicator's.
class Ending {
 public:
  explicit Ending(Registrations::Key key) : parts_(PartsNow()) {
    if (parts_ != nullptr) taken_ = parts_->registrations.Take(key);
  }
  explicit Ending(ncclComm* communicator) : parts_(PartsNow()) {
    if (parts_ != nullptr && communicator != nullptr) {
      taken_ = parts_->registrations.TakeAll(communicator);
    }
  }
  // `why` as they were added; only where the call has failed.
  void Failed(const char* why) {
    for (auto& [key, held] : std::exchange(taken_, {})) {
      parts_->registrations.Add(key, std::move(held), why);
    }
  }
  ~Ending() {
    InShim guard;
    for (const auto& [key, held] : taken_) parts_->heap.LetGo(held);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  Parts* const parts_;
  Registrations::Taken taken_;
};

template <typename Call>
ibv_mr* Register(const void* at, size_t bytes, unsigned access, Call call) {
  // Such a registration may be of the whole address space.
  if ((access & kOnDemand) != 0) return call();
  Claim claim(at, bytes);
  if (claim.refused()) {
    errno = EAGAIN;
    return nullptr;
  }
  ibv_mr* mr = call();
  if (mr != nullptr) claim.Keep({nullptr, mr}, kVerbsHeld);
  return mr;
}

ibv_mr* NoVerbs() {
  errno = ENOSYS;
  return nullptr;
}

template <typename Call>
int RegisterWithNccl(ncclComm* communicator, const void* at, size_t bytes, void** handle,
                     Call call) {
  Claim claim(at, bytes);
  if (claim.refused()) return kNcclCudaError;
  // A call inside a group fills it in later: then it ends with the communicator.
  void* const before = handle == nullptr ? nullptr : std::exchange(*handle, nullptr);
  const int r = call();
  if (!Went(r) && handle != nullptr && *handle == nullptr) *handle = before;
  if (Went(r)) claim.Keep({communicator, handle == nullptr ? nullptr : *handle}, kNcclHeld);
  return r;
}

template <typename Call>
int EndWithNccl(Ending ending, Call call) {
  const int r = call();
  if (!Went(r)) ending.Failed(kNcclHeld);
  return r;
}

int EndCommunicator(int (*real)(ncclComm*), ncclComm* communicator) {
  if (real == nullptr) return kNcclInvalidUsage;
  return EndWithNccl(Ending(communicator), [&] { return real(communicator); });
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* at, size_t bytes, int access) {
  auto* real = Real<decltype(ibv_reg_mr)>(Registering::kRegMr, __builtin_return_address(0));
  if (real == nullptr) return NoVerbs();
  return Register(at, bytes, unsigned(access), [&] { return real(pd, at, bytes, access); });
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* at, size_t bytes, uint64_t iova, int access) {
  auto* real =
      Real<decltype(ibv_reg_mr_iova)>(Registering::kRegMrIova, __builtin_return_address(0));
  if (real == nullptr) return NoVerbs();
  return Register(at, bytes, unsigned(access), [&] { return real(pd, at, bytes, iova, access); });
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* at, size_t bytes, uint64_t iova, unsigned access) {
  auto* real =
      Real<decltype(ibv_reg_mr_iova2)>(Registering::kRegMrIova2, __builtin_return_address(0));
  if (real == nullptr) return NoVerbs();
  return Register(at, bytes, access, [&] { return real(pd, at, bytes, iova, access); });
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* at, size_t bytes, int access) {
  auto* real = Real<decltype(ibv_rereg_mr)>(Registering::kReregMr, __builtin_return_address(0));
  if (real == nullptr) return ENOSYS;
  if ((flags & kChangesTranslation) == 0) return real(mr, flags, pd, at, bytes, access);
  // On demand, it may be of the whole address space, and holds nothing.
  const bool on_demand = (access & kOnDemand) != 0;
  Claim claim(on_demand ? nullptr : at, on_demand ? 0 : bytes);
  if (claim.refused()) return EAGAIN;
  const int r = real(mr, flags, pd, at, bytes, access);
  if (r != 0) return r;
  const Ending before({nullptr, mr});
  claim.Keep({nullptr, mr}, kVerbsHeld);
  return r;
}

int ibv_dereg_mr(ibv_mr* mr) {
  auto* real = Real<decltype(ibv_dereg_mr)>(Registering::kDeregMr, __builtin_return_address(0));
  if (real == nullptr) return ENOSYS;
  Ending ending({nullptr, mr});
  const int r = real(mr);
  if (r != 0) ending.Failed(kVerbsHeld);
  return r;
}

int ncclCommRegister(ncclComm* communicator, void* at, size_t bytes, void** handle) {
  auto* real =
      Real<decltype(ncclCommRegister)>(Registering::kCommRegister, __builtin_return_address(0));
  if (real == nullptr) return kNcclInvalidUsage;
  return RegisterWithNccl(communicator, at, bytes, handle,
                          [&] { return real(communicator, at, bytes, handle); });
}

int ncclCommDeregister(ncclComm* communicator, void* handle) {
  auto* real =
      Real<decltype(ncclCommDeregister)>(Registering::kCommDeregister, __builtin_return_address(0));
  if (real == nullptr) return kNcclInvalidUsage;
  return EndWithNccl(Ending({communicator, handle}), [&] { return real(communicator, handle); });
}

int ncclCommWindowRegister(ncclComm* communicator, void* at, size_t bytes, void** window,
                           int flags) {
  auto* real = Real<decltype(ncclCommWindowRegister)>(Registering::kCommWindowRegister,
                                                      __builtin_return_address(0));
  if (real == nullptr) return kNcclInvalidUsage;
  return RegisterWithNccl(communicator, at, bytes, window,
                          [&] { return real(communicator, at, bytes, window, flags); });
}

int ncclCommWindowDeregister(ncclComm* communicator, void* window) {
  auto* real = Real<decltype(ncclCommWindowDeregister)>(Registering::kCommWindowDeregister,
                                                        __builtin_return_address(0));
  if (real == nullptr) return kNcclInvalidUsage;
  return EndWithNccl(Ending({communicator, window}), [&] { return real(communicator, window); });
}

int ncclCommDestroy(ncclComm* communicator) {
  return EndCommunicator(
      Real<decltype(ncclCommDestroy)>(Registering::kCommDestroy, __builtin_return_address(0)),
      communicator);
}

int ncclCommAbort(ncclComm* communicator) {
  return EndCommunicator(
      Real<decltype(ncclCommAbort)>(Registering::kCommAbort, __builtin_return_address(0)),
      communicator);
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace parkade::shim
