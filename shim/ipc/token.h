// Token: what stands in the 64 bytes of a CUipcMemHandle for memory of the heap.
#pragma once

#include <cuda.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

namespace parkade::shim {

// Who shares it and which allocation. Holds nothing: the exporter may free it at any time.
struct Token {
  static constexpr uint64_t kMagic = 0x314e'4b54'5049'4b50;  // "PKIPTKN1"
  uint64_t magic;
  std::array<unsigned char, 16> server;  // random; names the exporter's socket
  uint64_t base;                         // device address in the exporter
  uint64_t number;                       // of the allocation
  int32_t pid;                           // of the exporter, for messages
  uint32_t zero[5];

  // The exporter's socket: abstract, "parkade-ipc-" and 32 hexadecimal digits. Returns its length.
  socklen_t Address(sockaddr_un* address) const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string name = "parkade-ipc-";
    for (const unsigned char byte : server) {
      name += kDigits[byte >> 4];
      name += kDigits[byte & 15];
    }
    *address = {};
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name.data(), name.size());  // the leading NUL makes it abstract
    return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
};
static_assert(std::is_trivially_copyable_v<Token> && sizeof(Token) == sizeof(CUipcMemHandle));

// None when the handle is the driver's own.
inline std::optional<Token> ReadToken(const CUipcMemHandle& handle) {
  Token token;
  memcpy(&token, &handle, sizeof token);
  if (token.magic != Token::kMagic) return std::nullopt;
  return token;
}

}  // namespace parkade::shim
