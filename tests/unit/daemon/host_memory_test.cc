// Host memory: meminfo and control groups, from files laid out as the kernel does.
#include "daemon/host_memory.h"

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

TEST_CASE("a v2 group's limit holds, its droppable page cache does not count") {
  const testing::TestDir dir;
  Write(dir / "proc/7/cgroup", "0::/pod/a:b\n");
  const std::string group = dir / "cgroup/pod/a:b";
  Write(group + "/memory.max", "2147483648\n");
  Write(group + "/memory.current", "1879048192\n");
  Write(group + "/memory.stat", "anon 1\ninactive_file 1073741824\nactive_file 536870912\n");
  Write(dir / "cgroup/pod/memory.max", "max\n");
  Write(dir / "cgroup/pod/memory.current", "1\n");
  CHECK(CgroupHeadroom(7, dir / "proc", dir / "cgroup") == 2_GiB - 256_MiB);
}

TEST_CASE("the tightest group on the way up decides") {
  const testing::TestDir dir;
  Write(dir / "proc/7/cgroup", "0::/pod/inner\n");
  Write(dir / "cgroup/pod/inner/memory.max", "8589934592\n");
  Write(dir / "cgroup/pod/inner/memory.current", "0\n");
  Write(dir / "cgroup/pod/memory.max", "1048576\n");
  Write(dir / "cgroup/pod/memory.current", "2097152\n");
  CHECK(CgroupHeadroom(7, dir / "proc", dir / "cgroup") == Bytes(0));
}

TEST_CASE("v1's memory controller is read, its no-limit is none") {
  const testing::TestDir dir;
  Write(dir / "proc/7/cgroup", "4:cpu,cpuacct:/x\n3:memory:/job\n");
  const std::string group = dir / "cgroup/memory/job";
  Write(group + "/memory.limit_in_bytes", "9223372036854771712\n");
  Write(group + "/memory.usage_in_bytes", "5\n");
  CHECK_FALSE(CgroupHeadroom(7, dir / "proc", dir / "cgroup").has_value());
  Write(group + "/memory.limit_in_bytes", "1048576\n");
  CHECK(CgroupHeadroom(7, dir / "proc", dir / "cgroup") == 1_MiB - 5);
}
