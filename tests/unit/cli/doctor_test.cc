// `parkade doctor`: each check over made-up trees of /proc and /sys, and the verb with and without
// a daemon.
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/doctor_checks.h"
#include "common/fd.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

constexpr uint64_t kGiB = uint64_t(1) << 30;

// Folders in the place of the kernel's.
struct Kernel {
  void Write(const std::string& name, const std::string& text) const {
    const std::string path = directory / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  // A process with the library, with the driver, both or none in its mappings.
  void Start(int pid, int parent, const std::string& command, const std::string& environment,
             const std::string& libraries) const {
    const std::string folder = "proc/" + std::to_string(pid);
    Write(folder + "/stat",
          std::to_string(pid) + " (a ) b) S " + std::to_string(parent) + " 1 1 0");
    Write(folder + "/cmdline", command);
    Write(folder + "/environ", environment);
    std::string maps = "7f00-7f01 r-xp 0 fd:00 1 /usr/lib/libc.so.6\n";
    if (libraries.find('P') != std::string::npos)
      maps += "7f01-7f02 r-xp 0 fd:00 2 /opt/libparkade.so\n";
    if (libraries.find('C') != std::string::npos)
      maps += "7f02-7f03 r-xp 0 fd:00 3 /usr/lib/libcuda.so.550\n";
    Write(folder + "/maps", maps);
  }
  KernelFiles files() const { return {directory / "proc", directory / "sys", directory / "dev"}; }
  TestDirectory directory;
};

// The finding whose sentence has `part`; fails without one.
Finding The(const Findings& findings, const std::string& part) {
  for (const Finding& finding : findings) {
    if (finding.text.find(part) != std::string::npos) return finding;
  }
  std::string all;
  for (const Finding& finding : findings) all += finding.text + "\n";
  FAIL("nothing is said of \"" << part << "\" in:\n" << all);
  return {};
}

bool Says(const Findings& findings, const std::string& part) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.text.find(part) != std::string::npos;
  });
}

DriverFacts GoodDriver() {
  DriverFacts facts;
  facts.answered = facts.loaded = 1;
  facts.version = 12040;
  facts.gpus = facts.virtual_memory = facts.exportable = facts.rdma = 2;
  return facts;
}

std::string Zeros(std::string text) {
  std::replace(text.begin(), text.end(), '|', '\0');
  return text;
}

}  // namespace

TEST_CASE("a driver that has all is fine, one that lacks a part is told with it") {
  const Kernel kernel;
  kernel.Write("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.1\n");
  const Findings good = CheckDriver(kernel.files(), GoodDriver());
  for (const Finding& finding : good) CHECK(finding.level == Level::kOk);
  CHECK(Says(good, "Kernel Module  550.1"));
  CHECK(Says(good, "CUDA 12.4"));

  DriverFacts facts = GoodDriver();
  facts.virtual_memory = 1;
  CHECK(The(CheckDriver(kernel.files(), facts), "on 1 of 2 GPUs").level == Level::kWarning);
  facts = GoodDriver();
  facts.version = 11080;
  CHECK(The(CheckDriver(kernel.files(), facts), "CUDA 11.8").fix != "");
  facts.init = 100;
  CHECK(The(CheckDriver(kernel.files(), facts), "cuInit: 100").level == Level::kWarning);
  CHECK(The(CheckDriver(kernel.files(), DriverFacts()), "did not answer").level == Level::kError);
}

TEST_CASE("no driver is a finding, not a failure") {
  const Kernel kernel;
  DriverFacts facts;
  facts.answered = 1;
  const Findings found = CheckDriver(kernel.files(), facts);
  CHECK(The(found, "no NVIDIA module").level == Level::kWarning);
  CHECK(The(found, "no libcuda.so.1").level == Level::kWarning);
}

TEST_CASE("huge pages that are off or reserved are told with the line that changes it") {
  const Kernel kernel;
  CHECK(The(CheckHugePages(kernel.files()), "does not say").level == Level::kNote);
  const std::string folder = "sys/kernel/mm/";
  kernel.Write(folder + "transparent_hugepage/enabled", "always madvise [never]\n");
  const Finding off = The(CheckHugePages(kernel.files()), "are off");
  CHECK(off.level == Level::kWarning);
  CHECK(off.fix.find("echo madvise | sudo tee") == 0);
  kernel.Write(folder + "transparent_hugepage/enabled", "always [madvise] never\n");
  CHECK(The(CheckHugePages(kernel.files()), "(madvise)").level == Level::kOk);
  CHECK(Says(CheckHugePages(kernel.files()), "no huge pages are reserved"));
  kernel.Write(folder + "hugepages/hugepages-2048kB/nr_hugepages", "512\n");
  kernel.Write(folder + "hugepages/hugepages-1048576kB/nr_hugepages", "3\n");
  kernel.Write(folder + "hugepages/strange/nr_hugepages", "9\n");
  CHECK(Says(CheckHugePages(kernel.files()), "4.00 GiB of huge pages are reserved"));
}

TEST_CASE("a limit on locked memory is told in bytes") {
  const Kernel kernel;
  CHECK(The(CheckMemlock(kernel.files()), "cannot be read").level == Level::kNote);
  const std::string head = "Limit  Soft Limit  Hard Limit  Units\n";
  kernel.Write("proc/self/limits", head + "Max locked memory  8388608  8388608  bytes\n");
  CHECK(The(CheckMemlock(kernel.files()), "may lock 8 MiB").fix == "ulimit -l unlimited");
  kernel.Write("proc/self/limits", head + "Max locked memory  unlimited  unlimited  bytes\n");
  CHECK(CheckMemlock(kernel.files())[0].level == Level::kOk);
}

TEST_CASE("file systems are named, those that are no disk with what that means") {
  CHECK(JudgeFileSystem("/s", EXT4_SUPER_MAGIC).level == Level::kOk);
  CHECK(JudgeFileSystem("/s", TMPFS_MAGIC).level == Level::kWarning);
  CHECK(JudgeFileSystem("/s", TMPFS_MAGIC).text.find("tmpfs") != std::string::npos);
  for (const auto& [type, name] : {std::pair<unsigned long, const char*>{NFS_SUPER_MAGIC, "NFS"},
                                   {BTRFS_SUPER_MAGIC, "btrfs"},
                                   {FUSE_SUPER_MAGIC, "FUSE"},
                                   {0x1234, "0x1234"}}) {
    const Finding finding = JudgeFileSystem("/s", type);
    CHECK(finding.level == Level::kNote);
    CHECK(finding.text.find(name) != std::string::npos);
  }
}

TEST_CASE("a scratch directory is tried, and nothing is left in it") {
  const TestDirectory directory;
  const Findings found = CheckScratch(directory.path(), nullptr);
  CHECK(found.size() == 2);
  CHECK(std::filesystem::is_empty(directory.path()));
  CHECK(The(CheckScratch(directory / "none", nullptr), "there is no").level == Level::kError);
  v1::ScratchBase base;
  base.set_path(directory.path());
  base.set_usable(true);
  CHECK(The(CheckScratch(directory.path(), &base), "no measured speed").level == Level::kNote);
  base.set_write_gbps(5.5);
  base.set_read_gbps(6.5);
  base.set_free_bytes(kGiB);
  CHECK(
      Says(CheckScratch(directory.path(), &base), "writes 5.5 and reads 6.5 GB/s, with 1.00 GiB"));
  base.set_usable(false);
  base.set_reason("not writable\033");
  const Findings refused = CheckScratch(directory.path(), &base);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].level == Level::kError);
  CHECK(refused[0].text.find("not writable?") != std::string::npos);
}

TEST_CASE("sockets that are missing, no sockets or closed to others are told apart") {
  const TestDirectory directory;
  CHECK(The(CheckSockets(directory / "none"), "no runtime directory").level == Level::kError);
  std::ofstream(directory / "control.sock") << "a file";
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory / "shim.sock";
  REQUIRE(path.size() < sizeof address.sun_path);
  strcpy(address.sun_path, path.c_str());
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  chmod(path.c_str(), 0600);
  const Findings found = CheckSockets(directory.path());
  CHECK(The(found, "control.sock is not a socket").level == Level::kError);
  CHECK(The(found, "shim.sock is not open").fix == "chmod 0666 " + path);
  chmod(path.c_str(), 0666);
  CHECK(The(CheckSockets(directory.path()), "shim.sock is a socket").level == Level::kOk);
}

TEST_CASE("versions that differ are named") {
  NodeAnswers answers;
  answers.node.set_daemon_version("1.0");
  answers.node.set_gpu_source("nvml");
  CHECK(CheckDaemon(answers, "1.0").size() == 1);
  CHECK(The(CheckDaemon(answers, "2.0"), "the daemon is 1.0").level == Level::kWarning);
  answers.processes.emplace_back().set_pid(7);
  answers.processes[0].set_shim_version("0.9");
  CHECK(The(CheckDaemon(answers, "1.0"), "the library in 7 is 0.9").level == Level::kNote);
  answers.node.set_gpu_source("no NVML");
  CHECK(Says(CheckDaemon(answers, "1.0"), "no figures of GPUs: no NVML"));
  answers.status = absl::UnavailableError("nobody listens");
  CHECK(The(CheckDaemon(answers, "1.0"), "nobody listens").level == Level::kError);
}

TEST_CASE("what is in GPU memory is held against host memory, budget and disks") {
  NodeAnswers answers;
  CHECK(Says(CheckNeed(answers), "nothing is in GPU memory"));
  answers.processes.emplace_back().add_devices()->set_resident_bytes(10 * kGiB);
  answers.node.set_host_available_bytes(20 * kGiB);
  CHECK(CheckNeed(answers)[0].level == Level::kOk);
  answers.node.add_budgets()->set_host_bytes(4 * kGiB);
  CHECK(CheckNeed(answers)[0].level == Level::kWarning);
  auto* base = answers.node.add_scratch_bases();
  base->set_free_bytes(100 * kGiB);
  CHECK(CheckNeed(answers)[0].level == Level::kWarning);  // it cannot be used
  base->set_usable(true);
  CHECK(CheckNeed(answers)[0].fix == "parkade pause --all --policy auto");
  answers.status = absl::UnavailableError("gone");
  CHECK(CheckNeed(answers).empty());
}

TEST_CASE("why a process lacks the library follows from how it was started") {
  const Kernel kernel;
  const std::string preload = Zeros("A=1|LD_PRELOAD=/opt/libparkade.so|");
  kernel.Start(10, 1, Zeros("torchrun|train.py|"), preload, "P");
  kernel.Start(11, 10, Zeros("python|train.py|"), Zeros("A=1|"), "C");
  kernel.Start(12, 1, "ray::Trainer.step", Zeros("A=1|"), "C");
  kernel.Start(13, 1, Zeros("python|alone.py|"), Zeros("A=1|"), "C");
  kernel.Start(14, 1, "contained", preload, "C");
  std::filesystem::create_directories(kernel.directory / "proc/14/root");
  kernel.Start(15, 1, "static", preload, "C");
  kernel.Write(
      "proc/15/root"
      "/opt/libparkade.so",
      "");
  kernel.Start(16, 1, "left", Zeros("PARKADE=off|"), "C");
  kernel.Start(17, 1, "shell", Zeros("A=1|"), "");
  const Findings found = CheckTree(kernel.files(), std::nullopt);
  CHECK(Says(found, "1 processes have libparkade.so"));
  const Finding clean = The(found, "process 11 ");
  CHECK(clean.text.find("process 10 above it has LD_PRELOAD") != std::string::npos);
  CHECK(clean.fix == "env LD_PRELOAD=/opt/libparkade.so python train.py");
  CHECK(clean.level == Level::kWarning);
  CHECK(The(found, "process 12 ").fix.find("parkade.ray.runtime_env") != std::string::npos);
  CHECK(The(found, "process 13 ").fix == "parkade run -- python alone.py");
  CHECK(The(found, "process 14 ").text.find("not in its container") != std::string::npos);
  CHECK(The(found, "process 15 ").text.find("loader left it out") != std::string::npos);
  CHECK_FALSE(Says(found, "process 16 "));
  CHECK_FALSE(Says(found, "process 17 "));

  const Findings beneath = CheckTree(kernel.files(), 10);
  CHECK(Says(beneath, "1 processes beneath 10 have"));
  CHECK(Says(beneath, "process 11 "));
  CHECK_FALSE(Says(beneath, "process 12 "));
  CHECK(The(CheckTree(kernel.files(), 17), "process 17 ").level == Level::kNote);
  CHECK(The(CheckTree(kernel.files(), 99), "no process 99").level == Level::kError);
}

TEST_CASE("a circle of parents and a process that cannot be read are survived") {
  const Kernel kernel;
  kernel.Start(20, 21, "one", "", "C");
  kernel.Start(21, 20, "two", "", "");
  kernel.Start(22, 20, "hidden\033", "", "");
  std::filesystem::remove(kernel.directory / "proc/22/maps");
  kernel.Write("proc/23/stat", "nonsense");
  const Findings found = CheckTree(kernel.files(), 20);
  CHECK(Says(found, "process 20 "));
  CHECK(The(found, "process 22 (hidden?)").fix == "sudo parkade doctor --pid 22");
  CHECK(ReadProcessTree(kernel.files().proc).size() == 3);
  CHECK_FALSE(IsBeneath(ReadProcessTree(kernel.files().proc), 20, 99));
}

TEST_CASE("variables in the way of pauses are said once for all processes that have them") {
  const Kernel kernel;
  kernel.Write("proc/self/environ", Zeros("PARKADE=off|"));
  CHECK(The(CheckEnvironment(kernel.files(), std::nullopt), "in this shell").fix ==
        "unset PARKADE");
  const std::string rank = Zeros("WORLD_SIZE=8|NCCL_NVLS_ENABLE=0|NCCL_GRAPH_REGISTER=0|");
  kernel.Start(30, 1, "rank0", rank, "PC");
  kernel.Start(31, 1, "rank1", rank, "PC");
  kernel.Start(32, 1, "pool", Zeros("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync|"), "PC");
  kernel.Start(33, 1, "other", Zeros("PARKADE=off|"), "C");
  const Findings found = CheckEnvironment(kernel.files(), std::nullopt);
  CHECK(found.size() == 2);
  const Finding nccl = The(found, "NCCL may register");
  CHECK(nccl.text.find("(in 30, 31)") != std::string::npos);
  CHECK(nccl.fix == "export NCCL_GRAPH_REGISTER=0 NCCL_LOCAL_REGISTER=0");
  CHECK(The(found, "CUDA's own pools").text.find("(in 32)") != std::string::npos);
  kernel.Start(40, 1, "fine", Zeros("A=1|"), "P");
  CHECK(The(CheckEnvironment(kernel.files(), 40), "no variable of the 1").level == Level::kOk);
}

TEST_CASE("the driver is asked in a child that cannot hold the command up") {
  const DriverFacts facts = AskDriver(absl::Seconds(20));
  CHECK(facts.answered == 1);
  CHECK(facts.virtual_memory <= facts.gpus);
  CHECK(AskDriver(absl::ZeroDuration()).answered == 0);
}

TEST_CASE("doctor without a daemon says all else, and fails with one sentence") {
  const TestDirectory empty;
  const Outcome o = RunCli({"doctor", "--runtime-dir=" + empty.path(), "-o", "json"});
  CHECK(o.exit_code == kExitFailed);
  CHECK(o.err.find("(NOT_READY)") != std::string::npos);
  const auto json = nlohmann::json::parse(o.out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["errors"].get<int>() >= 3);
  std::map<std::string, int> about;
  for (const auto& finding : json["findings"]) {
    ++about[finding["about"].get<std::string>()];
    CHECK(finding.contains("fix"));
    CHECK((finding["level"] == "ok" || finding["level"] == "note" ||
           finding["level"] == "warning" || finding["level"] == "error"));
  }
  for (const char* word :
       {"driver", "host", "disk", "daemon", "library", "processes", "environment"}) {
    INFO(word);
    CHECK(about[word] >= 1);
  }
}

TEST_CASE("doctor with a daemon shows what it knows and the line that mends each finding") {
  FakeControl daemon;
  daemon.node_answer.set_daemon_version("0.0.1");
  daemon.node_answer.set_gpu_source("no NVML: none");
  auto* base = daemon.node_answer.add_scratch_bases();
  base->set_path("/nowhere/scratch");
  base->set_reason("it does not exist");
  const Outcome o = RunCli({"doctor", daemon.flag()});
  CHECK(o.out.find("the daemon answers, version 0.0.1") != std::string::npos);
  CHECK(o.out.find("this command line " PARKADE_VERSION) != std::string::npos);
  CHECK(o.out.find("cannot use /nowhere/scratch: it does not exist") != std::string::npos);
  CHECK(o.out.find("-> sudo mkdir -p -m 1777 /nowhere/scratch") != std::string::npos);
  CHECK(o.exit_code == kExitFailed);
}

TEST_CASE("doctor refuses what it has no use for") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"doctor", "--scratch-dir", "relative"},
        std::vector<std::string>{"doctor", "--pid", "0"},
        std::vector<std::string>{"doctor", "--address", "host:1"},
        std::vector<std::string>{"doctor", "stray"}}) {
    CHECK(RunCli(words).exit_code == kExitUsage);
  }
}

}  // namespace parkade::cli
