// The importer's side of the conversation in proto/wire.h.
#include "shim/ipc/import.h"

#include <errno.h>

#include <memory>

namespace parkade::shim {
namespace {

// Ranges larger than any GPU are a lie, and would be reserved.
constexpr Bytes kLargestRange = Bytes(1) << 44;

Error Nonsense() {
  return MakeError(Code::kInvalidArgument, "BAD_MESSAGE", "the exporter's answer makes no sense");
}

bool IsSound(const wire::ShareGrant& g) {
  return g.range_bytes != 0 && g.range_bytes <= kLargestRange && g.bytes != 0 &&
         g.offset < g.range_bytes && g.bytes <= g.range_bytes - g.offset && g.piece_count != 0 &&
         g.piece_count <= g.range_bytes / 4096;
}

}  // namespace

Result<ShareClient> ShareClient::Connect(const Token& token) {
  sockaddr_un address;
  const socklen_t length = token.Address(&address);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return OsError(errno, "socket");
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    Error e = OsError(errno, "reaching process %d for its memory", token.pid);
    if (errno == ECONNREFUSED) e.code = Code::kUnavailable;
    return e;
  }
  if (!IsSameUser(socket.get())) {
    return MakeError(Code::kPermissionDenied, "UID_MISMATCH",
                     "process %d has ended, and another user answers for it", token.pid);
  }
  return ShareClient(ShareChannel(std::move(socket)));
}

Result<void> ShareClient::Hear(uint64_t op_id, wire::Packet* packet, Deadline by) {
  do {
    if (auto r = channel_.Receive(packet, by); !r.ok()) return r;
  } while (packet->header().op_id != op_id);
  return {};
}

Result<ShareGrant> ShareClient::Ask(const Token& token, Deadline by) {
  auto open = wire::Make<wire::ShareOpen>(++last_op_);
  open.version = wire::kVersion;
  open.base = token.base;
  open.number = token.number;
  if (auto r = channel_.Send(open, by); !r.ok()) return r.error();
  const auto packet = std::make_unique<wire::Packet>();
  if (auto r = Hear(last_op_, packet.get(), by); !r.ok()) return r.error();
  wire::ShareGrant granted;
  if (!packet->Read(&granted)) return Nonsense();
  if (granted.cuda != 0) {
    Error e = MakeError(Code::kInternal, "REFUSED", "process %d does not share the memory: CUDA %d",
                        token.pid, granted.cuda);
    e.cuda = granted.cuda;
    return e;
  }
  if (!IsSound(granted)) return Nonsense();
  ShareGrant grant;
  grant.range_bytes = granted.range_bytes;
  grant.offset = granted.offset;
  grant.bytes = granted.bytes;
  memcpy(grant.uuid, granted.uuid, sizeof grant.uuid);
  Bytes sum = 0;
  while (grant.pieces.size() < granted.piece_count) {
    if (auto r = Hear(last_op_, packet.get(), by); !r.ok()) return r.error();
    wire::SharePieces pieces;
    if (!packet->Read(&pieces) || pieces.count == 0 || pieces.count > wire::kMaxPieces ||
        packet->fd_count != pieces.count) {
      return Nonsense();
    }
    for (uint32_t i = 0; i < pieces.count; ++i) {
      if (pieces.bytes[i] == 0 || pieces.bytes[i] > grant.range_bytes - sum) return Nonsense();
      sum += pieces.bytes[i];
      grant.pieces.push_back({pieces.bytes[i], std::move(packet->fds[i])});
    }
  }
  if (sum != grant.range_bytes) return Nonsense();
  return grant;
}

bool ShareClient::Say(wire::ShareWord word, Deadline by) {
  auto note = wire::Make<wire::ShareNote>(++last_op_);
  note.word = uint32_t(word);
  if (!channel_.Send(note, by).ok()) return false;
  if (word == wire::ShareWord::kRunning) return true;
  const auto packet = std::make_unique<wire::Packet>();
  if (!Hear(last_op_, packet.get(), by).ok() || !packet->Read(&note)) return false;
  return wire::ShareWord(note.word) == wire::ShareWord::kYes;
}

}  // namespace parkade::shim
