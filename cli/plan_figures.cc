// Divides, adds and compares.
#include "cli/plan_figures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

using Way = PlanFigures::Way;

constexpr double kHostKept = 0.05;  // of host memory, for everything else; as the daemon keeps it

double Seconds(double bytes, double rate) { return rate > 0 ? bytes / rate : -1; }

// `out` and `in` at once at best, one after the other at worst.
void SetSeconds(double out, double in, PlanFigures& figures) {
  const bool known = out >= 0 && in >= 0;
  figures.least_seconds = known ? std::max(out, in) : -1;
  figures.most_seconds = known ? out + in : -1;
}

std::string Size(double bytes) { return FormatBytes(uint64_t(bytes)); }

void ChooseWay(const PlanInput& input, PlanFigures& figures) {
  const double stays = figures.resident - figures.optimizer;
  if (figures.resident + input.other <= input.hbm) {
    figures.way = Way::kNone;
    figures.why = absl::StrCat("all of it fits in ", Size(input.hbm), " of HBM");
  } else if (figures.resident <= input.hbm && input.other <= input.hbm) {
    const double room = input.host * (1 - kHostKept);
    const bool host = figures.node_state <= room;
    const bool disk = figures.node_state <= input.disk;
    figures.way = host ? Way::kHost : disk ? Way::kDisk : Way::kNever;
    figures.why = absl::StrCat("each engine fits alone, and ", Size(figures.node_state),
                               " of a node's training state ",
                               host   ? "fit in host memory"
                               : disk ? "fit on its disks, not in host memory"
                                      : "fit neither in host memory nor on its disks");
  } else if (stays <= input.hbm && std::max(input.host * (1 - kHostKept), input.disk) >=
                                       figures.optimizer * double(figures.ranks_per_node)) {
    figures.way = Way::kStream;
    figures.why =
        absl::StrCat("training needs ", Size(figures.resident), " of each GPU's ", Size(input.hbm),
                     "; without the optimizer's state it needs ", Size(stays));
  } else {
    figures.way = Way::kNever;
    figures.why = stays > input.hbm
                      ? absl::StrCat("weights, gradients and activations alone need ", Size(stays),
                                     " of each GPU's ", Size(input.hbm), ": more ranks")
                      : "the optimizer's state fits neither in host memory nor on the disks";
  }
}

}  // namespace

const char* WayName(Way way) {
  switch (way) {
    case Way::kNone:
      return "none";
    case Way::kHost:
      return "pause to host";
    case Way::kDisk:
      return "pause to disk";
    case Way::kStream:
      return "streaming";
    case Way::kNever:
      return "does not fit";
  }
  return "";
}

std::string CheckPlan(const PlanInput& input) {
  if (input.parameters < 1) return "--params must be a number of parameters, such as 744B";
  if (input.expert_share < 0 || input.expert_share > 1) return "--expert-share is from 0 to 1";
  if (input.hbm < 1) return "say how much HBM a GPU has (--hbm 141G), or --measured";
  if (input.ep > input.tp * input.dp) {
    return absl::StrCat("--ep ", input.ep, " is more than TP x DP = ", input.tp * input.dp,
                        ", over which experts are spread");
  }
  return "";
}

PlanFigures Plan(const PlanInput& input) {
  PlanFigures figures;
  figures.ranks = uint64_t(input.tp) * input.pp * input.dp;
  figures.ranks_per_node = std::min<uint64_t>(figures.ranks, input.gpus_per_node);
  figures.nodes = (figures.ranks + figures.ranks_per_node - 1) / figures.ranks_per_node;
  const double dense = input.parameters * (1 - input.expert_share);
  const double experts = input.parameters - dense;
  const double held = dense / (double(input.tp) * input.pp) +
                      experts / (double(input.pp) * std::max(input.ep, input.tp));
  figures.weights = held * input.weight_bytes;
  figures.gradients = held * input.gradient_bytes;
  // The distributed optimizer has each parameter's state on one rank.
  figures.optimizer = input.parameters * input.optimizer_bytes / double(figures.ranks);
  figures.state = figures.weights + figures.gradients + figures.optimizer;
  figures.resident = figures.state + input.activations;
  figures.node_state = figures.state * double(figures.ranks_per_node);
  ChooseWay(input, figures);

  const double ranks = double(figures.ranks_per_node);
  switch (figures.way) {
    case Way::kNone:
    case Way::kNever:
      break;
    case Way::kHost:
      SetSeconds(Seconds(figures.state, input.link_rate), Seconds(figures.state, input.link_rate),
                 figures);
      break;
    case Way::kDisk:
      SetSeconds(Seconds(figures.node_state, input.disk_write_rate),
                 Seconds(figures.node_state, input.disk_read_rate), figures);
      figures.written_per_step = figures.node_state;
      break;
    case Way::kStream: {
      const double bytes = figures.optimizer * ranks;
      if (bytes <= input.host * (1 - kHostKept)) {
        SetSeconds(Seconds(figures.optimizer, input.link_rate),
                   Seconds(figures.optimizer, input.link_rate), figures);
      } else {
        SetSeconds(Seconds(bytes, input.disk_write_rate), Seconds(bytes, input.disk_read_rate),
                   figures);
        figures.written_per_step = bytes;
      }
      break;
    }
  }
  const double per_day = figures.written_per_step * input.steps_per_day;
  if (per_day > 0 && input.endurance > 0) figures.drive_days = input.endurance / per_day;
  return figures;
}

}  // namespace parkade::cli
