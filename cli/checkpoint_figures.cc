// Adds up manifests.
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/checkpoint.h"
#include "cli/error.h"

namespace parkade::cli {

CheckpointFigures FiguresOf(const std::string& directory, const store::Generation& generation) {
  CheckpointFigures figures;
  figures.step = generation.step;
  if (!generation.complete) {
    figures.state = "incomplete";
    return figures;
  }
  const auto opened = store::Checkpoint::Open(directory, generation.step);
  if (!opened.ok()) {
    const Error& error = opened.error();
    figures.problem = MakeStatus(absl::StatusCode(error.code), error.what, error.reason);
    figures.state = absl::StrCat(error.reason, ": ", error.what);
    return figures;
  }
  figures.state = "complete";
  figures.ranks = uint32_t(opened->manifests().size());
  std::set<std::string_view> names;
  for (const store::Manifest& manifest : opened->manifests()) {
    for (const store::Entry& entry : manifest.layout.entries()) {
      if (!names.insert(entry.name).second) continue;
      const auto numel = store::NumelOf(entry.global_shape);
      if (numel.ok()) figures.elements += *numel;
    }
    for (const store::Bucket& bucket : manifest.layout.buckets()) {
      figures.bytes += bucket.saved_bytes;
    }
  }
  figures.parameters = names.size();
  for (const store::Segment& segment : opened->manifests()[0].layout.segments()) {
    absl::StrAppend(&figures.encodings, figures.encodings.empty() ? "" : ", ", segment.name, " ",
                    store::NameOf(segment.encoding));
  }
  return figures;
}

nlohmann::ordered_json ToJson(const CheckpointFigures& figures) {
  return {{"step", figures.step},
          {"complete", figures.state == "complete"},
          {"state", figures.state},
          {"ranks", figures.ranks},
          {"parameters", figures.parameters},
          {"elements", figures.elements},
          {"bytes", figures.bytes},
          {"encodings", figures.encodings}};
}

}  // namespace parkade::cli
