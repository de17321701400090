// Puts data, script, style and the charts' library into one page.
#include <string_view>

#include "cli/report.h"

// Files of cli/report_assets, by report_assets.S; each ends with a NUL.
extern "C" {
extern const char parkade_report_page[];
extern const char parkade_report_style[];
extern const char parkade_report_script[];
extern const char parkade_uplot_style[];
extern const char parkade_uplot_script[];
extern const char parkade_uplot_license[];
}

namespace parkade::cli {
namespace {

// Inside a script element nothing may look like its end, or like a comment's begin.
std::string InScript(std::string json) {
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

}  // namespace

void WriteHtml(const Recordings& recordings, std::ostream& out) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"@LICENSE@", parkade_uplot_license},
      {"@LIBRARY_STYLE@", parkade_uplot_style},
      {"@STYLE@", parkade_report_style},
      {"@LIBRARY@", parkade_uplot_script},
      {"@DATA@", InScript(ReportJson(recordings))},
      {"@SCRIPT@", parkade_report_script},
  };
  std::string_view page = parkade_report_page;
  for (const auto& [name, text] : parts) {
    const size_t at = page.find(name);
    out << page.substr(0, at) << text;
    page.remove_prefix(at + name.size());
  }
  out << page;
}

}  // namespace parkade::cli
