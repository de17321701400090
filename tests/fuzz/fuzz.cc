// Descriptors for fuzz targets.
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace parkade::fuzz {

void SendWithDescriptors(int socket, const uint8_t* data, size_t size, unsigned count) {
  static const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  constexpr unsigned kMost = 16;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMost)] = {};
  iovec io{const_cast<uint8_t*>(data), size};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  if (count > 0) {
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (unsigned i = 0; i < count; ++i) memcpy(CMSG_DATA(c) + i * sizeof(int), &null, sizeof null);
  }
  Must(sendmsg(socket, &m, MSG_NOSIGNAL) == ssize_t(size));
}

const std::string& Folder() {
  static const std::string folder = [] {
    std::string pattern = std::filesystem::current_path() / "fuzz-XXXXXX";
    Must(mkdtemp(pattern.data()) != nullptr);
    umask(077);  // readers look at the mode of what is made in it
    return pattern;
  }();
  [[maybe_unused]] static const int registered =
      atexit([] { std::filesystem::remove_all(Folder()); });
  return folder;
}

MemoryFile::MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {}

void MemoryFile::Fill(const uint8_t* data, size_t size) {
  Must(pwrite(fd_.get(), data, size, 0) == ssize_t(size));
  Must(ftruncate(fd_.get(), off_t(size)) == 0);
}

}  // namespace parkade::fuzz
