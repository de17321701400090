// The importer's side of the conversation in proto/wire.h.
#include "shim/ipc/import.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>

namespace parkade::shim {
namespace {

Error Nonsense() {
  return MakeError(Code::kInvalidArgument, "BAD_MESSAGE", "the exporter's answer makes no sense");
}

// Ranges larger than any GPU are a lie, and would be reserved.
constexpr Bytes kLargestRange = Bytes(1) << 44;

bool IsSound(const wire::ShareGrant& g) {
  return g.range_bytes != 0 && g.range_bytes <= kLargestRange && g.bytes != 0 &&
         g.offset < g.range_bytes && g.bytes <= g.range_bytes - g.offset && g.piece_count != 0 &&
         g.piece_count <= g.range_bytes / 4096;
}

}  // namespace

Result<ShareChannel> ConnectTo(const Token& token) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string name = token.SocketName();
  memcpy(at.sun_path + 1, name.data(), name.size());
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return OsError(errno, "socket");
  const socklen_t length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&at), length) != 0) {
    Error e = OsError(errno, "reaching process %d for its memory", token.pid);
    e.code = Code::kUnavailable;
    return e;
  }
  return ShareChannel(std::move(socket));
}

Result<CUresult> Request(Imports::Import& import, Deadline by) {
  auto open = wire::Make<wire::ShareOpen>();
  open.version = wire::kVersion;
  open.base = import.token.base;
  open.number = import.token.number;
  if (auto r = import.channel.Send(open, by); !r.ok()) return r.error();
  const auto packet = std::make_unique<wire::Packet>();
  if (auto r = import.channel.Receive(packet.get(), by); !r.ok()) return r.error();
  wire::ShareGrant grant;
  if (!packet->Read(&grant)) return Nonsense();
  if (grant.cuda != 0) return CUresult(grant.cuda);
  if (!IsSound(grant)) return Nonsense();
  import.range_bytes = grant.range_bytes;
  import.offset = grant.offset;
  import.bytes = grant.bytes;
  memcpy(import.uuid, grant.uuid, sizeof import.uuid);
  import.handles.clear();
  Bytes sum = 0;
  while (import.handles.size() < grant.piece_count) {
    if (auto r = import.channel.Receive(packet.get(), by); !r.ok()) return r.error();
    wire::SharePieces pieces;
    if (!packet->Read(&pieces) || pieces.count == 0 || pieces.count > wire::kMaxPieces ||
        packet->fd_count != pieces.count) {
      return Nonsense();
    }
    for (uint32_t i = 0; i < pieces.count; ++i) {
      if (pieces.bytes[i] == 0 || pieces.bytes[i] > grant.range_bytes - sum) return Nonsense();
      sum += pieces.bytes[i];
      import.handles.push_back({pieces.bytes[i], std::move(packet->fds[i]), 0});
    }
  }
  if (sum != grant.range_bytes) return Nonsense();
  return CUDA_SUCCESS;
}

wire::ShareWord SayTo(Imports::Import& import, wire::ShareWord word, Deadline by) {
  auto note = wire::Make<wire::ShareNote>();
  note.word = uint32_t(word);
  if (!import.channel.Send(note, by).ok()) return wire::ShareWord::kNo;
  if (word != wire::ShareWord::kMayLetGo && word != wire::ShareWord::kLetGo) {
    return wire::ShareWord::kYes;
  }
  const auto packet = std::make_unique<wire::Packet>();
  if (!import.channel.Receive(packet.get(), by).ok() || !packet->Read(&note)) {
    return wire::ShareWord::kNo;
  }
  return wire::ShareWord(note.word) == wire::ShareWord::kYes ? wire::ShareWord::kYes
                                                             : wire::ShareWord::kNo;
}

}  // namespace parkade::shim
