// The tables that generate_exports.py writes: what cuGetProcAddress finds, and error names.
#pragma once

#include <cstddef>

namespace parkade::sim {

struct Export {
  const char* name;  // without version and variant
  int version;       // of the toolkit that brought this form, as cudaTypedefs.h counts
  bool per_thread;   // stream 0 is the thread's own
  void* address;
};
extern const Export kExports[];  // by name; versions of a name ascend
extern const size_t kExportCount;

struct ErrorName {
  int number;
  const char* name;
  const char* text;
};
extern const ErrorName kErrorNames[];
extern const size_t kErrorNameCount;

}  // namespace parkade::sim
