// A preload for tests: lets one call of a process fail, or end the process there.
//
// CALL_FAULTS names a file, looked at on every call, with one line at most:
//
//   NAME N fail ERRNO | NAME N kill | NAME N kill-after
//
// It acts once, on the Nth call of NAME since the process first saw that file. NAME is
//   send, receive  packets of a SOCK_SEQPACKET socket, as between shim and daemon; a receive that
//                  fails has taken the packet from the socket
//   write, sync    of a regular file below CALL_FAULTS_FOLDER
//   rename         to a name below it
// When it has acted, the line "NAME N" stands in CALL_FAULTS with ".done" behind its name.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NOTHING, FAIL, KILL, KILL_AFTER };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
static char wanted[16];
static int wanted_error, calls_left;
static enum action wanted_action = NOTHING;

static void read_file(const char* path) {
  struct stat now;
  if (stat(path, &now) != 0) memset(&now, 0, sizeof now);
  // A new file takes the old one's place, so the inode tells; its number may come again.
  if (now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
    return;
  seen = now;
  wanted_action = NOTHING;
  FILE* file = fopen(path, "re");
  if (file == NULL) return;
  char verb[16] = "";
  if (fscanf(file, "%15s %d %15s %d", wanted, &calls_left, verb, &wanted_error) >= 3) {
    wanted_action = strcmp(verb, "fail") == 0         ? FAIL
                    : strcmp(verb, "kill") == 0       ? KILL
                    : strcmp(verb, "kill-after") == 0 ? KILL_AFTER
                                                      : NOTHING;
  }
  fclose(file);
}

static void say_done(const char* path) {
  char done[4096];
  snprintf(done, sizeof done, "%s.done", path);
  FILE* file = fopen(done, "we");
  if (file == NULL) return;
  fprintf(file, "%s\n", wanted);
  fclose(file);
}

// What shall happen to this call of `name`; FAIL has set errno, KILL does not return.
static enum action arrive(const char* name) {
  const char* path = getenv("CALL_FAULTS");
  if (path == NULL) return NOTHING;
  const int error = errno;
  enum action action = NOTHING;
  pthread_mutex_lock(&lock);
  read_file(path);
  if (wanted_action != NOTHING && strcmp(name, wanted) == 0 && --calls_left == 0) {
    action = wanted_action;
    wanted_action = NOTHING;
    say_done(path);
  }
  pthread_mutex_unlock(&lock);
  if (action == KILL) raise(SIGKILL);
  errno = action == FAIL ? wanted_error : error;
  return action;
}

static ssize_t end(enum action action, ssize_t result) {
  if (action == KILL_AFTER) raise(SIGKILL);
  return result;
}

static int carries_packets(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

static int is_below(const char* path) {
  const char* folder = getenv("CALL_FAULTS_FOLDER");
  const size_t length = folder == NULL ? 0 : strlen(folder);
  return length != 0 && strncmp(path, folder, length) == 0 && path[length] == '/';
}

static int in_folder(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_below(path);
}

static void close_descriptors(struct msghdr* m) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      close(fd);
    }
  }
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define EXPORT __attribute__((visibility("default")))

EXPORT ssize_t sendmsg(int fd, const struct msghdr* m, int flags) {
  const enum action action = carries_packets(fd) ? arrive("send") : NOTHING;
  if (action == FAIL) return -1;
  return end(action, NEXT(sendmsg)(fd, m, flags));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr* m, int flags) {
  const ssize_t size = NEXT(recvmsg)(fd, m, flags);
  if (size <= 0 || !carries_packets(fd)) return size;
  if (arrive("receive") != FAIL) return size;
  close_descriptors(m);
  return -1;
}

EXPORT ssize_t write(int fd, const void* from, size_t size) {
  const enum action action = in_folder(fd) ? arrive("write") : NOTHING;
  if (action == FAIL) return -1;
  return end(action, NEXT(write)(fd, from, size));
}

EXPORT ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  const enum action action = in_folder(fd) ? arrive("write") : NOTHING;
  if (action == FAIL) return -1;
  return end(action, NEXT(pwrite)(fd, from, size, at));
}

EXPORT ssize_t writev(int fd, const struct iovec* from, int count) {
  const enum action action = in_folder(fd) ? arrive("write") : NOTHING;
  if (action == FAIL) return -1;
  return end(action, NEXT(writev)(fd, from, count));
}

EXPORT int fsync(int fd) {
  const enum action action = in_folder(fd) ? arrive("sync") : NOTHING;
  if (action == FAIL) return -1;
  return (int)end(action, NEXT(fsync)(fd));
}

EXPORT int fdatasync(int fd) {
  const enum action action = in_folder(fd) ? arrive("sync") : NOTHING;
  if (action == FAIL) return -1;
  return (int)end(action, NEXT(fdatasync)(fd));
}

EXPORT int rename(const char* from, const char* to) {
  const enum action action = is_below(to) ? arrive("rename") : NOTHING;
  if (action == FAIL) return -1;
  return (int)end(action, NEXT(rename)(from, to));
}
