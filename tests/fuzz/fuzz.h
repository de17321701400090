// What the fuzz targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/fd.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max);

namespace parkade::fuzz {

// What must hold of every input; a finding like a crash when it does not.
inline void Must(bool holds) {
  if (!holds) abort();
}

// Sends one packet with `count` descriptors of /dev/null.
void SendWithDescriptors(int socket, const uint8_t* data, size_t size, unsigned count);

// A directory of this process's own in the working directory, gone with it.
const std::string& Folder();

// A memfd of one target's own, refilled for each input.
class MemoryFile {
 public:
  MemoryFile();
  // Its whole content from now on.
  void Fill(const uint8_t* data, size_t size);
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace parkade::fuzz
