// A checkpoint written anew by one rank.
#include <map>
#include <utility>

#include "common/store/checkpoint_writer.h"
#include "common/store/import_export.h"
#include "common/store/reshard.h"

namespace parkade::store {

Result<Layout> WholeLayout(const Checkpoint& checkpoint, std::vector<Segment> segments,
                           uint64_t bucket_numel) {
  std::map<std::string, Entry> entries;
  for (const Manifest& manifest : checkpoint.manifests()) {
    for (const Entry& saved : manifest.layout.entries()) {
      if (saved.replica != 0 || entries.contains(saved.name)) continue;
      auto numel = NumelOf(saved.global_shape);
      if (!numel.ok()) return numel.error();
      entries[saved.name] = {.name = saved.name,
                             .global_shape = saved.global_shape,
                             .local_shape = saved.global_shape,
                             .flat_end = *numel};
    }
  }
  std::vector<Entry> list;
  for (auto& [name, entry] : entries) list.push_back(std::move(entry));
  return Layout::Make(std::move(list), std::move(segments), bucket_numel);
}

Result<void> ConvertCheckpoint(const Checkpoint& checkpoint, const Layout& layout,
                               const std::string& base) {
  auto plan = Resharding::Plan(checkpoint, layout, Conversion::kAllow);
  if (!plan.ok()) return plan.error();
  const Manifest& first = checkpoint.manifests()[0];
  Manifest manifest;
  manifest.step = checkpoint.step();
  manifest.seed = first.seed;
  manifest.set = first.set ^ layout.hash().low;  // of one rank, which no other's part is to match
  manifest.layout = layout;
  manifest.user = first.user;
  auto writer = CheckpointWriter::Begin(base, std::move(manifest));
  if (!writer.ok()) return writer.error();
  std::vector<uint8_t> bytes;
  for (uint32_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    BucketState state;
    if (auto r = plan->MakeBucket(bucket, bytes, state); !r.ok()) return r;
    if (auto r = writer->WriteBucket(bucket, bytes.data(), state.ties, state.weight_sum); !r.ok()) {
      return r;
    }
  }
  if (auto r = writer->Publish(); !r.ok()) return r;
  auto complete = CompleteCheckpoint(base, checkpoint.step());
  return complete.ok() ? Result<void>() : Result<void>(complete.error());
}

}  // namespace parkade::store
