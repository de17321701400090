// `parkade plan`: what a training job's state comes to, and whether it has to leave the GPU.
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/plan_figures.h"
#include "cli/read.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "common/bytes.h"

namespace parkade::cli {
namespace {

// Bytes of one element.
const std::map<std::string, double> kTypes = {
    {"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"none", 0}};

struct PlanOptions {
  PlanInput input;
  std::string params, hbm, host, disk, activations, other, endurance;
  std::string weights = "bf16", gradients = "bf16", main = "fp32", moments = "fp32";
  double link_gbps = 50, read_gbps = 0, write_gbps = 0;
  bool measured = false;
};

// "744B", "7.5e9": decimal, with K, M, B or T.
double ReadCount(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !(number > 0)) return 0;
  if (at == end) return number;
  constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [unit, times] : kUnits) {
    if (*at == unit && at + 1 == end) return number * times;
  }
  return 0;
}

// Sizes that are not given and a node's daemon knows.
absl::Status Measure(const PlanOptions& options, const Context& context, PlanInput& input) {
  const auto node = Client(context.globals).GetNode();
  if (!node.ok()) return node.status();
  if (options.hbm.empty() && node->gpus_size() != 0)
    input.hbm = double(node->gpus(0).total_bytes());
  if (options.host.empty()) input.host = double(node->host_total_bytes());
  double disk = 0, read = 0, write = 0;
  for (const auto& base : node->scratch_bases()) {
    if (!base.usable()) continue;
    disk += double(base.free_bytes());
    read += base.read_gbps() * 1e9;
    write += base.write_gbps() * 1e9;
  }
  if (options.disk.empty()) input.disk = disk;
  if (options.read_gbps == 0) input.disk_read_rate = read;
  if (options.write_gbps == 0) input.disk_write_rate = write;
  return absl::OkStatus();
}

absl::StatusOr<PlanInput> ReadInput(const PlanOptions& options, const Context& context) {
  PlanInput input = options.input;
  input.parameters = ReadCount(options.params);
  input.weight_bytes = kTypes.at(options.weights);
  input.gradient_bytes = kTypes.at(options.gradients);
  input.optimizer_bytes = kTypes.at(options.main) + 2 * kTypes.at(options.moments);
  for (const auto& [text, bytes] :
       {std::pair(&options.hbm, &input.hbm), std::pair(&options.host, &input.host),
        std::pair(&options.disk, &input.disk), std::pair(&options.activations, &input.activations),
        std::pair(&options.other, &input.other), std::pair(&options.endurance, &input.endurance)}) {
    if (!text->empty()) *bytes = double(*ParseBytes(*text));
  }
  input.link_rate = options.link_gbps * 1e9;
  input.disk_read_rate = options.read_gbps * 1e9;
  input.disk_write_rate = options.write_gbps * 1e9;
  if (options.measured) {
    if (auto s = Measure(options, context, input); !s.ok()) return s;
  }
  const std::string wrong = CheckPlan(input);
  if (!wrong.empty()) return UsageError(wrong);
  return input;
}

std::string Size(double bytes) {
  return absl::StrFormat("%.4g GB (%s)", bytes / 1e9, FormatBytes(uint64_t(bytes)));
}

std::string StepTime(const PlanFigures& f) {
  if (f.least_seconds < 0) return "unknown: give --disk-read and --disk-write, or --measured";
  if (f.most_seconds == 0) return "0 s";
  return absl::StrCat(FormatSeconds(f.least_seconds), " to ", FormatSeconds(f.most_seconds));
}

void PrintTable(const PlanInput& input, const PlanFigures& f, Terminal& terminal) {
  Table table;
  table.AddColumn("FIGURE");
  table.AddColumn("VALUE");
  const auto add = [&](const char* name, std::string value) {
    table.AddRow({name, std::move(value)});
  };
  add("ranks", absl::StrFormat("%d on %d nodes (TP %d x PP %d x DP %d, EP %d)", f.ranks, f.nodes,
                               input.tp, input.pp, input.dp, input.ep));
  add("weights per rank", Size(f.weights));
  add("gradients per rank", Size(f.gradients));
  add("optimizer per rank", Size(f.optimizer));
  add("state per rank", Size(f.state));
  add("state per node", Size(f.node_state));
  add("needed", WayName(f.way));
  add("because", f.why);
  add("added to a step", StepTime(f));
  if (f.written_per_step > 0) add("written per step and node", Size(f.written_per_step));
  if (f.drive_days > 0) add("drives last", absl::StrFormat("%.0f days", f.drive_days));
  table.Print(terminal.out, 0, terminal.colour);
}

std::string PlanJson(const PlanFigures& f) {
  const auto known = [](double value) {
    return value < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return nlohmann::ordered_json{
      {"schema_version", kSchemaVersion},
      {"ranks", f.ranks},
      {"nodes", f.nodes},
      {"weight_bytes_per_rank", uint64_t(f.weights)},
      {"gradient_bytes_per_rank", uint64_t(f.gradients)},
      {"optimizer_bytes_per_rank", uint64_t(f.optimizer)},
      {"state_bytes_per_rank", uint64_t(f.state)},
      {"state_bytes_per_node", uint64_t(f.node_state)},
      {"needed", WayName(f.way)},
      {"because", f.why},
      {"least_seconds_per_step", known(f.least_seconds)},
      {"most_seconds_per_step", known(f.most_seconds)},
      {"written_bytes_per_step_and_node", uint64_t(f.written_per_step)},
      {"drive_days", f.drive_days == 0 ? nlohmann::ordered_json() : known(f.drive_days)}}
      .dump(2);
}

int Run(const PlanOptions& options, const Context& context) {
  const auto input = ReadInput(options, context);
  if (!input.ok()) return context.Fail("plan", input.status());
  const PlanFigures figures = Plan(*input);
  if (context.json()) {
    context.terminal.out << PlanJson(figures) << '\n';
  } else {
    PrintTable(*input, figures, context.terminal);
  }
  return figures.way == PlanFigures::Way::kNever ? kExitResources : kExitOk;
}

}  // namespace

void AddPlan(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "plan", "What a training job's state comes to, and whether it has to leave the GPU");
  auto options = std::make_shared<PlanOptions>();
  const auto count = CLI::Range(1, 1 << 20);
  verb->add_option("--params", options->params, "Parameters, such as 744B")
      ->required()
      ->type_name("COUNT");
  verb->add_option("--expert-share", options->input.expert_share,
                   "Of the parameters, those of experts")
      ->type_name("0..1");
  const auto add_type = [&](const char* name, std::string& type, const char* about) {
    verb->add_option(name, type, about)
        ->type_name("TYPE")
        ->check(CLI::IsMember(kTypes))
        ->capture_default_str();
  };
  add_type("--weights", options->weights, "Type of weights");
  add_type("--gradients", options->gradients, "Type of gradients");
  add_type("--main", options->main, "Type of the optimizer's main weights");
  add_type("--moments", options->moments, "Type of its two moments");
  const auto add_count = [&](const char* name, uint32_t& number, const char* about) {
    verb->add_option(name, number, about)->type_name("N")->check(count)->capture_default_str();
  };
  add_count("--tp", options->input.tp, "Tensor parallel ranks");
  add_count("--pp", options->input.pp, "Pipeline stages");
  add_count("--dp", options->input.dp,
            "Data parallel ranks, over which the optimizer is distributed");
  add_count("--ep", options->input.ep, "Expert parallel ranks");
  add_count("--gpus-per-node", options->input.gpus_per_node, "GPUs of a node");
  const auto add_size = [&](const char* name, std::string& text, const char* about) {
    verb->add_option(name, text, about)->type_name("SIZE")->check(IsSize(1, uint64_t(1) << 60));
  };
  add_size("--hbm", options->hbm, "Memory of a GPU");
  add_size("--activations", options->activations, "HBM of a rank beside its state while it trains");
  add_size("--other", options->other, "HBM that another engine on the same GPU needs");
  add_size("--host", options->host, "Host memory of a node");
  add_size("--disk", options->disk, "Free disk space of a node");
  add_size("--endurance", options->endurance,
           "What a node's drives may be written in all, for their wear");
  const auto rate = CLI::Range(0.0, 1e6);
  const auto add_rate = [&](const char* name, double& gbps, const char* about) {
    verb->add_option(name, gbps, about)->type_name("GB/s")->check(rate);
  };
  add_rate("--link", options->link_gbps, "Between a GPU and host memory, each way (50)");
  add_rate("--disk-read", options->read_gbps, "Of a node's disks together");
  add_rate("--disk-write", options->write_gbps, "Of a node's disks together");
  verb->add_option("--steps-per-day", options->input.steps_per_day, "For the drives' wear")
      ->type_name("N")
      ->check(CLI::Range(0.0, 1e9));
  verb->add_flag("--measured", options->measured,
                 "HBM, host memory, disk space and rates that are not given are this node's");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Run(*options, context); };
  });
}

}  // namespace parkade::cli
