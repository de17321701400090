// Reads and writes safetensors files defensively: a length, a JSON header, raw little-endian data.
// Whole tensors by name; it knows nothing of stores.
//
// Format: huggingface/safetensors, README.md: eight bytes of header length, the header
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, "__metadata__": {...}},
// offsets counted from its end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/fd.h"
#include "common/result.h"

namespace parkade::store {

constexpr Bytes kMostTensorHeader = 100'000'000;

enum class TensorType { kF32, kBf16, kF16, kOther };  // kOther: its length is not checked by shape

struct Tensor {
  TensorType type = TensorType::kOther;
  std::vector<uint64_t> shape = {};
  Bytes begin = 0, end = 0;  // in the data
};

struct TensorHeader {
  std::map<std::string, Tensor> tensors = {};
  std::map<std::string, std::string> metadata = {};
};

// `json` is the header's text, `data_bytes` how many bytes of data follow it. Every tensor lies
// within the data and none over another; shape times size is its length; no name comes twice.
// DATA_LOSS BAD_HEADER with `name`, what is wrong and where.
Result<TensorHeader> ParseTensorHeader(std::string_view json, Bytes data_bytes,
                                       const std::string& name);

// A header's text with offsets filled in: the tensors follow each other in the order of their
// names. Its length is a multiple of 8.
std::string PackTensorHeader(TensorHeader& header);

class TensorFile {
 public:
  // Opens a file and checks its header. As OsError and ParseTensorHeader.
  static Result<TensorFile> Open(const std::string& path);
  // Makes a file, which must not exist, with that header and room for its data, as zeros.
  static Result<TensorFile> Create(const std::string& path, TensorHeader header);

  const TensorHeader& header() const { return header_; }
  const std::string& path() const { return path_; }

  // Elements [at, at + numel) of a tensor of the header, as binary32; F32, BF16 and F16 widen
  // exactly. FAILED_PRECONDITION TENSOR_TYPE for others; otherwise as ReadAt.
  Result<void> Read(const Tensor& tensor, uint64_t at, uint64_t numel, float* values) const;
  // The reverse, for F32. As WriteAt.
  Result<void> Write(const Tensor& tensor, uint64_t at, uint64_t numel, const float* values);
  // Brings a created file to the disk. As OsError.
  Result<void> Sync();

 private:
  Fd fd_;
  std::string path_;
  TensorHeader header_;
  Bytes data_at_ = 0;
};

// Bytes of an element; 0 for kOther.
Bytes SizeOf(TensorType type);

}  // namespace parkade::store
