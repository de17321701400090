// Packer, Unpacker: numbers and texts one after the other as bytes, for this machine alone.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace parkade::daemon {

class Packer {
 public:
  void Number(uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void Real(double number) { Number(std::bit_cast<uint64_t>(number)); }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Past the end everything is zero and empty, and ok() is false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    const std::string_view bytes = Take(sizeof number);
    if (!bytes.empty()) memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  double Real() { return std::bit_cast<double>(Number()); }
  std::string Text() { return std::string(Take(Number())); }
  bool ok() const { return ok_; }
  // All has been read, and there was as much as was asked for.
  bool done() const { return ok_ && left_.empty(); }

 private:
  std::string_view Take(uint64_t count) {
    if (count > left_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
  bool ok_ = true;
};

}  // namespace parkade::daemon
