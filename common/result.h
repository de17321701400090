// Result<T>: how everything outside the daemon and the CLI says that something failed.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>

namespace parkade {

// The kinds of failure, with the numbers of google.rpc.Code so that daemon/status.cc maps one to
// one.
enum class Code : uint32_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

// One failure: what kind, why (a constant for programs), the OS or CUDA number, and what was tried
// (a sentence for people). Holds no heap memory, so it can be made when memory is out.
struct Error {
  Code code = Code::kInternal;
  const char* reason = "";  // upper-case constant such as "DISK_SPACE"; static storage
  int os_errno = 0;         // 0: not from the operating system
  int cuda = 0;             // CUresult; 0: not from the driver
  char what[208] = {};      // NUL-terminated
};

// Builds an Error; `format` says what was tried. Cuts the text at the size of Error::what.
[[gnu::format(printf, 3, 4)]] inline Error MakeError(Code code, const char* reason,
                                                     const char* format, ...) {
  Error e;
  e.code = code;
  e.reason = reason;
  va_list args;
  va_start(args, format);
  vsnprintf(e.what, sizeof e.what, format, args);
  va_end(args);
  return e;
}

// An Error that carries errno `os_errno`; its code follows from the number (ENOSPC: resource
// exhausted, EACCES: permission denied, ENOENT: not found, otherwise internal).
[[gnu::format(printf, 2, 3)]] Error OsError(int os_errno, const char* format, ...);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, error) {}

  bool ok() const { return state_.index() == 0; }
  // Only when ok().
  T& operator*() { return *std::get_if<0>(&state_); }
  const T& operator*() const { return *std::get_if<0>(&state_); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  // Only when not ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(error), ok_(false) {}

  bool ok() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace parkade
