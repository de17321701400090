// What a tag may be called.
#pragma once

#include <algorithm>
#include <string_view>

#include "proto/ledger.h"

namespace parkade::shim {

// Letters, digits and _ - . : /, as many as the ledger has room for. Nothing else, so that lists of
// tags can be written with commas and blanks, and policies with an equals sign.
inline bool IsTagName(std::string_view text) {
  if (text.empty() || text.size() >= sizeof wire::LedgerRecord::tag) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  });
}

}  // namespace parkade::shim
