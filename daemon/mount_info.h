// What is mounted where, as the kernel tells it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parkade::daemon {

// One mount of this process's mount namespace; spaces are spaces in it, not "\040".
struct MountInfo {
  uint64_t id = 0;
  std::string root;   // what of the file system it shows
  std::string point;  // and where
  std::string type;
  std::string options;  // the file system's own
};

// In the order of the text of a mountinfo file; lines that are none are left out.
std::vector<MountInfo> ParseMounts(std::string_view text);
// Of `proc`/self. Of a node with many containers these are thousands: read once for many uses.
std::vector<MountInfo> ReadMounts(const std::string& proc = "/proc");

// Undoes what the kernel does to spaces ("\040"), and overlay to its own commas and colons ("\,").
std::string Unescape(std::string_view text);

}  // namespace parkade::daemon
