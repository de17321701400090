// Parses and packs the header of a safetensors file: the little JSON that it needs, nothing more.
#include <algorithm>
#include <cstdio>

#include "common/store/layout.h"
#include "common/store/safetensors.h"

namespace parkade::store {
namespace {

// Reads JSON from left to right. After the first error every call fails, and `error` tells.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  const char* error() const { return error_; }
  size_t at() const { return at_; }

  // Whether `c` comes next; takes it.
  bool Take(char c) {
    Space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Need(char c, const char* otherwise) { return Take(c) || Fail(otherwise); }
  bool AtEnd() {
    Space();
    return at_ == text_.size();
  }

  bool String(std::string& out) {
    out.clear();
    if (!Need('"', "a string was expected")) return false;
    while (at_ < text_.size()) {
      const unsigned char c = static_cast<unsigned char>(text_[at_++]);
      if (c == '"') return true;
      if (c < 0x20) return Fail("a control character in a string");
      if (c != '\\') {
        out += char(c);
      } else if (!Escape(out)) {
        return false;
      }
    }
    return Fail("a string without an end");
  }

  // A whole number without sign, fraction or exponent, below 2^63.
  bool Number(uint64_t& out) {
    Space();
    const size_t start = at_;
    out = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (out > (uint64_t{1} << 59)) return Fail("a number that is too large");
      out = out * 10 + uint64_t(text_[at_] - '0');
    }
    if (at_ == start) return Fail("a whole number was expected");
    return true;
  }

  bool Fail(const char* what) {
    if (error_ == nullptr) error_ = what;
    return false;
  }

 private:
  void Space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool Escape(std::string& out) {
    if (at_ >= text_.size()) return Fail("a string without an end");
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(c); i != kFrom.npos) {
      out += kTo[i];
      return true;
    }
    if (c != 'u') return Fail("an unknown escape");
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char digit = at_ < text_.size() ? text_[at_] : ' ';
      const size_t value = std::string_view("0123456789abcdef").find(char(digit | 0x20));
      if (value == std::string_view::npos) return Fail("an escape without four digits");
      code = code * 16 + uint32_t(value);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
      return Fail("an escape that is no character");
    if (code >= 0x800) {
      out += char(0xe0 | code >> 12);
      out += char(0x80 | (code >> 6 & 0x3f));
    } else if (code >= 0x80) {
      out += char(0xc0 | code >> 6);
    }
    out += code < 0x80 ? char(code) : char(0x80 | (code & 0x3f));
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  const char* error_ = nullptr;
};

bool ReadNumbers(JsonReader& json, std::vector<uint64_t>& numbers, size_t most) {
  if (!json.Need('[', "a list was expected")) return false;
  if (json.Take(']')) return true;
  do {
    uint64_t number;
    if (!json.Number(number)) return false;
    if (numbers.size() == most) return json.Fail("a list that is too long");
    numbers.push_back(number);
  } while (json.Take(','));
  return json.Need(']', "a list without an end");
}

TensorType TypeOf(std::string_view name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "BF16") return TensorType::kBf16;
  if (name == "F16") return TensorType::kF16;
  return TensorType::kOther;
}

const char* NameOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kBf16:
      return "BF16";
    case TensorType::kF16:
      return "F16";
    case TensorType::kOther:
      break;
  }
  return "U8";
}

bool ReadTensor(JsonReader& json, Tensor& tensor, Bytes data_bytes) {
  bool type = false, shape = false, offsets = false;
  std::vector<uint64_t> range;
  if (!json.Need('{', "a tensor's description was expected")) return false;
  do {
    std::string key, value;
    if (!json.String(key) || !json.Need(':', "a colon was expected")) return false;
    if (key == "dtype" && !type) {
      type = true;
      if (!json.String(value)) return false;
      tensor.type = TypeOf(value);
    } else if (key == "shape" && !shape) {
      shape = true;
      if (!ReadNumbers(json, tensor.shape, kMostAxes)) return false;
    } else if (key == "data_offsets" && !offsets) {
      offsets = true;
      if (!ReadNumbers(json, range, 2)) return false;
    } else {
      return json.Fail("a key that is unknown or comes twice");
    }
  } while (json.Take(','));
  if (!json.Need('}', "a description without an end")) return false;
  if (!type || !shape || range.size() != 2) {
    return json.Fail("a tensor without dtype, shape or data_offsets");
  }
  tensor.begin = range[0];
  tensor.end = range[1];
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    return json.Fail("a tensor outside the file");
  }
  const auto numel = NumelOf(tensor.shape);
  const Bytes size = SizeOf(tensor.type);
  if (!numel.ok() || (size != 0 && *numel * size != tensor.end - tensor.begin)) {
    return json.Fail("a tensor whose shape and length differ");
  }
  return true;
}

bool ReadMetadata(JsonReader& json, std::map<std::string, std::string>& metadata) {
  if (!json.Need('{', "metadata was expected")) return false;
  if (json.Take('}')) return true;
  do {
    std::string key, value;
    if (!json.String(key) || !json.Need(':', "a colon was expected") || !json.String(value)) {
      return false;
    }
    if (!metadata.emplace(key, value).second) return json.Fail("a key that comes twice");
  } while (json.Take(','));
  return json.Need('}', "metadata without an end");
}

bool ReadAll(JsonReader& json, TensorHeader& header, Bytes data_bytes) {
  if (!json.Need('{', "an object was expected")) return false;
  if (json.Take('}')) return json.AtEnd() || json.Fail("text behind the object");
  bool metadata = false;
  do {
    std::string name;
    if (!json.String(name) || !json.Need(':', "a colon was expected")) return false;
    if (name == "__metadata__") {
      if (metadata) return json.Fail("metadata that comes twice");
      metadata = true;
      if (!ReadMetadata(json, header.metadata)) return false;
      continue;
    }
    Tensor tensor;
    if (!ReadTensor(json, tensor, data_bytes)) return false;
    if (!header.tensors.emplace(std::move(name), std::move(tensor)).second) {
      return json.Fail("a name that comes twice");
    }
  } while (json.Take(','));
  return json.Need('}', "an object without an end") &&
         (json.AtEnd() || json.Fail("text behind the object"));
}

bool Overlaps(const TensorHeader& header) {
  std::vector<std::pair<Bytes, Bytes>> ranges;
  for (const auto& [name, tensor] : header.tensors) {
    if (tensor.begin != tensor.end) ranges.emplace_back(tensor.begin, tensor.end);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return true;
  }
  return false;
}

void AppendQuoted(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    char escaped[8];
    if (static_cast<unsigned char>(c) < 0x20) {
      snprintf(escaped, sizeof escaped, "\\u%04x", unsigned(c));
      out += escaped;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

}  // namespace

Bytes SizeOf(TensorType type) {
  return type == TensorType::kF32 ? 4 : type == TensorType::kOther ? 0 : 2;
}

Result<TensorHeader> ParseTensorHeader(std::string_view text, Bytes data_bytes,
                                       const std::string& name) {
  TensorHeader header;
  JsonReader json(text);
  const bool read = ReadAll(json, header, data_bytes);
  if (read && !Overlaps(header)) return header;
  return MakeError(Code::kDataLoss, "BAD_HEADER", "%.100s: %s, at byte %zu of the header",
                   name.c_str(), read ? "two tensors over each other" : json.error(), json.at());
}

std::string PackTensorHeader(TensorHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      if (text.back() != '{') text += ',';
      AppendQuoted(text, key);
      text += ':';
      AppendQuoted(text, value);
    }
    text += '}';
  }
  Bytes at = 0;
  for (auto& [name, tensor] : header.tensors) {
    Bytes bytes = SizeOf(tensor.type);
    for (const uint64_t n : tensor.shape) bytes *= n;
    tensor.begin = at;
    tensor.end = at += bytes;
    if (text.back() != '{') text += ',';
    AppendQuoted(text, name);
    text += ":{\"dtype\":\"" + std::string(NameOf(tensor.type)) + "\",\"shape\":[";
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      text += (axis == 0 ? "" : ",") + std::to_string(tensor.shape[axis]);
    }
    text += "],\"data_offsets\":[" + std::to_string(tensor.begin) + "," +
            std::to_string(tensor.end) + "]}";
  }
  text += '}';
  text.resize(RoundUp(text.size(), 8), ' ');
  return text;
}

}  // namespace parkade::store
