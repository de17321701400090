// Lock and sockets.
#include "daemon/runtime_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/trusted_path.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {

absl::Status MakeDirectory(const std::string& path, mode_t mode) {
  const auto dir = MakeTrusted(path, PathOwners::kRootOrSelf, mode);
  if (!dir.ok()) return ToStatus(dir.error());
  struct stat s;
  if (fstat(dir->get(), &s) != 0) return ToStatus(OsError(errno, "look at %s", path.c_str()));
  // A sticky bit is no help here: others could put their own sockets beside ours.
  if ((s.st_mode & 0022) == 0) return absl::OkStatus();
  return Fail(absl::StatusCode::kFailedPrecondition, "UNSAFE_DIRECTORY",
              Cat(path, " can be written to by other users: chmod go-w"), {{"path", path}});
}

absl::StatusOr<Fd> ListenAt(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG",
                Cat("socket path is longer than 107 bytes: ", path));
  }
  path.copy(address.sun_path, path.size());
  const auto failed = [&](const char* what) {
    return ToStatus(OsError(errno, "%s %s", what, path.c_str()));
  };
  Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("make socket");
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return failed("replace stale socket");
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return failed("bind to");
  }
  // Who may do what is decided by the peer's credentials, not by the socket's mode.
  if (chmod(path.c_str(), 0666) != 0) return failed("set the mode of");
  if (listen(socket.get(), SOMAXCONN) != 0) return failed("listen at");
  return socket;
}

absl::StatusOr<RuntimeDir> RuntimeDir::Open(const std::string& path) {
  if (auto s = MakeDirectory(path, 0755); !s.ok()) return s;
  const std::string lock_path = path + "/parkaded.lock";
  Fd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!lock) return ToStatus(OsError(errno, "open %s", lock_path.c_str()));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(absl::StatusCode::kFailedPrecondition, "ALREADY_RUNNING",
                Cat("another parkaded serves ", path, " already"));
  }
  return RuntimeDir(path, std::move(lock));
}

absl::StatusOr<Fd> RuntimeDir::Listen(const std::string& name, int type) {
  const std::string path = Cat(path_, "/", name);
  auto socket = ListenAt(path, type);
  if (!socket.ok()) return socket;
  struct stat s;
  if (lstat(path.c_str(), &s) != 0) return ToStatus(OsError(errno, "look at %s", path.c_str()));
  made_.push_back({path, s.st_dev, s.st_ino});
  return socket;
}

RuntimeDir::~RuntimeDir() {
  for (const Made& made : made_) {
    struct stat s;
    if (lstat(made.path.c_str(), &s) == 0 && s.st_dev == made.device && s.st_ino == made.inode) {
      unlink(made.path.c_str());
    }
  }
}

}  // namespace parkade::daemon
