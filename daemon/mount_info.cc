// Takes mountinfo apart, line by line.
#include "daemon/mount_info.h"

#include <algorithm>
#include <iterator>

#include "daemon/proc_file.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

constexpr size_t kMountInfoBytes = 8 << 20;  // a node of many containers has thousands of lines

}  // namespace

std::vector<MountInfo> ParseMounts(std::string_view text) {
  std::vector<MountInfo> mounts;
  for (const std::string_view line : Split(text, "\n")) {
    const auto words = Split(line, " ");
    if (words.size() < 5) continue;
    const auto id = ReadNumber<uint64_t>(words[0]);
    // Optional fields end with "-"; type, source and the file system's options follow it.
    const auto dash = std::find(words.begin() + 5, words.end(), "-");
    if (!id || std::distance(dash, words.end()) < 4) continue;
    mounts.push_back(
        {*id, Unescape(words[3]), Unescape(words[4]), std::string(dash[1]), Unescape(dash[3])});
  }
  return mounts;
}

std::vector<MountInfo> ReadMounts(const std::string& proc) {
  return ParseMounts(ReadProcFile(Cat(proc, "/self/mountinfo"), kMountInfoBytes));
}

std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const std::string_view octal = text.substr(i + 1, 3);
    if (octal.size() == 3 && octal.find_first_not_of("01234567") == octal.npos) {
      plain += char((octal[0] - '0') * 64 + (octal[1] - '0') * 8 + (octal[2] - '0'));
      i += 3;
    } else {
      plain += text[++i];
    }
  }
  return plain;
}

}  // namespace parkade::daemon
