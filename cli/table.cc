// Pads, cuts and colours the cells of a table.
#include "cli/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

const char* Code(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kDim:
      return "\033[2m";
    case Colour::kNone:
      break;
  }
  return "";
}

bool StartsCodePoint(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

// The first `width` code points of `text`, the last one an ellipsis if any were dropped.
std::string Cut(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    if (StartsCodePoint(text[end]) && seen++ == width - 1) break;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace

std::string Paint(const std::string& text, Colour colour, bool use) {
  if (!use || colour == Colour::kNone) return text;
  return absl::StrCat(Code(colour), text, "\033[0m");
}

size_t DisplayWidth(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), StartsCodePoint));
}

void Table::AddColumn(std::string header, Align align) {
  columns_.push_back({std::move(header), align});
}

void Table::AddRow(std::vector<Cell> cells) {
  for (Cell& cell : cells) cell.text = Printable(cell.text);
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, size_t width, bool colour) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t widest = DisplayWidth(columns_[i].header);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[i].text));
    widths.push_back(widest);
  }
  size_t before_last = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i) before_last += widths[i] + 2;
  // Below 8 columns nothing of the last cell could be read: better a line that wraps.
  const bool cut = width >= before_last + 8;

  auto print_line = [&](auto text_of, auto colour_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool last = i + 1 == columns_.size();
      std::string text = text_of(i);
      if (last && cut) text = Cut(text, width - before_last);
      const size_t used = DisplayWidth(text);
      const std::string pad(used < widths[i] ? widths[i] - used : 0, ' ');
      const std::string painted = Paint(text, colour_of(i), colour);
      if (columns_[i].align == Align::kRight) {
        absl::StrAppend(&line, pad, painted, last ? "" : "  ");
      } else {
        absl::StrAppend(&line, painted, last ? "" : pad, last ? "" : "  ");
      }
    }
    out << line << '\n';
  };
  print_line([&](size_t i) { return columns_[i].header; }, [](size_t) { return Colour::kDim; });
  for (const auto& row : rows_) {
    print_line([&](size_t i) { return row[i].text; }, [&](size_t i) { return row[i].colour; });
  }
}

}  // namespace parkade::cli
