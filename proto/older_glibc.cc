// arc4random for programs that must load on glibc 2.35 (Ubuntu 22.04): libstdc++.a of Debian 12
// calls it for std::random_device, and glibc has it from 2.36 on.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value;
  ssize_t got;
  do {
    got = getrandom(&value, sizeof value, 0);
  } while (got < 0 && errno == EINTR);
  // The contract has no way to fail, and a constant in its place would be worse than an end.
  if (got != sizeof value) abort();
  return value;
}
