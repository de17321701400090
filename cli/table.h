// Table: columns as wide as their widest cell, for people to read.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace parkade::cli {

enum class Colour { kNone, kGreen, kYellow, kRed, kDim };

// `text` in that colour, or as it is when `use` is false.
std::string Paint(const std::string& text, Colour colour, bool use);

// Columns that a terminal of `width` columns shows `text` in, counting a code point as one.
size_t DisplayWidth(const std::string& text);

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Cell {
    Cell(std::string t, Colour c = Colour::kNone) : text(std::move(t)), colour(c) {}
    Cell(const char* t) : text(t) {}
    std::string text;
    Colour colour = Colour::kNone;
  };

  void AddColumn(std::string header, Align align = Align::kLeft);
  // As many cells as there are columns.
  void AddRow(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }

  // Prints headers and rows. The last column is cut so that a line fits `width`; 0: never.
  void Print(std::ostream& out, size_t width, bool colour) const;

 private:
  struct Column {
    std::string header;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace parkade::cli
