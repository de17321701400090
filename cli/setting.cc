// Splits a setting's line at its first "=" and its last " (".
#include "cli/setting.h"

namespace parkade::cli {

Setting ReadSetting(const std::string& line) {
  const size_t equals = line.find('=');
  const size_t source = line.rfind(" (");
  if (equals == std::string::npos || source == std::string::npos || source < equals ||
      line.back() != ')') {
    return {"", line, ""};
  }
  return {line.substr(0, equals), line.substr(equals + 1, source - equals - 1),
          line.substr(source + 2, line.size() - source - 3)};
}

}  // namespace parkade::cli
