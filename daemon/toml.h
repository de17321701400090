// The TOML parser, as all files here that read the configuration have it.
#pragma once

#define TOML_EXCEPTIONS 0
// Version 3.3 asserts what a file that is wrong need not hold (a key that begins with a backslash),
// and then finds the error by itself.
#define TOML_ASSERT(...) static_cast<void>(0)
#include <toml++/toml.h>
