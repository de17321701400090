// What a training job's state comes to on each rank and node, and what to do where it does not fit.
// Arithmetic alone; no look at any machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace parkade::cli {

// All bytes in units of one; rates in bytes per second; 0: unknown or none, where that makes sense.
struct PlanInput {
  double parameters = 0;
  double expert_share = 0;  // of them, from 0 to 1: those of experts, which EP divides
  double weight_bytes = 2;  // of one parameter
  double gradient_bytes = 2;
  double optimizer_bytes = 12;  // main copy and two moments
  uint32_t tp = 1, pp = 1, dp = 1, ep = 1;
  uint32_t gpus_per_node = 8;
  double hbm = 0;                                  // of a GPU
  double activations = 0;                          // of a rank, while it trains
  double other = 0;                                // HBM that another engine on the same GPU needs
  double host = 0;                                 // of a node
  double disk = 0;                                 // free, of a node
  double link_rate = 50e9;                         // between a GPU and host memory, each way
  double disk_read_rate = 0, disk_write_rate = 0;  // of a node
  double endurance = 0;  // bytes that the node's drives may be written in all
  double steps_per_day = 0;
};

struct PlanFigures {
  uint64_t ranks = 0, nodes = 0, ranks_per_node = 0;
  double weights = 0, gradients = 0, optimizer = 0;  // of a rank
  double state = 0;                                  // the three together
  double resident = 0;  // with activations: what training needs of a GPU at once
  double node_state = 0;

  enum class Way {
    kNone,    // both engines fit beside each other
    kHost,    // one leaves to host memory while the other works
    kDisk,    // the same to disk
    kStream,  // the optimizer's state does not fit even alone: it passes through the GPU in buckets
    kNever,   // not even what has to stay fits
  };
  Way way = Way::kNone;
  std::string why;  // a sentence
  // Time that moving adds to a step, from all at once to one after the other. Negative: a rate that
  // it needs is unknown.
  double least_seconds = 0, most_seconds = 0;
  double written_per_step = 0;  // to a node's drives
  double drive_days = 0;        // until the drives' endurance is used up; 0: unknown or no wear
};

const char* WayName(PlanFigures::Way way);

// Empty, or what is wrong with the input.
std::string CheckPlan(const PlanInput& input);
PlanFigures Plan(const PlanInput& input);

}  // namespace parkade::cli
