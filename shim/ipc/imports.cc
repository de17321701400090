// Maps what exporters give, keeps the table of it, and takes part in pauses.
#include "shim/ipc/imports.h"

#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"
#include "shim/ipc/import.h"

namespace parkade::shim {
namespace {

// An exporter answers a word at once; one that is stopped keeps its memory where it is.
constexpr uint64_t kWordMs = 1000;

}  // namespace

Imports::Imports(const Driver& driver, Heap& heap) : driver_(driver), heap_(heap) {}

Imports::~Imports() {
  for (auto& [base, import] : imports_) Unmap(*import);
}

std::unique_ptr<Imports::Import> Imports::Ask(const Token& token, CUresult* result) {
  const auto refused = [result](const Error& e) -> std::unique_ptr<Import> {
    if (e.cuda != 0) {
      *result = CUresult(e.cuda);
    } else {
      *result =
          e.code == Code::kUnavailable ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_OPERATING_SYSTEM;
    }
    return nullptr;
  };
  auto client = ShareClient::Connect(token);
  if (!client.ok()) return refused(client.error());
  auto import = std::make_unique<Import>(token, std::move(*client));
  auto grant = import->client.Ask(token, Deadline::Never());
  if (!grant.ok()) return refused(grant.error());
  import->grant = std::move(*grant);
  return import;
}

CUresult Imports::Map(std::unique_ptr<Import> import, CUdeviceptr* out) {
  ScopedRelaxedCapture relaxed(driver_);
  CUresult r = driver_.ctx_get_current(&import->context);
  if (r == CUDA_SUCCESS) r = driver_.ctx_get_device(&import->user_device);
  if (r != CUDA_SUCCESS) return r;
  const int ordinal = OrdinalOf(import->grant.uuid);
  import->device = ordinal < 0 ? import->user_device : ordinal;
  r = driver_.mem_address_reserve(&import->range, import->grant.range_bytes, 0, 0, 0);
  if (r != CUDA_SUCCESS) return r;
  const uint64_t peers = heap_.memory().peer_changes();
  if (r = MapPieces(*import, import->grant.pieces); r != CUDA_SUCCESS) {
    driver_.mem_address_free(import->range, import->grant.range_bytes);
    return r;
  }
  import->grant.pieces.clear();
  *out = import->range + import->grant.offset;
  const CUdeviceptr range = import->range;
  const Bytes bytes = import->grant.range_bytes;
  const int device = import->device;
  {
    MutexLock lock(mu_);
    import->number = ++last_number_;
    imports_.emplace(import->range, std::move(import));
  }
  // A change that came in between has not met it.
  if (heap_.memory().peer_changes() != peers) {
    (void)heap_.memory().SetAccess(range, bytes, device);
  }
  return CUDA_SUCCESS;
}

CUresult Imports::MapPieces(Import& import, std::span<const SharePiece> pieces) {
  ScopedRelaxedCapture relaxed(driver_);
  Bytes at = 0;
  CUresult r = CUDA_SUCCESS;
  for (const SharePiece& piece : pieces) {
    CUmemGenericAllocationHandle handle = 0;
    // The descriptor travels as a pointer that is no pointer: the driver's convention.
    void* descriptor = reinterpret_cast<void*>(intptr_t(piece.descriptor.get()));
    r = driver_.mem_import(&handle, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (r != CUDA_SUCCESS) break;
    r = driver_.mem_map(import.range + at, piece.bytes, 0, handle, 0);
    if (r != CUDA_SUCCESS) {
      driver_.mem_release(handle);
      break;
    }
    import.handles.push_back({piece.bytes, handle});
    at += piece.bytes;
  }
  if (r == CUDA_SUCCESS) r = SetAccess(import);
  if (r != CUDA_SUCCESS) Unmap(import);
  return r;
}

CUresult Imports::SetAccess(const Import& import) {
  const Bytes bytes = import.grant.range_bytes;
  const CUresult r = heap_.memory().SetAccess(import.range, bytes, import.device);
  if (r != CUDA_SUCCESS || import.device == import.user_device) return r;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {import.user_device}},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return driver_.mem_set_access(import.range, bytes, &access, 1);
}

CUresult Imports::SetPeer(int owner, int user, bool allowed) {
  ScopedRelaxedCapture relaxed(driver_);
  const CUmemAccessDesc access{
      {CU_MEM_LOCATION_TYPE_DEVICE, {user}},
      allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE};
  CUresult result = CUDA_SUCCESS;
  for (const auto& [base, bytes] : SpansFor(owner, user)) {
    const CUresult r = driver_.mem_set_access(base, bytes, &access, 1);
    // INVALID_VALUE: closed meanwhile.
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE) result = r;
  }
  return result;
}

std::vector<std::pair<CUdeviceptr, Bytes>> Imports::SpansFor(int owner, int user) const {
  std::vector<std::pair<CUdeviceptr, Bytes>> spans;
  MutexLock lock(mu_);
  for (const auto& [base, import] : imports_) {
    // What is out gets it when it comes back.
    if (import->device != owner || import->user_device == user || import->out.load()) continue;
    spans.emplace_back(base, import->grant.range_bytes);
  }
  return spans;
}

void Imports::Unmap(Import& import) {
  ScopedRelaxedCapture relaxed(driver_);
  Bytes at = 0;
  for (const Import::Handle& h : import.handles) {
    driver_.mem_unmap(import.range + at, h.bytes);
    driver_.mem_release(h.handle);
    at += h.bytes;
  }
  import.handles.clear();
}

void Imports::Drop(std::unique_ptr<Import> import) {
  Unmap(*import);
  driver_.mem_address_free(import->range, import->grant.range_bytes);
  // The connection ends with it, and with that the exporter's hold.
}

std::optional<CUdeviceptr> Imports::OpenAgain(const Token& token) {
  CUcontext current = nullptr;
  if (driver_.ctx_get_current(&current) != CUDA_SUCCESS) return std::nullopt;
  MutexLock lock(mu_);
  for (auto& [base, import] : imports_) {
    if (import->context != current || memcmp(&import->token, &token, sizeof token) != 0) continue;
    ++import->users;
    return base + import->grant.offset;
  }
  return std::nullopt;
}

std::optional<CUresult> Imports::Close(CUdeviceptr ptr) {
  std::unique_ptr<Import> last;
  {
    MutexLock lock(mu_);
    auto it = imports_.upper_bound(ptr);
    if (it == imports_.begin()) return std::nullopt;
    Import& import = *(--it)->second;
    if (ptr - import.range >= import.grant.range_bytes) return std::nullopt;
    if (ptr != import.range + import.grant.offset) return CUDA_ERROR_INVALID_VALUE;
    if (--import.users != 0) return CUDA_SUCCESS;
    last = std::move(it->second);
    imports_.erase(it);
  }
  const CUresult r = heap_.implicit_wait().Run(last->context);
  Drop(std::move(last));
  return r == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : r;
}

std::optional<AllocationView> Imports::Find(CUdeviceptr ptr) const {
  MutexLock lock(mu_);
  auto it = imports_.upper_bound(ptr);
  if (it == imports_.begin()) return std::nullopt;
  const Import& import = *(--it)->second;
  const CUdeviceptr base = import.range + import.grant.offset;
  if (ptr < base || ptr - base >= import.grant.bytes) return std::nullopt;
  return AllocationView{base,           import.grant.bytes, import.device,
                        import.context, import.number,      !import.out.load()};
}

bool Imports::Owns(CUdeviceptr ptr) const {
  MutexLock lock(mu_);
  auto it = imports_.upper_bound(ptr);
  return it != imports_.begin() && ptr - (--it)->first < it->second->grant.range_bytes;
}

void Imports::ForgetContext(CUcontext context) {
  std::vector<std::unique_ptr<Import>> gone;
  {
    MutexLock lock(mu_);
    for (auto it = imports_.begin(); it != imports_.end();) {
      if (it->second->context != context) {
        ++it;
        continue;
      }
      gone.push_back(std::move(it->second));
      it = imports_.erase(it);
    }
  }
  for (auto& import : gone) Drop(std::move(import));
}

std::vector<Imports::Import*> Imports::All() const {
  std::vector<Import*> all;
  MutexLock lock(mu_);
  for (const auto& [base, import] : imports_) all.push_back(import.get());
  return all;
}

void Imports::Say(wire::ShareWord word) {
  for (Import* import : All()) (void)import->client.Say(word, Deadline::InMs(kWordMs));
}

void Imports::LetGo() {
  for (Import* import : All()) {
    if (import->out.load()) continue;
    if (!import->client.Say(wire::ShareWord::kMayLetGo, Deadline::InMs(kWordMs))) continue;
    Unmap(*import);
    import->out.store(true);
    (void)import->client.Say(wire::ShareWord::kLetGo, Deadline::InMs(kWordMs));
  }
}

Result<void> Imports::TakeBack(Deadline by, std::vector<int>* gone) {
  for (Import* import : All()) {
    if (!import->out.load()) continue;
    const auto taken = TakeBackOne(*import, by);
    if (!taken.ok()) return taken.error();
    if (!*taken) gone->push_back(import->token.pid);
    import->out.store(false);
  }
  return {};
}

Result<bool> Imports::TakeBackOne(Import& import, Deadline by) {
  const int pid = import.token.pid;
  const auto grant = import.client.Ask(import.token, by);
  if (!grant.ok()) {
    const Error& e = grant.error();
    if (e.code == Code::kDeadlineExceeded) {
      return MakeError(
          Code::kFailedPrecondition, "EXPORTER_PAUSED",
          "process %d, whose memory this one maps, does not give it back: it is paused "
          "or stopped; resume both",
          pid);
    }
    if (e.code == Code::kUnavailable || e.cuda == CUDA_ERROR_INVALID_VALUE) return false;
    return e;
  }
  if (grant->range_bytes != import.grant.range_bytes || grant->offset != import.grant.offset) {
    return false;
  }
  if (const CUresult r = MapPieces(import, grant->pieces); r != CUDA_SUCCESS) {
    return CudaError(driver_, r, "mapping memory of process %d again", pid);
  }
  return true;
}

int Imports::OrdinalOf(const unsigned char (&uuid)[16]) const {
  int count = 0;
  if (driver_.device_get_count(&count) != CUDA_SUCCESS) return -1;
  for (int device = 0; device < count; ++device) {
    CUuuid found{};
    if (driver_.device_get_uuid(&found, device) == CUDA_SUCCESS &&
        memcmp(found.bytes, uuid, sizeof uuid) == 0) {
      return device;
    }
  }
  return -1;
}

}  // namespace parkade::shim
