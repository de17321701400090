// Fuzzes what crosses the shim's socket: a packet through Channel::Receive, every reader of it, and
// what the daemon makes of a Hello and a Reply.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "daemon/identity.h"
#include "daemon/process.h"
#include "daemon/status.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;

namespace {

// Whatever types of messages there are.
const std::vector<wire::Type>& Types() {
  static const std::vector<wire::Type> types = [] {
    std::vector<wire::Type> known;
    for (uint32_t i = 0; i < 256; ++i) {
      if (wire::SizeOf(wire::Type(i)) != 0) known.push_back(wire::Type(i));
    }
    return known;
  }();
  return types;
}

struct Ends {
  Ends() {
    int fds[2];
    Must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    sender = fds[0];
    receiver.emplace(Fd(fds[1]));
  }
  int sender;
  std::optional<wire::Channel> receiver;
};

// The packet that `M` is, and no other, reads as it.
template <typename M>
int ReadAs(const wire::Packet& packet, M* message) {
  if (!packet.Read(message)) return 0;
  Must(packet.size == sizeof(M) && message->header.type == wire::TypeOf<M>());
  return 1;
}

void Introduce(const wire::Hello& hello) {
  const daemon::Introduction in = daemon::IntroductionOf(hello);
  for (const std::string* text :
       {&in.job, &in.role, &in.cell, &in.shim_version, &in.wanted_scratch_base}) {
    for (const unsigned char c : *text) Must(c >= ' ' && c != 127);
  }
  Must(in.default_policy != wire::Policy::kDiscard);
  static const daemon::Peer us{getpid(), geteuid(), getegid(), {}};
  static const std::optional<uint64_t> ticks = daemon::StartTicks(getpid());
  // Nothing but the truth is believed.
  const auto identified = daemon::Identify(us, hello);
  if (identified.ok()) Must(hello.pid == getpid() && hello.start_ticks == ticks);
}

void Answer(const wire::Reply& reply) {
  const absl::Status status = daemon::ToStatus(reply, 4711);
  Must(status.ok() == (reply.code == 0));
  if (status.ok()) return;
  Must(!daemon::ReasonOf(status).empty());
  for (const unsigned char c : daemon::MessageOf(status)) Must(c >= ' ' && c != 127);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Ends ends;
  if (size == 0) return 0;  // would read as the end of the connection
  const uint8_t fds = data[0] % 16;
  SendWithDescriptors(ends.sender, data + 1, size - 1, fds);
  wire::Packet packet;
  if (!ends.receiver->Receive(&packet, Deadline::InMs(0)).ok()) return 0;
  Must(packet.fd_count == fds);
  Must(packet.size == size - 1 && wire::SizeOf(packet.header().type) == packet.size);
  wire::Hello hello;
  wire::Reply reply;
  wire::Welcome welcome;
  wire::Refusal refusal;
  wire::Prepare prepare;
  wire::LetThrough let_through;
  wire::Commit commit;
  wire::Abort abort_message;
  wire::Resume resume;
  wire::ReleaseHost release;
  wire::Want want;
  wire::Holders holders;
  wire::Warm warm;
  wire::AskWarm ask_warm;
  wire::Verify verify;
  wire::Shift shift;
  wire::WrongBlock wrong;
  wire::AskTurn ask_turn;
  wire::NoTurn no_turn;
  const int is_hello = ReadAs(packet, &hello), is_reply = ReadAs(packet, &reply);
  Must(is_hello + is_reply + ReadAs(packet, &welcome) + ReadAs(packet, &refusal) +
           ReadAs(packet, &prepare) + ReadAs(packet, &let_through) + ReadAs(packet, &commit) +
           ReadAs(packet, &abort_message) + ReadAs(packet, &resume) + ReadAs(packet, &release) +
           ReadAs(packet, &want) + ReadAs(packet, &holders) + ReadAs(packet, &warm) +
           ReadAs(packet, &ask_warm) + ReadAs(packet, &verify) + ReadAs(packet, &shift) +
           ReadAs(packet, &wrong) + ReadAs(packet, &ask_turn) + ReadAs(packet, &no_turn) <=
       1);
  if (is_hello) Introduce(hello);
  if (is_reply) Answer(reply);
  return 0;
}

// Three in four inputs get a header that is right, so that their fields are looked at.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max);
  const wire::Type type = Types()[seed / 4 % Types().size()];
  const size_t whole = 1 + wire::SizeOf(type);
  if (seed % 4 == 0 || whole > max) return size;
  if (size < whole) memset(data + size, 0, whole - size);
  wire::Header header{wire::kMagic, type, uint32_t(whole - 1), 0, seed};
  memcpy(data + 1, &header, sizeof header);
  data[0] %= 10;  // more descriptors than a packet may carry are refused
  return whole;
}
