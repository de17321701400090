// Checks io_uring, and the directories that backups go to.
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"
#include "common/io/direct_files.h"
#include "common/io/io_engine.h"
#include "common/io/memory_files.h"

namespace parkade::cli {
namespace {

class NoThreads final : public ThreadStarter {
 public:
  Result<void> Start(const char*, void (*)(void*), void*) override {
    return MakeError(Code::kUnimplemented, "NO_THREADS", "nothing is read or written here");
  }
  void JoinAll() override {}
};

struct Kind {
  unsigned long type;
  const char* name;
  const char* remark;  // null: nothing is to be said
};
constexpr char kNetwork[] =
    "a network file system: it is as fast as the network, and what an earlier boot left stays";
constexpr Kind kKinds[] = {
    {EXT4_SUPER_MAGIC, "ext4", nullptr},
    {0x58465342, "xfs", nullptr},
    {F2FS_SUPER_MAGIC, "f2fs", nullptr},
    {0x2fc12fc1, "zfs", "it may take O_DIRECT and cache all the same"},
    {BTRFS_SUPER_MAGIC, "btrfs", "it takes O_DIRECT and caches what it compresses or checksums"},
    {OVERLAYFS_SUPER_MAGIC, "overlay", "a container's own file system: mount a disk there instead"},
    {FUSE_SUPER_MAGIC, "FUSE", "every transfer goes through another program"},
    {NFS_SUPER_MAGIC, "NFS", kNetwork},
    {0x0bd00bd0, "Lustre", kNetwork},
    {0x00c36400, "Ceph", kNetwork},
    {0xfe534d42, "SMB", kNetwork},
};

Finding CheckDirectIo(const std::string& path) {
  Fd files[] = {Fd(open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600))};
  if (!files[0]) {
    const int error = errno;
    return {Level::kNote, "disk",
            absl::StrCat("O_DIRECT in ", path, " cannot be tried: ", strerror(error)),
            error == EACCES ? "sudo parkade doctor" : ""};
  }
  const auto direct = DirectFiles::Adopt(files);
  if (!direct.ok()) {
    return {Level::kNote, "disk",
            absl::StrCat("O_DIRECT in ", path, " cannot be tried: ", direct.error().what), ""};
  }
  if (direct->direct(0)) {
    return {Level::kOk, "disk", absl::StrCat(path, " takes O_DIRECT"), ""};
  }
  return {Level::kWarning, "disk",
          absl::StrCat(path, " goes through the page cache: ", direct->buffered_because()), ""};
}

// What the daemon has found out.
Finding CheckSpeed(const v1::ScratchBase& base) {
  if (base.write_gbps() == 0 && base.read_gbps() == 0) {
    return {Level::kNote, "disk",
            absl::StrCat(
                Printable(base.path()),
                " has no measured speed: the daemon tries a disk at its start, if 1 GiB is free"),
            "sudo systemctl restart parkaded"};
  }
  return {
      Level::kOk, "disk",
      absl::StrFormat("%s writes %.1f and reads %.1f GB/s, with %s free", Printable(base.path()),
                      base.write_gbps(), base.read_gbps(), FormatBytes(base.free_bytes())),
      ""};
}

}  // namespace

Findings CheckIoUring(const KernelFiles& files) {
  const auto choice = MakeIoEngine(2, std::make_unique<NoThreads>());
  if (!choice.uring_refusal) {
    return {{Level::kOk, "disk", "io_uring works for this user", ""}};
  }
  const std::string text = ReadSmallFile(files.proc + "/sys/kernel/io_uring_disabled");
  const std::string disabled(absl::StripAsciiWhitespace(text));
  if (disabled == "1" || disabled == "2") {
    return {{Level::kWarning, "disk",
             absl::StrCat("io_uring is switched off (kernel.io_uring_disabled = ", disabled,
                          "): disks are used by threads, which costs processors"),
             "sudo sysctl kernel.io_uring_disabled=0"}};
  }
  return {{Level::kWarning, "disk",
           absl::StrCat("io_uring is refused (", choice.uring_refusal->what, ": ",
                        strerror(choice.uring_refusal->os_errno),
                        "), as by a container's seccomp profile: disks are used by threads"),
           "docker run --security-opt seccomp=unconfined"}};
}

Finding JudgeFileSystem(const std::string& path, unsigned long type) {
  if (IsMemoryType(type)) {
    return {
        Level::kWarning, "disk",
        absl::StrCat(path, " is host memory (tmpfs): a backup there saves none, and is refused"),
        absl::StrCat("parkaded --allow-tmpfs ", path)};
  }
  for (const Kind& kind : kKinds) {
    if (kind.type != type) continue;
    if (kind.remark == nullptr) {
      return {Level::kOk, "disk", absl::StrCat(path, " is on ", kind.name), ""};
    }
    return {Level::kNote, "disk", absl::StrCat(path, " is on ", kind.name, ": ", kind.remark), ""};
  }
  return {
      Level::kNote, "disk",
      absl::StrFormat("%s is on a file system of a type that is not known here (0x%x)", path, type),
      ""};
}

Findings CheckScratch(const std::string& path, const v1::ScratchBase* known) {
  const std::string name = Printable(path);
  if (known != nullptr && !known->usable()) {
    return {{Level::kError, "disk",
             absl::StrCat("the daemon cannot use ", name, ": ", Printable(known->reason())),
             absl::StrCat("sudo mkdir -p -m 1777 ", name)}};
  }
  struct statfs info = {};
  if (statfs(path.c_str(), &info) != 0) {
    return {{Level::kError, "disk", absl::StrCat("there is no ", name, ": ", strerror(errno)),
             absl::StrCat("sudo mkdir -p -m 1777 ", name)}};
  }
  Findings found{JudgeFileSystem(path, static_cast<unsigned long>(info.f_type)),
                 CheckDirectIo(path)};
  if (known != nullptr) found.push_back(CheckSpeed(*known));
  for (Finding& finding : found) finding.text = Printable(finding.text);
  return found;
}

}  // namespace parkade::cli
