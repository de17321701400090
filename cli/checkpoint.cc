// `parkade checkpoint`: what optimizer stores have saved in a directory. It asks no daemon.
#include "cli/checkpoint.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "common/store/import_export.h"

namespace parkade::cli {
namespace {

using store::Checkpoint;
using store::Generation;
using store::Segment;

struct CheckpointOptions {
  std::string directory, to;
  std::optional<uint64_t> step;
  std::vector<std::string> encodings;  // "exp_avg=bf16"
  uint64_t bucket_elements = 0;
  uint32_t keep = 0;
};

absl::Status StatusOf(const Error& error) {
  return MakeStatus(absl::StatusCode(error.code), error.what, error.reason);
}

// The checkpoint that the options name: of a step, or the newest complete one.
Result<Checkpoint> OpenOne(const CheckpointOptions& options) {
  if (options.step) return Checkpoint::Open(options.directory, *options.step);
  auto found = store::ListGenerations(options.directory);
  if (!found.ok()) return found.error();
  for (auto one = found->rbegin(); one != found->rend(); ++one) {
    if (one->complete) return Checkpoint::Open(options.directory, one->step);
  }
  return MakeError(Code::kNotFound, "NO_CHECKPOINT", "%.150s: no complete checkpoint",
                   options.directory.c_str());
}

int List(const CheckpointOptions& options, const Context& context) {
  const std::string what = absl::StrCat("checkpoint ls ", options.directory);
  auto found = store::ListGenerations(options.directory);
  if (!found.ok()) return context.Fail(what, StatusOf(found.error()));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  Table table;
  for (const char* name : {"STEP", "RANKS", "PARAMETERS", "ELEMENTS", "SIZE"}) {
    table.AddColumn(name, Table::Align::kRight);
  }
  for (const char* name : {"STATE", "ENCODINGS"}) table.AddColumn(name);
  int code = kExitOk;
  for (const Generation& one : *found) {
    const CheckpointFigures figures = FiguresOf(options.directory, one);
    if (!figures.problem.ok()) code = ExitCodeOf(figures.problem);
    all.push_back(ToJson(figures));
    table.AddRow({absl::StrCat(one.step), absl::StrCat(figures.ranks),
                  absl::StrCat(figures.parameters), absl::StrCat(figures.elements),
                  FormatBytes(figures.bytes), Printable(figures.state),
                  Printable(figures.encodings)});
  }
  if (context.json()) {
    nlohmann::ordered_json document{{"schema_version", kSchemaVersion}, {"checkpoints", all}};
    context.terminal.out << document.dump(2) << '\n';
  } else {
    table.Print(context.terminal.out, context.wide() ? 0 : context.terminal.out_columns,
                context.terminal.colour);
  }
  return code;
}

int Verify(const CheckpointOptions& options, const Context& context) {
  const std::string what = absl::StrCat("checkpoint verify ", options.directory);
  const auto checkpoint = OpenOne(options);
  if (!checkpoint.ok()) return context.Fail(what, StatusOf(checkpoint.error()));
  if (auto r = checkpoint->Verify(); !r.ok()) return context.Fail(what, StatusOf(r.error()));
  context.terminal.out << "step " << checkpoint->step() << " is whole: every byte of "
                       << checkpoint->manifests().size() << " ranks is what was saved\n";
  return kExitOk;
}

int Export(const CheckpointOptions& options, const Context& context) {
  const std::string what = absl::StrCat("checkpoint export ", options.directory);
  const auto checkpoint = OpenOne(options);
  if (!checkpoint.ok()) return context.Fail(what, StatusOf(checkpoint.error()));
  auto exported = store::ExportTensors(*checkpoint, options.to);
  if (!exported.ok()) return context.Fail(what, StatusOf(exported.error()));
  context.terminal.out << "step " << checkpoint->step() << " is in " << Printable(options.to)
                       << '\n';
  return kExitOk;
}

// The segments of the checkpoint, in the encodings that the options name instead.
Result<std::vector<Segment>> WantedSegments(const CheckpointOptions& options,
                                            const Checkpoint& checkpoint) {
  std::vector<Segment> segments = checkpoint.manifests()[0].layout.segments();
  for (const std::string& text : options.encodings) {
    const std::pair<std::string, std::string> named = absl::StrSplit(text, absl::MaxSplits('=', 1));
    Segment* wanted = nullptr;
    for (Segment& segment : segments) {
      if (segment.name == named.first) wanted = &segment;
    }
    if (wanted == nullptr) {
      return MakeError(Code::kInvalidArgument, "NO_SEGMENT", "%.100s: there is no such segment",
                       named.first.c_str());
    }
    auto encoding = store::ParseEncoding(named.second, named.first);
    if (!encoding.ok()) return encoding.error();
    wanted->encoding = *encoding;
  }
  return segments;
}

Result<uint64_t> ConvertOne(const CheckpointOptions& options) {
  const auto checkpoint = OpenOne(options);
  if (!checkpoint.ok()) return checkpoint.error();
  auto segments = WantedSegments(options, *checkpoint);
  if (!segments.ok()) return segments.error();
  auto layout = store::WholeLayout(*checkpoint, std::move(*segments), options.bucket_elements);
  if (!layout.ok()) return layout.error();
  auto converted = store::ConvertCheckpoint(*checkpoint, *layout, options.to);
  if (!converted.ok()) return converted.error();
  return checkpoint->step();
}

int Convert(const CheckpointOptions& options, const Context& context) {
  const auto step = ConvertOne(options);
  if (!step.ok()) {
    return context.Fail(absl::StrCat("checkpoint convert ", options.directory),
                        StatusOf(step.error()));
  }
  context.terminal.out << "step " << *step << " is in " << Printable(options.to) << '\n';
  return kExitOk;
}

int Prune(const CheckpointOptions& options, const Context& context) {
  const auto removed = store::PruneGenerations(options.directory, options.keep);
  if (!removed.ok()) {
    return context.Fail(absl::StrCat("checkpoint prune ", options.directory),
                        StatusOf(removed.error()));
  }
  context.terminal.out << *removed << " removed\n";
  return kExitOk;
}

// One of the verbs below, with the options that all have.
CLI::App* Add(CLI::App& verb, Context& context, const char* name, const char* description,
              const std::shared_ptr<CheckpointOptions>& options,
              int (*run)(const CheckpointOptions&, const Context&)) {
  CLI::App* one = verb.add_subcommand(name, description);
  one->add_option("DIRECTORY", options->directory, "That checkpoints were saved in")
      ->required()
      ->check(CLI::ExistingDirectory);
  one->callback([&context, options, run] {
    context.verb = [&context, options, run] { return run(*options, context); };
  });
  return one;
}

void AddStep(CLI::App* verb, const std::shared_ptr<CheckpointOptions>& options) {
  verb->add_option("--step", options->step, "Of the checkpoint; otherwise the newest complete one");
}

}  // namespace

void AddCheckpoint(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("checkpoint", "Looks at, checks and converts what optimizer stores saved");
  verb->require_subcommand(1);
  const auto options = std::make_shared<CheckpointOptions>();
  Add(*verb, context, "ls", "Lists the checkpoints in a directory", options, List);
  AddStep(Add(*verb, context, "verify", "Reads every byte and compares it with what was saved",
              options, Verify),
          options);
  CLI::App* exports = Add(*verb, context, "export",
                          "Writes all parameters whole into a safetensors file", options, Export);
  exports->add_option("FILE", options->to, "To write, which is not there yet")->required();
  AddStep(exports, options);
  CLI::App* converts =
      Add(*verb, context, "convert", "Writes it anew: one rank, other encodings or buckets",
          options, Convert);
  converts->add_option("TO", options->to, "The directory to write into")
      ->required()
      ->check(CLI::ExistingDirectory);
  converts->add_option("--encoding", options->encodings, "SEGMENT=ENCODING, such as exp_avg=bf16");
  converts->add_option("--bucket-elements", options->bucket_elements,
                       "Elements of a bucket; otherwise as suits");
  AddStep(converts, options);
  CLI::App* prunes = Add(*verb, context, "prune",
                         "Removes old checkpoints, and what was never completed", options, Prune);
  prunes->add_option("--keep", options->keep, "How many complete ones stay")
      ->required()
      ->check(CLI::Range(1u, 1'000'000u));
}

}  // namespace parkade::cli
