// Accepts importers, holds what they map, and exports one descriptor for each physical handle.
#include "shim/ipc/share_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/log.h"
#include "shim/cuda/cuda_error.h"
#include "shim/cuda/scoped_context.h"

namespace parkade::shim {
namespace {

// For an importer to take an answer. It asks one thing at a time, so there is room for each; one
// that has none is no importer, and must not hold up the others.
constexpr uint64_t kAnswerMs = 100;
constexpr int kDeafMs = 1000;     // without descriptors for new importers
constexpr int kLookAgainMs = 20;  // whether paused bytes are back, while somebody waits for them

}  // namespace

ShareServer::ShareServer(const Driver& driver, Heap& heap) : driver_(driver), heap_(heap) {}

ShareServer::~ShareServer() {
  if (!thread_.joinable()) return;
  ChildSockets::Remove(listener_.get());
  ChildSockets::Remove(wake_.get());
  stop_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
  thread_.Join();
}

Result<CUipcMemHandle> ShareServer::Export(CUdeviceptr ptr) {
  const auto allocation = heap_.Find(ptr);
  if (!allocation) return MakeError(Code::kNotFound, "NOT_OURS", "no memory of the heap");
  Token token;
  {
    MutexLock lock(mu_);
    if (!self_) {
      if (auto r = Open(); !r.ok()) return r.error();
    }
    token = *self_;
  }
  token.base = allocation->base;
  token.number = allocation->number;
  CUipcMemHandle handle;
  memcpy(&handle, &token, sizeof handle);
  return handle;
}

// Once in a process; whoever waits for the lock meanwhile could not go on without it.
Result<void> ShareServer::Open() {
  Token self{};
  self.magic = Token::kMagic;
  self.pid = getpid();
  if (getrandom(self.server.data(), self.server.size(), 0) != ssize_t(self.server.size())) {
    return OsError(errno, "naming the socket for CUDA IPC");
  }
  sockaddr_un at;
  const socklen_t length = self.Address(&at);
  listener_.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener_ || !wake_ ||
      bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), length) != 0 ||
      listen(listener_.get(), 64) != 0) {
    return OsError(errno, "opening the socket for CUDA IPC");
  }
  auto thread = Thread::Start("parkade-ipc", Work, this);
  if (!thread.ok()) return thread.error();
  thread_ = std::move(*thread);
  ChildSockets::Add(listener_.get());
  ChildSockets::Add(wake_.get());
  self_ = self;
  return {};
}

bool ShareServer::IsOwn(const Token& token) const {
  MutexLock lock(mu_);
  return self_ && self_->server == token.server;
}

bool ShareServer::WaitForImporters(Deadline by, const std::atomic<bool>& cancel) {
  constexpr uint64_t kLookMs = 20;  // a cancel raises no wake-up
  MutexLock lock(mu_);
  while (waited_for_ != 0 && !by.Passed() && !cancel.load(std::memory_order_acquire)) {
    changed_.WaitUntil(mu_, by.LeftNs() < kLookMs * 1'000'000 ? by : Deadline::InMs(kLookMs));
  }
  return waited_for_ == 0;
}

std::vector<int> ShareServer::Importers() const {
  MutexLock lock(mu_);
  return holders_;
}

void ShareServer::Work(void* self) { static_cast<ShareServer*>(self)->Run(); }

void ShareServer::Run() {
  Deadline deaf_until = Deadline::InMs(0);
  while (!stop_.load(std::memory_order_acquire)) {
    const bool deaf = !deaf_until.Passed();
    std::vector<pollfd> polled{{listener_.get(), short(deaf ? 0 : POLLIN), 0},
                               {wake_.get(), POLLIN, 0}};
    bool anybody_waits = false;
    for (const Import& import : imports_) {
      polled.push_back({import.channel.fd(), POLLIN, 0});
      anybody_waits |= import.asked.has_value();
    }
    const int patience = anybody_waits ? kLookAgainMs : deaf ? kDeafMs : -1;
    if (poll(polled.data(), polled.size(), patience) < 0) {
      // Interrupted, or the process may no longer open as many files as are polled.
      for (pollfd& p : polled) p.revents = 0;
      const timespec pause{0, kLookAgainMs * 1'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    }
    for (size_t i = imports_.size(); i-- > 0;) {
      Import& import = imports_[i];
      const bool goes_on =
          (polled[i + 2].revents == 0 || Hear(import)) && (!import.asked || Answer(import));
      if (goes_on) continue;
      LetGo(import);
      imports_.erase(imports_.begin() + ptrdiff_t(i));
    }
    if (polled[0].revents != 0 && !Accept()) deaf_until = Deadline::InMs(kDeafMs);
    Publish();
  }
}

bool ShareServer::Accept() {
  Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return false;
  if (!IsSameUser(socket.get())) return true;
  ucred peer{};
  socklen_t size = sizeof peer;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  imports_.push_back({ShareChannel(std::move(socket)), {}});
  imports_.back().pid = peer.pid;
  return true;
}

bool ShareServer::Hear(Import& import) {
  const auto packet = std::make_unique<wire::Packet>();
  // Poll said that there is one, or the end.
  if (!import.channel.Receive(packet.get(), Deadline::InMs(0)).ok()) return false;
  wire::ShareOpen open;
  wire::ShareNote note;
  if (packet->Read(&open)) {
    if (open.version != wire::kVersion) return false;
    LetGo(import);  // of an importer that could not map what it was given
    import.asked = open;
    return true;
  }
  if (!packet->Read(&note) || !wire::IsShareWord(note.word)) return false;
  const uint64_t op_id = note.header.op_id;
  switch (wire::ShareWord(note.word)) {
    case wire::ShareWord::kPrepared:
      import.prepared = true;
      Publish();  // before the answer: this process may evict as soon as all have theirs
      return Note(import, op_id, wire::ShareWord::kYes);
    case wire::ShareWord::kRunning:
      import.prepared = false;
      return true;
    case wire::ShareWord::kMayLetGo:
      return Note(
          import, op_id,
          pausing_.load(std::memory_order_acquire) ? wire::ShareWord::kYes : wire::ShareWord::kNo);
    case wire::ShareWord::kLetGo:
      LetGo(import);
      return Note(import, op_id, wire::ShareWord::kYes);
    case wire::ShareWord::kYes:
    case wire::ShareWord::kNo:
      break;
  }
  return false;
}

bool ShareServer::Answer(Import& import) {
  Heap::Shared shared;
  switch (heap_.Hold(import.asked->base, import.asked->number, &shared)) {
    case Heap::Holding::kOut:
      return true;  // later
    case Heap::Holding::kGone: {
      auto refused = wire::Make<wire::ShareGrant>(import.asked->header.op_id);
      refused.cuda = CUDA_ERROR_INVALID_VALUE;
      import.asked.reset();
      return import.channel.Send(refused, Deadline::InMs(kAnswerMs)).ok();
    }
    case Heap::Holding::kHeld:
      break;
  }
  const wire::ShareOpen open = *import.asked;
  import.asked.reset();
  import.holds = true;
  import.range = shared.range;
  import.range_number = shared.range_number;
  return Grant(import, open, shared);
}

bool ShareServer::Grant(Import& import, const wire::ShareOpen& open, const Heap::Shared& shared) {
  ScopedRelaxedCapture relaxed(driver_);
  auto grant = wire::Make<wire::ShareGrant>(open.header.op_id);
  std::vector<Fd> descriptors;
  for (const Piece& piece : shared.pieces) {
    int fd = -1;
    const CUresult r =
        driver_.mem_export(&fd, piece.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (r != CUDA_SUCCESS) {
      Log(LogLevel::kWarning, "CUDA IPC: the driver does not export this memory: %s",
          CudaError(driver_, r, "export").what);
      grant.cuda = r;
      break;
    }
    descriptors.emplace_back(fd);
  }
  // A handle may have been released meanwhile, and its number given to another one.
  const auto allocation = heap_.Find(open.base);
  if (!allocation || allocation->number != open.number) grant.cuda = CUDA_ERROR_INVALID_VALUE;
  CUuuid uuid{};
  if (grant.cuda == CUDA_SUCCESS) grant.cuda = driver_.device_get_uuid(&uuid, shared.device);
  memcpy(grant.uuid, uuid.bytes, sizeof grant.uuid);
  grant.piece_count = uint32_t(shared.pieces.size());
  grant.range_bytes = shared.range_bytes;
  grant.offset = shared.offset;
  grant.bytes = shared.bytes;
  const Deadline by = Deadline::InMs(kAnswerMs);
  if (grant.cuda != CUDA_SUCCESS) LetGo(import);  // it may ask again
  if (!import.channel.Send(grant, by).ok()) return false;
  if (grant.cuda != CUDA_SUCCESS) return true;
  for (size_t at = 0; at < descriptors.size(); at += wire::kMaxPieces) {
    auto pieces = wire::Make<wire::SharePieces>(open.header.op_id);
    int fds[wire::kMaxPieces];
    while (pieces.count < wire::kMaxPieces && at + pieces.count < descriptors.size()) {
      pieces.bytes[pieces.count] = shared.pieces[at + pieces.count].bytes;
      fds[pieces.count] = descriptors[at + pieces.count].get();
      ++pieces.count;
    }
    if (!import.channel.Send(pieces, by, std::span(fds, pieces.count)).ok()) return false;
  }
  return true;
}

bool ShareServer::Note(Import& import, uint64_t op_id, wire::ShareWord word) {
  auto note = wire::Make<wire::ShareNote>(op_id);
  note.word = uint32_t(word);
  return import.channel.Send(note, Deadline::InMs(kAnswerMs)).ok();
}

void ShareServer::LetGo(Import& import) {
  if (import.holds) heap_.LetGo(import.range, import.range_number);
  import.holds = false;
}

void ShareServer::Publish() {
  size_t waited_for = 0;
  std::vector<int> holders;
  for (const Import& import : imports_) {
    if (!import.holds) continue;
    waited_for += import.prepared ? 1 : 0;
    if (std::find(holders.begin(), holders.end(), import.pid) == holders.end()) {
      holders.push_back(import.pid);
    }
  }
  MutexLock lock(mu_);
  holders_ = std::move(holders);
  waited_for_ = waited_for;
  changed_.NotifyAll();
}

}  // namespace parkade::shim
