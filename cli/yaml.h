// `-o yaml`: the documents of `-o json` in another notation.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <streambuf>
#include <string>

namespace parkade::cli {

// As block YAML that readers of YAML 1.1 and 1.2 understand alike: all strings are quoted. Ends
// with a newline.
std::string ToYaml(const nlohmann::ordered_json& json);

// While it lives, each JSON document that is written to `out`, up to a flush, comes out as a YAML
// document with its "---". What is no JSON comes out as it is. One thread.
class YamlOutput : std::streambuf {
 public:
  explicit YamlOutput(std::ostream& out);
  ~YamlOutput() override;

 private:
  int overflow(int c) override;
  std::streamsize xsputn(const char* text, std::streamsize bytes) override;
  int sync() override;

  std::ostream& out_;
  std::streambuf* const under_;
  std::string text_;
};

}  // namespace parkade::cli
