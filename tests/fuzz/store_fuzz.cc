// Fuzzes what a store reads from files that others may have written: manifests and the header of
// safetensors.
#include <cstddef>
#include <cstring>
#include <string>

#include "common/store/bytes_hash.h"
#include "common/store/manifest.h"
#include "common/store/manifest_bytes.h"
#include "common/store/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace parkade;
using namespace parkade::fuzz;
using namespace parkade::store;

namespace {

void FeedManifest(std::string bytes) {
  if (bytes.size() >= sizeof(ManifestHeader)) {
    // With the digest and length right, so that what lies behind them is reached.
    ManifestHeader header;
    memcpy(&header, bytes.data(), sizeof header);
    header.total_bytes = bytes.size();
    header.digest_low = header.digest_high = 0;
    memcpy(bytes.data(), &header, sizeof header);
    const Digest digest = HashBytes(bytes);
    memcpy(&bytes[offsetof(ManifestHeader, digest_low)], &digest, sizeof digest);
  }
  Digest digest;
  const auto manifest = ParseManifest(bytes, "manifest", digest);
  if (!manifest.ok()) {
    Must(manifest.error().reason[0] != '\0');
    return;
  }
  Must(manifest->buckets.size() == manifest->layout.buckets().size());
  Digest again_digest;
  const auto packed = PackManifest(*manifest, again_digest);
  Must(packed.ok());
  const auto again = ParseManifest(*packed, "manifest", again_digest);
  Must(again.ok() && again->layout.hash() == manifest->layout.hash());
}

void FeedTensors(const std::string& text, uint64_t data_bytes) {
  auto header = ParseTensorHeader(text, data_bytes, "tensors");
  if (!header.ok()) return;
  for (auto& [name, tensor] : header->tensors) {
    Must(tensor.begin <= tensor.end && tensor.end <= data_bytes);
    // Packing knows the three types alone.
    if (tensor.type == TensorType::kOther) return;
  }
  TensorHeader copy = *header;
  const std::string packed = PackTensorHeader(copy);
  const auto again = ParseTensorHeader(packed, uint64_t{1} << 62, "tensors");
  Must(again.ok() && again->tensors.size() == header->tensors.size() &&
       again->metadata == header->metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == '{') {
    FeedTensors(bytes, 64);
  } else {
    FeedManifest(bytes);
  }
  return 0;
}
