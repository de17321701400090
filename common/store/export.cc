// Writes a checkpoint's parameters as whole tensors.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/store/import_export.h"
#include "common/store/reshard.h"

namespace parkade::store {
namespace {

// In fp32; without what has no values.
std::vector<Segment> PlainSegments(const Checkpoint& checkpoint) {
  std::vector<Segment> segments;
  for (const Segment& segment : checkpoint.manifests()[0].layout.segments()) {
    if (segment.encoding != Encoding::kRaw) segments.push_back({segment.name, Encoding::kFp32});
  }
  return segments;
}

std::string TensorName(const Entry& entry, const Layout& layout, size_t segment) {
  return segment == 0 ? entry.name : entry.name + "." + layout.segments()[segment].name;
}

Result<void> WriteAll(const Checkpoint& checkpoint, const Layout& layout, const std::string& path) {
  auto plan = Resharding::Plan(checkpoint, layout, Conversion::kAllow);
  if (!plan.ok()) return plan.error();
  TensorHeader header;
  header.metadata["step"] = std::to_string(checkpoint.step());
  for (const Entry& entry : layout.entries()) {
    for (size_t i = 0; i < layout.segments().size(); ++i) {
      const std::string name = TensorName(entry, layout, i);
      if (!header.tensors.emplace(name, Tensor{TensorType::kF32, entry.global_shape}).second) {
        return MakeError(Code::kInvalidArgument, "DUPLICATE_NAME",
                         "%.150s: a parameter of the name of another's moment", name.c_str());
      }
    }
  }
  auto file = TensorFile::Create(path, std::move(header));
  if (!file.ok()) return file.error();
  std::vector<uint8_t> bytes;
  std::vector<float> values;
  for (uint32_t index = 0; index < layout.buckets().size(); ++index) {
    const Bucket& bucket = layout.buckets()[index];
    BucketState state;
    if (auto r = plan->MakeBucket(index, bytes, state); !r.ok()) return r;
    for (size_t i = 0; i < layout.segments().size(); ++i) {
      values.resize(bucket.numel);
      Decode(layout.segments()[i], bytes.data() + bucket.segments[i].offset, bucket.numel,
             {0, bucket.numel}, {}, values.data());
      for (const Piece& piece : bucket.pieces) {
        const std::string name = TensorName(layout.entries()[piece.entry], layout, i);
        if (auto r = file->Write(file->header().tensors.at(name), piece.param_begin, piece.numel(),
                                 &values[piece.position]);
            !r.ok()) {
          return r;
        }
      }
    }
  }
  return file->Sync();
}

}  // namespace

Result<void> ExportTensors(const Checkpoint& checkpoint, const std::string& path) {
  auto layout = WholeLayout(checkpoint, PlainSegments(checkpoint));
  if (!layout.ok()) return layout.error();
  const std::string temporary = path + ".tmp";
  // Of an export that was cut short.
  unlink(temporary.c_str());
  auto r = WriteAll(checkpoint, *layout, temporary);
  // A link, which refuses where a rename would replace.
  if (r.ok() && link(temporary.c_str(), path.c_str()) != 0) {
    r = errno == EEXIST ? MakeError(Code::kAlreadyExists, "FILE_EXISTS", "%s", path.c_str())
                        : OsError(errno, "%s: link", path.c_str());
  }
  unlink(temporary.c_str());
  return r;
}

}  // namespace parkade::store
