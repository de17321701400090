// Checks the driver: the kernel's module, its devices, libcuda and what its GPUs can do.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

// CUDA 12.2 is that of driver 535.
constexpr int kOldestCuda = 12020;
constexpr char kInstall[] = "sudo apt install nvidia-driver libcuda1";

// The first line of the module's own file, without its heading.
std::string ModuleVersion(const KernelFiles& files) {
  const std::string text = ReadSmallFile(files.proc + "/driver/nvidia/version");
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const size_t colon = lines[0].find(": ");
  const std::string version = colon == std::string::npos ? lines[0] : lines[0].substr(colon + 2);
  return Printable(std::string(absl::StripAsciiWhitespace(version)));
}

std::string CudaText(int version) {
  return absl::StrFormat("CUDA %d.%d", version / 1000, version % 1000 / 10);
}

Finding HasAttribute(const DriverFacts& facts, int count, const char* what, const char* missing) {
  if (count == facts.gpus) {
    return {Level::kOk, "driver", absl::StrCat(what, " on all of its ", facts.gpus, " GPUs"), ""};
  }
  return {Level::kWarning, "driver",
          absl::StrCat(what, " on ", count, " of ", facts.gpus, " GPUs: ", missing), ""};
}

}  // namespace

Findings CheckDriver(const KernelFiles& files, const DriverFacts& facts) {
  Findings found;
  const std::string module = ModuleVersion(files);
  if (module.empty()) {
    found.push_back({Level::kWarning, "driver",
                     "the kernel has no NVIDIA module: no GPU here, or it is not loaded",
                     "sudo modprobe nvidia"});
  } else {
    found.push_back({Level::kOk, "driver", absl::StrCat("the kernel has ", module), ""});
  }
  if (facts.answered == 0) {
    found.push_back({Level::kError, "driver",
                     "libcuda did not answer in time: the driver hangs, or the GPU has failed",
                     "sudo dmesg | grep -i -E 'NVRM|Xid'"});
    return found;
  }
  if (facts.loaded == 0) {
    found.push_back(
        {Level::kWarning, "driver",
         "there is no libcuda.so.1: programs here find no GPU, and there is nothing to pause",
         kInstall});
    return found;
  }
  if (facts.init != 0) {
    found.push_back({Level::kWarning, "driver",
                     absl::StrCat("libcuda is there and finds no GPU (cuInit: ", facts.init, ")"),
                     "nvidia-smi"});
    return found;
  }
  if (facts.version < kOldestCuda) {
    found.push_back({Level::kWarning, "driver",
                     absl::StrCat("libcuda is of ", CudaText(facts.version),
                                  ": Parkade is for those since 12.2 (driver 535)"),
                     kInstall});
  } else {
    found.push_back(
        {Level::kOk, "driver", absl::StrCat("libcuda is of ", CudaText(facts.version)), ""});
  }
  found.push_back(HasAttribute(facts, facts.virtual_memory, "virtual memory management",
                               "memory of the others cannot be paused"));
  found.push_back(HasAttribute(facts, facts.exportable, "sharing by file descriptor",
                               "memory that others map by CUDA IPC cannot be paused there"));
  return found;
}

}  // namespace parkade::cli
