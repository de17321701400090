// Makes buckets of whole tensors.
#include <cstdlib>

#include "common/store/import_export.h"
#include "common/store/weights_area.h"

namespace parkade::store {
namespace {

Error Refuse(const char* reason, const std::string& name, const char* what) {
  return MakeError(Code::kFailedPrecondition, reason, "%.110s: %s", name.c_str(), what);
}

}  // namespace

Result<TensorImport> TensorImport::Plan(const std::vector<std::string>& files, const Layout& wanted,
                                        Moments moments) {
  TensorImport plan;
  plan.wanted_ = &wanted;
  plan.files_.reserve(files.size());
  for (const std::string& path : files) {
    auto file = TensorFile::Open(path);
    if (!file.ok()) return file.error();
    for (const auto& [name, tensor] : file->header().tensors) {
      if (plan.Find(name).tensor == nullptr) continue;
      return MakeError(Code::kInvalidArgument, "DUPLICATE_NAME", "%.100s: also in %.80s",
                       name.c_str(), path.c_str());
    }
    plan.files_.push_back(std::move(*file));
  }
  if (auto r = plan.Locate(moments); !r.ok()) return r.error();
  if (auto r = plan.ReadStep(moments); !r.ok()) return r.error();
  return plan;
}

TensorImport::Place TensorImport::Find(const std::string& name) const {
  for (const TensorFile& file : files_) {
    const auto found = file.header().tensors.find(name);
    if (found != file.header().tensors.end()) return {&file, &found->second};
  }
  return {};
}

Result<void> TensorImport::Locate(Moments moments) {
  for (const Segment& segment : wanted_->segments()) {
    if (segment.encoding == Encoding::kRaw) {
      return Refuse("RAW_SEGMENT", segment.name, "raw bytes have no form in tensors");
    }
  }
  for (const Entry& entry : wanted_->entries()) {
    auto& places = places_.emplace_back();
    for (size_t i = 0; i < wanted_->segments().size(); ++i) {
      const std::string name = i == 0 ? entry.name : entry.name + "." + wanted_->segments()[i].name;
      const Place place = Find(name);
      if (i > 0 && moments == Moments::kZero) {
        if (place.tensor != nullptr) {
          return Refuse("PARTIAL_MOMENTS", name, "is there, and moments of zero were asked for");
        }
        places.emplace_back();
        continue;
      }
      if (place.tensor == nullptr) {
        return i == 0 ? Refuse("NO_SUCH_PARAMETER", name, "no tensor of that name")
                      : Refuse("MISSING_MOMENTS", name,
                               "no tensor of that name; ask for moments of zero to start without");
      }
      if (place.tensor->shape != entry.global_shape) {
        return Refuse("OTHER_SHAPE", name, "a tensor of another shape");
      }
      if (place.tensor->type == TensorType::kOther) {
        return Refuse("TENSOR_TYPE", name, "a tensor that is not F32, BF16 or F16");
      }
      places.push_back(place);
    }
  }
  return {};
}

Result<void> TensorImport::ReadStep(Moments moments) {
  if (moments == Moments::kZero) return {};
  bool found = false;
  for (const TensorFile& file : files_) {
    const auto text = file.header().metadata.find("step");
    if (text == file.header().metadata.end()) continue;
    char* end = nullptr;
    const uint64_t step = strtoull(text->second.c_str(), &end, 10);
    const bool number = !text->second.empty() && text->second.size() < 18 && *end == '\0' &&
                        text->second[0] >= '0' && text->second[0] <= '9';
    if (!number || (found && step != step_)) {
      return Refuse("NO_STEP", file.path(), "its step is no number, or another file's is another");
    }
    found = true;
    step_ = step;
  }
  if (found) return {};
  return Refuse("NO_STEP", wanted_->segments()[0].name,
                "no file's metadata has a step, without which Adam's moments are of no use");
}

Result<void> TensorImport::MakeBucket(uint32_t index, std::vector<uint8_t>& bytes,
                                      BucketState& state) const {
  const Bucket& bucket = wanted_->buckets()[index];
  bytes.assign(bucket.saved_bytes, 0);
  std::vector<uint16_t> bf16(bucket.weights.bytes / 2);
  std::vector<uint32_t> ties(bf16.size() / kGroup);
  const Rounding nearest = {.nearest = true};
  std::vector<float> values(bucket.numel);
  for (size_t segment = 0; segment < wanted_->segments().size(); ++segment) {
    for (const Piece& piece : bucket.pieces) {
      const Place& place = places_[piece.entry][segment];
      if (place.tensor == nullptr) continue;
      const Entry& entry = wanted_->entries()[piece.entry];
      // A whole tensor is the source, so that an index there is the global one.
      for (const Run& run : RunsOfWhole(entry, piece.param_begin, piece.param_end)) {
        float* to = &values[piece.position + (run.wanted - piece.param_begin)];
        if (auto r = place.file->Read(*place.tensor, run.source, run.numel, to); !r.ok()) return r;
      }
      if (auto r =
              Encode(wanted_->segments()[segment], values.data(), bucket.numel, piece.positions(),
                     nearest, {bf16, ties}, bytes.data() + bucket.segments[segment].offset);
          !r.ok()) {
        return MakeError(r.error().code, r.error().reason, "%.100s: %.100s", entry.name.c_str(),
                         r.error().what);
      }
    }
  }
  FillWeightsArea(*wanted_, bucket, {bf16, ties}, bytes, state);
  return {};
}

}  // namespace parkade::store
