// Opens, makes, reads and writes safetensors files.
#include "common/store/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/store/encode_math.h"
#include "common/store/file_bytes.h"

namespace parkade::store {

Result<TensorFile> TensorFile::Open(const std::string& path) {
  TensorFile file;
  file.path_ = path;
  file.fd_ = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat st;
  if (!file.fd_ || fstat(file.fd_.get(), &st) != 0) return OsError(errno, "%s", path.c_str());
  const auto bad = [&path](const char* what) {
    return MakeError(Code::kDataLoss, "BAD_HEADER", "%s: %s", path.c_str(), what);
  };
  uint64_t length;
  if (!S_ISREG(st.st_mode) || Bytes(st.st_size) < sizeof length) return bad("no safetensors file");
  if (auto r = ReadAt(file.fd_.get(), &length, sizeof length, 0, path.c_str()); !r.ok()) {
    return r.error();
  }
  if (length > kMostTensorHeader || length > Bytes(st.st_size) - sizeof length) {
    return bad("a header longer than the file, or than 100 MB");
  }
  std::string text(length, '\0');
  if (auto r = ReadAt(file.fd_.get(), text.data(), length, sizeof length, path.c_str()); !r.ok()) {
    return r.error();
  }
  file.data_at_ = sizeof length + length;
  auto header = ParseTensorHeader(text, Bytes(st.st_size) - file.data_at_, path);
  if (!header.ok()) return header.error();
  file.header_ = std::move(*header);
  return file;
}

Result<TensorFile> TensorFile::Create(const std::string& path, TensorHeader header) {
  TensorFile file;
  file.path_ = path;
  const std::string text = PackTensorHeader(header);
  Bytes data = 0;
  for (const auto& [name, tensor] : header.tensors) data = std::max(data, tensor.end);
  if (text.size() > kMostTensorHeader) {
    return MakeError(Code::kInvalidArgument, "TOO_LARGE",
                     "%s: a header of %zu bytes, 100 MB at most", path.c_str(), text.size());
  }
  file.fd_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.fd_) return OsError(errno, "%s: create", path.c_str());
  file.data_at_ = sizeof(uint64_t) + text.size();
  const uint64_t length = text.size();
  std::string start(reinterpret_cast<const char*>(&length), sizeof length);
  start += text;
  if (auto r = WriteAt(file.fd_.get(), start.data(), start.size(), 0, path.c_str()); !r.ok()) {
    return r.error();
  }
  if (ftruncate(file.fd_.get(), off_t(file.data_at_ + data)) != 0) {
    return OsError(errno, "%s: %llu bytes", path.c_str(), (unsigned long long)data);
  }
  file.header_ = std::move(header);
  return file;
}

Result<void> TensorFile::Read(const Tensor& tensor, uint64_t at, uint64_t numel,
                              float* values) const {
  const Bytes size = SizeOf(tensor.type);
  if (size == 0 || (at + numel) * size > tensor.end - tensor.begin) {
    return MakeError(Code::kFailedPrecondition, "TENSOR_TYPE",
                     "%s: a tensor that is not F32, BF16 or F16, or ends before", path_.c_str());
  }
  const Bytes offset = data_at_ + tensor.begin + at * size;
  if (tensor.type == TensorType::kF32) {
    return ReadAt(fd_.get(), values, numel * size, offset, path_.c_str());
  }
  std::vector<uint16_t> codes(numel);
  if (auto r = ReadAt(fd_.get(), codes.data(), numel * size, offset, path_.c_str()); !r.ok()) {
    return r;
  }
  for (uint64_t i = 0; i < numel; ++i) {
    values[i] = tensor.type == TensorType::kBf16 ? FromBf16(codes[i]) : FromFp16(codes[i]);
  }
  return {};
}

Result<void> TensorFile::Write(const Tensor& tensor, uint64_t at, uint64_t numel,
                               const float* values) {
  return WriteAt(fd_.get(), values, numel * sizeof(float),
                 data_at_ + tensor.begin + at * sizeof(float), path_.c_str());
}

Result<void> TensorFile::Sync() {
  if (fsync(fd_.get()) != 0) return OsError(errno, "%s: fsync", path_.c_str());
  return {};
}

}  // namespace parkade::store
