// Reads and publishes the small files of a checkpoint.
#include "common/store/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/store/file_bytes.h"

namespace parkade::store {

Result<std::string> ReadWhole(int directory, const std::string& name, Bytes most,
                              const std::string& path) {
  const Fd fd(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat st;
  if (!fd || fstat(fd.get(), &st) != 0) return OsError(errno, "%s/%s", path.c_str(), name.c_str());
  if (!S_ISREG(st.st_mode)) {
    return MakeError(Code::kFailedPrecondition, "NOT_A_FILE", "%s/%s: not a regular file",
                     path.c_str(), name.c_str());
  }
  if (Bytes(st.st_size) > most) {
    return MakeError(Code::kDataLoss, "TOO_LARGE", "%s/%s: %llu bytes, %llu at most", path.c_str(),
                     name.c_str(), (unsigned long long)st.st_size, (unsigned long long)most);
  }
  std::string content(size_t(st.st_size), '\0');
  if (auto r = ReadAt(fd.get(), content.data(), content.size(), 0, name.c_str()); !r.ok()) {
    return r.error();
  }
  return content;
}

Result<void> AppearWhole(int directory, const std::string& temporary, const std::string& name,
                         const std::string& content, const std::string& path) {
  const auto failed = [&](const char* what) {
    const Error error = OsError(errno, "%s/%s: %s", path.c_str(), name.c_str(), what);
    unlinkat(directory, temporary.c_str(), 0);
    return error;
  };
  const Fd fd(openat(directory, temporary.c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return failed("create");
  if (auto r = WriteAt(fd.get(), content.data(), content.size(), 0, name.c_str()); !r.ok()) {
    unlinkat(directory, temporary.c_str(), 0);
    return r;
  }
  if (fsync(fd.get()) != 0) return failed("fsync");
  if (renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) return failed("rename");
  if (fsync(directory) != 0) return OsError(errno, "%s: fsync", path.c_str());
  return {};
}

Result<Fd> OpenDirectory(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return OsError(errno, "%s", path.c_str());
  return fd;
}

}  // namespace parkade::store
