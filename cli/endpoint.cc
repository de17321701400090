// Reads certificates; looks at who owns a socket's path.
#include "cli/endpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/error.h"
#include "common/trusted_path.h"

namespace parkade::cli {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) return UsageError(absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<Endpoint> OnTheNetwork(const Globals& globals) {
  if (globals.certificate.empty() || globals.key.empty() || globals.ca.empty()) {
    return UsageError("--address needs --cert, --key and --ca");
  }
  Endpoint endpoint{globals.address, true, {}, {}, {}};
  const std::pair<const std::string*, std::string*> files[] = {
      {&globals.certificate, &endpoint.certificate},
      {&globals.key, &endpoint.key},
      {&globals.ca, &endpoint.ca}};
  for (const auto& [path, text] : files) {
    auto read = ReadFile(*path);
    if (!read.ok()) return read.status();
    *text = std::move(*read);
  }
  return endpoint;
}

absl::Status Unsafe(const std::string& why) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, why, "UNSAFE_DIRECTORY");
}

// A path that leads nowhere is no danger: the call will say that nobody is there.
absl::Status CheckSocket(const std::string& directory) {
  if (directory.empty() || directory[0] != '/') return absl::OkStatus();
  const bool root = geteuid() == 0;  // who may ask any user's daemon
  const auto dir =
      OpenTrusted(directory + "/", root ? PathOwners::kAnyone : PathOwners::kRootOrSelf);
  if (!dir.ok()) {
    return dir.error().os_errno == 0 ? Unsafe(dir.error().what) : absl::OkStatus();
  }
  struct stat s;
  if (fstatat(dir->get(), "control.sock", &s, AT_SYMLINK_NOFOLLOW) != 0) return absl::OkStatus();
  const std::string path = absl::StrCat(directory, "/control.sock");
  if (!S_ISSOCK(s.st_mode)) return Unsafe(absl::StrCat(path, " is not a socket"));
  if (!root && s.st_uid != 0 && s.st_uid != geteuid()) {
    return Unsafe(absl::StrCat(path, " is the socket of user ", s.st_uid));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Endpoint> EndpointOf(const Globals& globals) {
  if (!globals.address.empty()) return OnTheNetwork(globals);
  if (auto s = CheckSocket(globals.runtime_dir); !s.ok()) return s;
  return Endpoint{globals.runtime_dir + "/control.sock", false, {}, {}, {}};
}

}  // namespace parkade::cli
