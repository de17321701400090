// Setting: one line "name=value (source)" of a process's effective settings, in its three parts.
#pragma once

#include <string>

namespace parkade::cli {

struct Setting {
  std::string name;
  std::string value;
  std::string source;
};

// A line of another form becomes a value without name and source: it is shown rather than lost.
Setting ReadSetting(const std::string& line);

}  // namespace parkade::cli
