// What our code and libstdc++'s headers take from a glibc newer than 2.31, made of older parts.
//
// Hidden by exports.map, so only the shim's own calls come here.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

// 2.32: lets reference counts do without atomics in a process of one thread. Always "no" here.
char __libc_single_threaded = 0;

// 2.33: before, these were inline calls of __xstat and its kin. The kernel's layout is glibc's on
// 64-bit machines.
int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return int(syscall(SYS_newfstatat, folder, path, out, flags));
}
int stat(const char* path, struct stat* out) noexcept { return fstatat(AT_FDCWD, path, out, 0); }
int lstat(const char* path, struct stat* out) noexcept {
  return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int fstat(int fd, struct stat* out) noexcept { return fstatat(fd, "", out, AT_EMPTY_PATH); }
}
