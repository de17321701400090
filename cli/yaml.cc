// Writes values as YAML 1.2 (https://yaml.org/spec/1.2.2), in the part of it that YAML 1.1 reads
// alike.
#include "cli/yaml.h"

#include <set>

namespace parkade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNameLetters[] = "abcdefghijklmnopqrstuvwxyz_";
// Words that readers of YAML 1.1 take for something else than text.
const std::set<std::string> kOtherWords = {"y",   "n",    "yes",   "no",  "on",
                                           "off", "true", "false", "null"};

std::string Scalar(const Json& json) {
  std::string text = json.dump();  // strings of JSON are double-quoted ones of YAML
  if (!json.is_number_float()) return text;
  // YAML 1.1 has no number with an exponent but without a point.
  const size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

std::string Key(const std::string& name) {
  const bool plain = !name.empty() && name.find_first_not_of(kNameLetters) == std::string::npos;
  return plain && !kOtherWords.contains(name) ? name : Json(name).dump();
}

bool IsBlock(const Json& json) { return json.is_structured() && !json.empty(); }

void Write(const Json& json, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (!IsBlock(json)) {
    out += margin + Scalar(json) + '\n';
  } else if (json.is_array()) {
    for (const Json& item : json) {
      const size_t at = out.size();
      Write(item, indent + 2, out);
      out[at + indent] = '-';  // in the margin of the item's first line
    }
  } else {
    for (const auto& [name, value] : json.items()) {
      out += margin + Key(name) + ':';
      if (IsBlock(value)) {
        out += '\n';
        Write(value, indent + 2, out);
      } else {
        out += ' ' + Scalar(value) + '\n';
      }
    }
  }
}

}  // namespace

std::string ToYaml(const Json& json) {
  std::string text;
  Write(json, 0, text);
  return text;
}

YamlOutput::YamlOutput(std::ostream& out) : out_(out), under_(out.rdbuf(this)) {}

YamlOutput::~YamlOutput() {
  const bool failed = sync() != 0 || !out_;
  out_.rdbuf(under_);  // and clears the stream's state
  if (failed) out_.setstate(std::ios::badbit);
  out_ << text_;
}

int YamlOutput::overflow(int c) {
  if (c != traits_type::eof()) text_.push_back(char(c));
  return 0;
}

std::streamsize YamlOutput::xsputn(const char* text, std::streamsize bytes) {
  text_.append(text, size_t(bytes));
  return bytes;
}

int YamlOutput::sync() {
  const Json json = Json::parse(text_, nullptr, false);
  if (json.is_discarded()) return 0;  // not whole yet, or none
  const std::string yaml = "---\n" + ToYaml(json);
  text_.clear();
  const auto bytes = std::streamsize(yaml.size());
  return under_->sputn(yaml.data(), bytes) == bytes ? under_->pubsync() : -1;
}

}  // namespace parkade::cli
