// RuntimeDir: the directory with the daemon's sockets, for one daemon at a time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fd.h"

namespace parkade::daemon {

// Makes a directory of one's own, parents too. FAILED_PRECONDITION (UNSAFE_DIRECTORY) when another
// user could change it or a part of the path to it; the message names the part.
absl::Status MakeDirectory(const std::string& path, mode_t mode);

// A bound and listening Unix socket, mode 0666, in place of whatever was at `path`; the caller
// holds the runtime directory's lock. `type` is SOCK_SEQPACKET or SOCK_STREAM.
absl::StatusOr<Fd> ListenAt(const std::string& path, int type);

class RuntimeDir {
 public:
  // Makes and locks it. FAILED_PRECONDITION (ALREADY_RUNNING) when another daemon has the lock.
  static absl::StatusOr<RuntimeDir> Open(const std::string& path);
  RuntimeDir(RuntimeDir&&) = default;
  RuntimeDir& operator=(RuntimeDir&&) = delete;
  // Removes the sockets that Listen made, if they are still those.
  ~RuntimeDir();

  // Listens at `name` in the directory, in place of a stale socket.
  absl::StatusOr<Fd> Listen(const std::string& name, int type);

 private:
  RuntimeDir(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  struct Made {
    std::string path;
    dev_t device;
    ino_t inode;
  };
  std::string path_;
  std::vector<Made> made_;
  Fd lock_;  // last to go
};

}  // namespace parkade::daemon
