// Host memory: meminfo and control groups, from files laid out as the kernel does.
#include "daemon/host_memory.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/unit/daemon/test_dir.h"

using namespace parkade;
using namespace parkade::daemon;

namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("this machine has memory") {
  const HostMemory memory = ReadHostMemory();
  CHECK(memory.total > 0);
  CHECK(memory.available > 0);
  CHECK(memory.available <= memory.total);
}

namespace {

// /proc with one process, and the places where its hierarchies are mounted.
struct Tree {
  explicit Tree(const std::string& groups) { Write(dir / "proc/7/cgroup", groups); }
  void Mount(const std::string& root, const std::string& point, const std::string& type) {
    mounts += "30 24 0:26 " + root + " " + dir / point + " rw shared:9 - " + type + "\n";
    Write(dir / "proc/self/mountinfo", mounts);
  }
  std::vector<MemoryGroup> Groups() const {
    return MemoryGroupsOf(7, ReadMounts(dir / "proc"), dir / "proc");
  }
  // The least of what they have free.
  std::optional<Bytes> Least() const {
    std::optional<Bytes> least;
    for (const auto& group : Groups()) {
      least = least ? std::min(*least, group.free) : group.free;
    }
    return least;
  }
  testing::TestDir dir;
  std::string mounts;
};

constexpr char kV2[] = "cgroup2 cgroup2 rw,nsdelegate";
constexpr char kV1[] = "cgroup cgroup rw,memory";

}  // namespace

TEST_CASE("a v2 group's limit holds, its droppable page cache does not count") {
  Tree tree("0::/pod/a:b\n");
  tree.Mount("/", "cgroup", kV2);
  const std::string group = tree.dir / "cgroup/pod/a:b";
  Write(group + "/memory.max", "2147483648\n");
  Write(group + "/memory.current", "1879048192\n");
  Write(group + "/memory.stat", "anon 1\ninactive_file 1073741824\nactive_file 536870912\n");
  Write(tree.dir / "cgroup/pod/memory.max", "max\n");
  Write(tree.dir / "cgroup/pod/memory.current", "1\n");
  REQUIRE(tree.Groups().size() == 1);
  CHECK(tree.Groups()[0].path == group);
  CHECK(tree.Least() == 2_GiB - 256_MiB);
  Write(group + "/memory.high", "1073741824\n");
  CHECK(tree.Least() == 1_GiB - 256_MiB);
}

TEST_CASE("every group on the way up with a limit counts, full ones have nothing left") {
  Tree tree("0::/pod/inner\n");
  tree.Mount("/", "cgroup", kV2);
  Write(tree.dir / "cgroup/pod/inner/memory.max", "8589934592\n");
  Write(tree.dir / "cgroup/pod/inner/memory.current", "0\n");
  Write(tree.dir / "cgroup/pod/memory.max", "1048576\n");
  Write(tree.dir / "cgroup/pod/memory.current", "2097152\n");
  CHECK(tree.Groups().size() == 2);
  CHECK(tree.Least() == Bytes(0));
}

TEST_CASE("v1's memory controller is read where it is mounted, its no-limit is none") {
  Tree tree("4:cpu,cpuacct:/x\n3:memory:/job\n0::/\n");
  tree.Mount("/", "cgroup/unified", kV2);
  tree.Mount("/", "cgroup/memory", kV1);
  const std::string group = tree.dir / "cgroup/memory/job";
  Write(group + "/memory.limit_in_bytes", "9223372036854771712\n");
  Write(group + "/memory.usage_in_bytes", "5\n");
  CHECK_FALSE(tree.Least().has_value());
  Write(group + "/memory.limit_in_bytes", "1048576\n");
  CHECK(tree.Least() == 1_MiB - 5);
}

TEST_CASE("a hierarchy of which a container shows a part is read from there") {
  Tree tree("0::/docker/abc/job\n");
  tree.Mount("/docker/xyz", "other", kV2);
  tree.Mount("/docker/ab", "cut", kV2);
  tree.Mount("/docker/abc", "cgroup", kV2);
  Write(tree.dir / "cgroup/memory.max", "4096\n");
  Write(tree.dir / "cgroup/memory.current", "96\n");
  CHECK(tree.Least() == Bytes(4000));
}

TEST_CASE("of groups that cannot be seen from here nothing is known") {
  Tree outside("0::/../sibling\n");
  outside.Mount("/", "cgroup", kV2);
  Write(outside.dir / "sibling/memory.max", "1\n");
  Write(outside.dir / "sibling/memory.current", "1\n");
  CHECK(outside.Groups().empty());
  CHECK(Tree("0::/job\n").Groups().empty());
  Tree broken("no line\n0:\n:::\n");
  broken.Mount("/", "cgroup", kV2);
  broken.Mount("", "", "");
  CHECK(broken.Groups().empty());
}

TEST_CASE("this process's own groups are found as the kernel lays them out") {
  // Whatever they are: what is found has a path that is there.
  for (const MemoryGroup& group : MemoryGroupsOf(getpid(), ReadMounts())) {
    INFO(group.path);
    CHECK(std::filesystem::is_directory(group.path));
  }
}

TEST_CASE("what a process may lock is its limit, unless it may lock anything") {
  const auto lockable = [](auto prepare) {
    const pid_t child = fork();
    if (child == 0) {
      prepare();
      raise(SIGSTOP);
      _exit(0);
    }
    waitpid(child, nullptr, WUNTRACED);
    const auto bytes = LockableBytes(child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return bytes;
  };
  const rlimit low{65536, 65536};
  const auto limited = lockable([&] { setrlimit(RLIMIT_MEMLOCK, &low); });
  const auto plain_user = lockable([&] {
    setrlimit(RLIMIT_MEMLOCK, &low);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
  });
  CHECK(plain_user == Bytes(65536));
  // Root has CAP_IPC_LOCK, unless a container took it.
  if (limited) CHECK(limited == Bytes(65536));
  CHECK_FALSE(LockableBytes(1 << 30).has_value());
}
