// Checks what host memory offers backups: huge pages, and how much of it may be locked.
#include <filesystem>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

namespace fs = std::filesystem;

// "always [madvise] never": the word in brackets.
std::string Chosen(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return text.substr(open + 1, close - open - 1);
}

uint64_t ReadCount(const std::string& path) {
  uint64_t count = 0;
  const std::string text = ReadSmallFile(path);
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &count) ? count : 0;
}

// Pages of "hugepages-2048kB" and the like that are kept aside, in bytes.
uint64_t ReservedBytes(const KernelFiles& files) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& size : fs::directory_iterator(files.sys + "/kernel/mm/hugepages", error)) {
    std::string name = size.path().filename().string();
    uint64_t kib = 0;
    if (!absl::StartsWith(name, "hugepages-") || !absl::EndsWith(name, "kB")) continue;
    name = name.substr(10, name.size() - 12);
    if (!absl::SimpleAtoi(name, &kib)) continue;
    bytes += ReadCount(size.path().string() + "/nr_hugepages") * kib * 1024;
  }
  return bytes;
}

// The soft limit of this process, which the programs that it starts inherit.
std::string LockLimit(const std::string& limits) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(limits, '\n'))) {
    constexpr char kName[] = "Max locked memory";
    if (!absl::StartsWith(line, kName)) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(sizeof kName - 1), ' ', absl::SkipEmpty());
    return words.empty() ? "" : words[0];
  }
  return "";
}

}  // namespace

Findings CheckHugePages(const KernelFiles& files) {
  Findings found;
  const std::string folder = files.sys + "/kernel/mm/transparent_hugepage";
  const std::string chosen = Chosen(ReadSmallFile(folder + "/enabled"));
  if (chosen.empty()) {
    found.push_back({Level::kNote, "host",
                     "the kernel does not say whether it has transparent huge pages", ""});
  } else if (chosen == "never") {
    found.push_back({Level::kWarning, "host",
                     "transparent huge pages are off: the first pause of a process makes and pins "
                     "its memory several times slower",
                     absl::StrCat("echo madvise | sudo tee ", folder, "/enabled")});
  } else {
    found.push_back({Level::kOk, "host",
                     absl::StrCat("transparent huge pages are on (", Printable(chosen), ")"), ""});
  }
  const uint64_t reserved = ReservedBytes(files);
  if (reserved == 0) {
    found.push_back({Level::kOk, "host",
                     "no huge pages are reserved: backups need none, they use transparent ones",
                     ""});
  } else {
    found.push_back(
        {Level::kNote, "host",
         absl::StrCat(FormatBytes(reserved),
                      " of huge pages are reserved: backups do not use them, and have so "
                      "much less host memory"),
         "sudo sysctl vm.nr_hugepages=0"});
  }
  return found;
}

Findings CheckMemlock(const KernelFiles& files) {
  const std::string limit = LockLimit(ReadSmallFile(files.proc + "/self/limits"));
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  if (limit == "unlimited") {
    return {{Level::kOk, "host", "programs may lock as much memory as they like", ""}};
  }
  if (!absl::SimpleAtoi(limit, &bytes)) {
    return {{Level::kNote, "host", "the limit on locked memory cannot be read", ""}};
  }
  return {{Level::kWarning, "host",
           absl::StrCat("programs that are started from here may lock ", FormatBytes(bytes),
                        ": where the driver keeps to that, pauses move without pinned memory and "
                        "are slower"),
           "ulimit -l unlimited"}};
}

}  // namespace parkade::cli
