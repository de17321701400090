// Fuzzes what stands in a scratch base: the bytes of an owner file, names, and, for inputs that
// begin with 1, a sweep over a directory whose names and files the input spells.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "daemon/identity.h"
#include "daemon/scratch_layout.h"
#include "daemon/scratch_sweep.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;
namespace fs = std::filesystem;

namespace {

void CheckOwner(const uint8_t* data, size_t size) {
  const auto owner = daemon::ReadOwner({reinterpret_cast<const char*>(data), size});
  if (!owner) return;
  Must(size >= sizeof *owner && owner->pid > 0 && owner->magic == wire::kOwnerMagic);
  // This process is alive, whatever else the record says of it.
  static const std::optional<uint64_t> ticks = daemon::StartTicks(getpid());
  static const auto pid_namespace = daemon::PidNamespace(getpid());
  static const std::string boot = daemon::BootId();
  if (owner->pid == getpid() && owner->start_ticks == ticks &&
      owner->pid_namespace == pid_namespace && boot == owner->boot_id) {
    Must(daemon::LifeOf(*owner) == daemon::Life::kAlive);
  }
}

void WriteFile(int dir, const std::string& name, const uint8_t* data, size_t size) {
  const Fd fd(openat(dir, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd) Must(write(fd.get(), data, size) == ssize_t(size));
}

// The directory's name, the owner file and further names, each with its length in front.
class Spelled {
 public:
  Spelled(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  size_t Next(const uint8_t** at) {
    if (size_ == 0) return 0;
    const size_t n = std::min<size_t>(data_[0], size_ - 1);
    *at = data_ + 1;
    data_ += n + 1;
    size_ -= n + 1;
    return n;
  }
  std::string NextName() {
    const uint8_t* at = nullptr;
    const size_t n = Next(&at);
    std::string name(reinterpret_cast<const char*>(at), n);
    for (char& c : name) {
      if (c == '/' || c == '\0') c = '_';
    }
    return name == "." || name == ".." ? "" : name;
  }
  bool empty() const { return size_ == 0; }

 private:
  const uint8_t* data_;
  size_t size_;
};

bool IsOurName(const std::string& name) {
  return name == "owner" || name == "lock" || name.starts_with("data.");
}

void Sweep(const uint8_t* data, size_t size) {
  const std::string root = Folder() + "/parkade-v1";
  fs::create_directories(root);
  Spelled input(data, size);
  const std::string name = input.NextName();
  const std::string path = root + "/" + name;
  if (name.empty() || mkdir(path.c_str(), 0700) != 0) return;
  const Fd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const uint8_t* record = nullptr;
  if (const size_t n = input.Next(&record); n > 0) WriteFile(dir.get(), "owner", record, n);
  bool foreign = false;
  for (int i = 0; i < 4 && !input.empty(); ++i) {
    const std::string file = input.NextName();
    if (file.empty()) continue;
    WriteFile(dir.get(), file, data, 1);
    foreign |= !IsOurName(file) && faccessat(dir.get(), file.c_str(), F_OK, 0) == 0;
  }
  daemon::Sweep sweep;
  const daemon::Life life = daemon::Life(size % 3);
  sweep.life = [&](const wire::OwnerRecord&) { return life; };
  const auto swept = daemon::SweepBases({{Folder()}, {}}, {Folder()}, sweep);
  const bool gone = access(path.c_str(), F_OK) != 0;
  if (gone) Must(daemon::IsScratchName(name) && !foreign);
  Must(swept.size() == (daemon::IsScratchName(name) ? 1 : 0));
  if (!swept.empty()) Must(swept[0].dead == gone && !swept[0].reason.empty());
  if (!gone) fs::remove_all(path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckOwner(data, size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (daemon::IsScratchName(text)) Must(text.size() <= 36 && text[0] == 'p');
  if (size > 1 && data[0] == 1) Sweep(data + 1, size - 1);
  return 0;
}
