// A still picture: one panel for each chart, phases above them, a legend below.
#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/format.h"
#include "cli/report.h"

namespace parkade::cli {
namespace {

// Okabe and Ito's colours, told apart also by those who do not see all of them.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"};
constexpr int kWidth = 900, kLeft = 70, kRight = 20, kPanel = 110, kGap = 34, kTop = 54;
constexpr size_t kMostTimes = 900;  // a moment for each dot

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    if (c == '<' || c == '>' || c == '&' || c == '"') {
      absl::StrAppend(&out, "&#", int(c), ";");
    } else {
      out += c;
    }
  }
  return out;
}

class Picture {
 public:
  Picture(const Recording& recording, std::ostream& out)
      : recording_(recording), out_(out), charts_(ChartsOf(recording, kMostTimes)) {
    std::erase_if(charts_, [](const Chart& chart) { return chart.layers.empty(); });
  }

  void Draw() {
    const int bottom = kTop + int(charts_.size()) * (kPanel + kGap);
    // Layers of one tag have one colour in all panels.
    for (const Chart& chart : charts_) {
      for (const Layer& layer : chart.layers) ColourOf(layer.tag);
    }
    const int rows = (int(colours_.size()) + 3) / 4;
    const int height = bottom + rows * 18 + 34;
    out_ << absl::StreamFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" "
        "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
        kWidth, height, kWidth, height, kWidth, height);
    DrawPhases(bottom - kGap);
    for (size_t i = 0; i < charts_.size(); ++i) {
      DrawPanel(charts_[i], kTop + int(i) * (kPanel + kGap), i + 1 == charts_.size());
    }
    DrawLegend(bottom + 10);
    out_ << "</svg>\n";
  }

 private:
  double X(int64_t ms) const {
    const double length = std::max<double>(1, double(recording_.end_ms - recording_.begin_ms));
    return kLeft + double(ms - recording_.begin_ms) / length * (kWidth - kLeft - kRight);
  }

  const char* ColourOf(const std::string& tag) {
    if (tag == kOther) return "#c8ccd0";
    const auto [at, is_new] = colours_.emplace(tag, nullptr);
    if (is_new) at->second = kColours[(colours_.size() - 1) % std::size(kColours)];
    return at->second;
  }

  void DrawPhases(int bottom) {
    size_t i = 0;
    double free_from = 0;
    for (const Phase& phase : recording_.Phases()) {
      const double x = X(phase.begin_ms), width = std::max(1.0, X(phase.end_ms) - x);
      out_ << absl::StreamFormat(
          "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
          "fill-opacity=\"%s\"/>\n",
          x, kTop - 24, width, bottom - kTop + 24, i % 2 == 0 ? "#5b7083" : "#fff",
          i % 2 == 0 ? "0.08" : "0");
      // Names stand where there is room for them.
      if (x >= free_from && width > 6.0 * double(phase.name.size())) {
        out_ << absl::StreamFormat("<text x=\"%.1f\" y=\"%d\" fill=\"#556\">%s</text>\n", x + 3,
                                   kTop - 12, Escaped(phase.name));
        free_from = x + 6.0 * double(phase.name.size());
      }
      ++i;
    }
  }

  void DrawPanel(const Chart& chart, int top, bool last) {
    uint64_t most = std::max<uint64_t>(chart.capacity, 1);
    for (size_t i = 0; i < chart.ms.size(); ++i) most = std::max(most, chart.TotalAt(i));
    const auto y = [&](uint64_t bytes) {
      return top + kPanel - double(bytes) / double(most) * kPanel;
    };
    std::vector<uint64_t> floor(chart.ms.size());
    for (const Layer& layer : chart.layers) {
      std::string upper, lower;
      for (size_t i = 0; i < chart.ms.size(); ++i) {
        // A value holds until the next: two corners for each.
        const double from = X(chart.ms[i]),
                     to = i + 1 < chart.ms.size() ? X(chart.ms[i + 1]) : from;
        const double high = y(floor[i] + layer.bytes[i]), low = y(floor[i]);
        if (i == 0) {
          absl::StrAppendFormat(&upper, "M%.1f %.1fH%.1f", from, high, to);
        } else {
          absl::StrAppendFormat(&upper, "V%.1fH%.1f", high, to);
        }
        lower = absl::StrFormat("L%.1f %.1fL%.1f %.1f", to, low, from, low) + lower;
        floor[i] += layer.bytes[i];
      }
      out_ << "<path d=\"" << upper << lower << "Z\" fill=\"" << ColourOf(layer.tag)
           << "\" fill-opacity=\"0.85\"/>\n";
    }
    out_ << absl::StreamFormat(
        "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#889\"/>\n"
        "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n"
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\" "
        "text-anchor=\"end\">0</text>\n",
        kLeft, top, top + kPanel, kWidth - kRight, kLeft + 2, top - 4, Escaped(chart.title),
        kLeft - 6, top + 9, FormatBytes(most), kLeft - 6, top + kPanel);
    if (!last) return;
    const double seconds = double(recording_.end_ms - recording_.begin_ms) / 1000;
    for (int i = 0; i <= 4; ++i) {
      out_ << absl::StreamFormat("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                                 kLeft + (kWidth - kLeft - kRight) * i / 4, top + kPanel + 15,
                                 FormatSeconds(seconds * i / 4));
    }
  }

  void DrawLegend(int top) {
    int i = 0;
    const auto entry = [&](const std::string& name, const char* colour) {
      const int x = kLeft + i % 4 * 200, y = top + i / 4 * 18;
      out_ << absl::StreamFormat(
          "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/><text x=\"%d\" "
          "y=\"%d\">%s</text>\n",
          x, y, colour, x + 17, y + 10, Escaped(name.empty() ? "(no tag)" : name));
      ++i;
    };
    for (const auto& [tag, colour] : colours_) entry(tag, colour);
    entry(kOther, "#c8ccd0");
  }

  const Recording& recording_;
  std::ostream& out_;
  std::vector<Chart> charts_;
  std::map<std::string, const char*> colours_;
};

}  // namespace

void WriteSvg(const Recording& recording, std::ostream& out) { Picture(recording, out).Draw(); }

}  // namespace parkade::cli
