// Settings: the texts of the configuration by name, each from a flag, the environment, the TOML
// file or nowhere, and the mistakes in them. What the texts mean is config's.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/environment.h"
#include "daemon/toml.h"

namespace parkade::daemon {

// What is wrong with a configuration, all of it.
class Mistakes {
 public:
  // `place` is where it stands: "FILE:LINE", a variable's name, "flag"; empty: nowhere in
  // particular.
  void Add(std::string_view place, std::string_view name, std::string_view what);
  bool empty() const { return lines_.empty(); }
  // OK, or INVALID_ARGUMENT (BAD_CONFIG) with a line for each mistake, in the order of their
  // addition.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> lines_;
};

struct Setting {
  const char* name;               // in the file, with its table
  const char* variable;           // nullptr: none
  std::vector<std::string> flag;  // empty: not given
  bool is_list = false;
  std::vector<std::string> value = {};  // empty: it stands nowhere
  std::string place = "default";        // "flag", the variable's name or "FILE:LINE"

  // A list's parts have colons between them.
  std::string text() const;
};

// "FILE:LINE" of something in the file.
std::string PlaceOf(const toml::node& node, std::string_view file_name);

class SettingSources {
 public:
  // All outlive it.
  SettingSources(const toml::table& file, std::string_view file_name, Environment environment,
                 Mistakes& mistakes);

  // Gives it its value: of the flag, else of the variable, else of the file. What is no text or
  // list of texts, or empty, is a mistake and stays without a value.
  void Fill(Setting& setting);

  // Every key of the file that no Fill has asked for is a mistake, since it would be without
  // effect; tables in `free` have names of their own.
  void RefuseUnknown(std::string_view free);

 private:
  void Take(Setting& setting, const toml::node& node);

  const toml::table& file_;
  const std::string_view file_name_;
  const Environment environment_;
  Mistakes& mistakes_;
  std::set<std::string> known_;
};

}  // namespace parkade::daemon
