// A made-up model, its cut among ranks, checkpoints of it, and all its values by name: what the
// tests of checkpoints compare.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/store/checkpoint.h"
#include "common/store/reshard.h"

namespace parkade::store {

struct Parameter {
  std::string name;
  std::vector<uint64_t> shape;
  int32_t axis = -1;   // that tensor parallelism cuts
  uint32_t stage = 0;  // pipeline stage or expert group
};

// How a model is cut. Ranks count stages first, then tensor, then data parallelism.
struct Cut {
  uint32_t dp = 1, tp = 1;
  uint64_t bucket = 1024;
  uint64_t align = 1;  // of the data-parallel cut, in elements of each parameter
};

// A directory that goes away with the object.
class Scratch {
 public:
  Scratch() {
    char path[] = "/tmp/parkade-store-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Every parameter's share of each data-parallel rank is cut where the flat concatenation of a
// stage's local tensors is, as the distributed optimizers do.
std::vector<Layout> LayoutsOf(const std::vector<Parameter>& model, const Cut& cut,
                              const std::vector<Segment>& segments);

// A bucket's file, and what its record says.
struct Filed {
  std::vector<uint8_t> bytes;
  BucketState state;
};
using Buckets = std::vector<Filed>;

// Fills a rank's buckets with values that depend on parameter, global index and segment alone.
Buckets Filled(const Layout& layout);

// Saves the model, all ranks, and completes it.
void Save(const std::string& base, uint64_t step, const std::vector<Layout>& layouts);

// Everything decoded: parameter and segment to its values by global index, as bits; 0xdeadbeef
// where nothing was.
using Values = std::map<std::string, std::vector<uint32_t>>;
Values Decoded(const std::vector<Layout>& layouts, const std::vector<Buckets>& buckets);
Values DecodedOf(const Checkpoint& checkpoint);
// What a load under `wanted` gives; `reencoded` counts.
Values Loaded(const Checkpoint& checkpoint, const std::vector<Layout>& wanted,
              Conversion conversion, uint64_t& reencoded);

}  // namespace parkade::store
