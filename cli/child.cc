// Starts it with pipes, and reads both until they end.
#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/exit_codes.h"
#include "common/fd.h"

extern char** environ;

namespace parkade::cli {
namespace {

struct Pipe {
  Fd read, write;
};

// Close-on-exec, or a child that another thread starts meanwhile would hold it open.
bool Open(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe.read = Fd(ends[0]);
  pipe.write = Fd(ends[1]);
  return true;
}

void ReadBoth(const Fd& out, const Fd& err, Child& child) {
  pollfd ends[] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
  std::string* texts[] = {&child.out, &child.err};
  for (int open = 2; open != 0;) {
    if (poll(ends, 2, -1) < 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[16384];
      const ssize_t got = read(ends[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, size_t(got));
      } else if (got == 0 || errno != EINTR) {
        ends[i].fd = -1;
        --open;
      }
    }
  }
}

}  // namespace

Child RunChild(const std::string& program, const std::vector<std::string>& arguments) {
  Child child;
  child.exit_code = kExitNoCommand;
  Pipe out, err;
  if (!Open(out) || !Open(err)) {
    child.err = strerror(errno);
    return child;
  }
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    child.err = strerror(failed);
    return child;
  }
  out.write.Reset();
  err.write.Reset();
  ReadBoth(out.read, err.read, child);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  child.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return child;
}

}  // namespace parkade::cli
