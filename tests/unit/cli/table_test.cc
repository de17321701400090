// Columns, cuts and colours.
#include "cli/table.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace parkade::cli {
namespace {

std::string Printed(const Table& table, size_t width, bool colour = false) {
  std::ostringstream out;
  table.Print(out, width, colour);
  return out.str();
}

Table TwoRows() {
  Table table;
  table.AddColumn("PID", Table::Align::kRight);
  table.AddColumn("STATE");
  table.AddColumn("COMMAND");
  table.AddRow({"7", {"paused", Colour::kYellow}, "python"});
  table.AddRow({"4711", "running", "a very long command line"});
  return table;
}

}  // namespace

TEST_CASE("columns are as wide as their widest cell and lines end without blanks") {
  CHECK(Printed(TwoRows(), 0) ==
        " PID  STATE    COMMAND\n"
        "   7  paused   python\n"
        "4711  running  a very long command line\n");
}

TEST_CASE("the last column is cut to fit a terminal") {
  CHECK(Printed(TwoRows(), 25) ==
        " PID  STATE    COMMAND\n"
        "   7  paused   python\n"
        "4711  running  a very lo…\n");
}

TEST_CASE("a terminal too narrow for the first columns gets whole lines") {
  CHECK(Printed(TwoRows(), 18) == Printed(TwoRows(), 0));
}

TEST_CASE("colour does not change the layout") {
  std::string painted = Printed(TwoRows(), 0, true);
  CHECK(painted.find("\033[33mpaused\033[0m   python") != std::string::npos);
  CHECK(Printed(TwoRows(), 0).find('\033') == std::string::npos);
}

TEST_CASE("letters of several bytes take one column") {
  CHECK(DisplayWidth("größe") == 5);
  Table table;
  table.AddColumn("A");
  table.AddColumn("B");
  table.AddRow({"größe", "x"});
  CHECK(Printed(table, 0) == "A      B\ngröße  x\n");
}

TEST_CASE("a cell cannot break out of its line") {
  Table table;
  table.AddColumn("A");
  table.AddRow({"x\n\033[31my"});
  CHECK(Printed(table, 0) == "A\nx ?[31my\n");
}

}  // namespace parkade::cli
