// Token: what stands in the 64 bytes of a CUipcMemHandle for memory of the heap.
#pragma once

#include <cuda.h>

#include <array>
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

  // The abstract socket's name, without its leading NUL byte.
  std::string SocketName() const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string name = "parkade-ipc-";
    for (const unsigned char byte : server) {
      name += kDigits[byte >> 4];
      name += kDigits[byte & 15];
    }
    return name;
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
