// Finds, checks and lists the library for the dynamic loader.
#include "cli/preload.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/error.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "libparkade.so";
constexpr char kOwnSymbol[] = "parkade_version";  // shim/version.cc
// From the folder of this program: build tree and tarball, then Debian's and Fedora's layouts.
constexpr const char* kPlaces[] = {"../lib", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu",
                                   "../lib64"};

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

// The file that the loader takes for an entry of LD_PRELOAD; the entry itself where that is open.
std::string Resolve(const std::string& entry) {
  if (absl::StrContains(entry, '/')) return entry;
  const std::string library_path = Environment("LD_LIBRARY_PATH");
  for (const auto folder : absl::StrSplit(library_path, absl::ByAnyChar(":;"))) {
    const std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", entry);
    if (access(file.c_str(), R_OK) == 0) return file;
  }
  return entry;
}

absl::Status NotTakes(const std::string& program, const std::string& why) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    absl::StrCat(program, " is ", why, ": the loader ignores LD_PRELOAD for it"),
                    "SECURE_PROGRAM");
}

}  // namespace

absl::StatusOr<std::string> FindLibrary() {
  const std::string named = Environment("PARKADE_LIBRARY");
  std::error_code error;
  if (!named.empty()) {
    const fs::path path = fs::absolute(named, error);
    if (fs::exists(path, error)) return path.string();
    return MakeStatus(absl::StatusCode::kNotFound,
                      absl::StrCat("PARKADE_LIBRARY names ", named, ", which does not exist"),
                      "NO_LIBRARY");
  }
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : kPlaces) {
    const fs::path path = fs::weakly_canonical(folder / place, error) / kName;
    if (fs::exists(path, error)) return path.string();
  }
  return MakeStatus(absl::StatusCode::kNotFound,
                    absl::StrCat("no libparkade.so in ", absl::StrJoin(kPlaces, ", "), " from ",
                                 folder.string(), "; PARKADE_LIBRARY can name it"),
                    "NO_LIBRARY");
}

absl::Status CheckLibrary(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat("the library does not load: ", dlerror()), "BAD_LIBRARY");
  }
  // No driver function: the library, preloaded into this process, hides those from dlsym.
  const bool ours = dlsym(handle, kOwnSymbol) != nullptr;
  dlclose(handle);
  if (ours) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    absl::StrCat(library, " is not Parkade's library: it has no ", kOwnSymbol),
                    "BAD_LIBRARY");
}

absl::StatusOr<std::string> MergePreload(const std::string& preload, const std::string& library) {
  if (library.find_first_of(": ") != std::string::npos) {
    return UsageError(absl::StrCat("\"", library,
                                   "\" cannot stand in LD_PRELOAD, which is split at colons and "
                                   "spaces: move it or link to it"));
  }
  for (const auto part : absl::StrSplit(preload, absl::ByAnyChar(": "), absl::SkipEmpty())) {
    const std::string entry(part);
    if (IsSameFile(Resolve(entry), library)) return preload;
    if (absl::StartsWith(fs::path(entry).filename().string(), kName)) {
      return UsageError(absl::StrCat("LD_PRELOAD already names another one, ", entry, ", beside ",
                                     library, ": take it out, or set PARKADE_LIBRARY to it"));
    }
  }
  return preload.empty() ? library : absl::StrCat(preload, ":", library);
}

std::string LookUp(const std::string& command) {
  if (absl::StrContains(command, '/')) return command;
  const char* path = getenv("PATH");
  const std::string folders = path == nullptr ? "/bin:/usr/bin" : path;
  for (const auto folder : absl::StrSplit(folders, ':')) {
    const std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", command);
    struct stat info {};
    if (stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

absl::Status CheckTakesPreload(const std::string& program) {
  struct stat info {};
  if (program.empty() || stat(program.c_str(), &info) != 0) return absl::OkStatus();
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != getuid()) return NotTakes(program, "setuid");
  // Without the execute bit for the group, setgid only marks mandatory locking.
  const bool setgid = (info.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  if (setgid && info.st_gid != getgid()) return NotTakes(program, "setgid");
  if (getuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0) {
    return NotTakes(program, "given capabilities");
  }
  return absl::OkStatus();
}

}  // namespace parkade::cli
