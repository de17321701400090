// One attribute of one address, as words.
#pragma once

#include <string>

#include "tests/apps/edge_calls/case.h"

struct Attribute {
  const char* name;
  CUpointer_attribute id;
  enum class Kind {
    kNumber,    // said as it is
    kAddress,   // said as an offset from the allocation
    kContext,   // "primary", "other" or "null"
    kIdentity,  // 0 or not
    kTokens,    // two numbers that differ from boot to boot
  } kind;
};

std::span<const Attribute> Attributes();

// The code and the value, told relative to `base` so that two runs can be compared. With `exact`,
// identities are told too, so that two looks of one run can be.
std::string Describe(const Attribute& attribute, CUdeviceptr at, CUdeviceptr base, bool exact);

// The value that an attribute has there, or 0.
uint64_t ValueOf(CUpointer_attribute attribute, CUdeviceptr at);
