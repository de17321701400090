// A store of random weights and gradients, for the time of whole steps of the built-in Adam.
#pragma once

#include <cstdint>

namespace parkade::bench {

struct StoreAsked {
  const char* directory;  // "host": all buckets are kept in host memory
  const char* main;       // encodings
  const char* moments;
  uint64_t elements;
  uint64_t buckets;
  bool phased;  // reads and writes take turns at the disk
};

// A context is current, and libparkade.so preloaded. Fills the store, prints `ready` with its
// memory, and for each line of input makes a step and waits until its bytes are where they belong:
//   ready device=BYTES slots=N bucket_elements=N
//   seconds=S waited=S read=BYTES written=BYTES
// The files are gone at the end of the input.
void ServeSteps(const StoreAsked& asked);

}  // namespace parkade::bench
