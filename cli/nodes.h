// NodesOf: which nodes a job has, from a file, from Slurm or from Kubernetes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parkade::cli {

// `where`: a file with one "host" or "host:port" a line and "#" before remarks; "slurm:JOB", by
// squeue and scontrol; "k8s:SELECTOR", the addresses of the pods with these labels, by kubectl. In
// the order found, each once, as "host:port" with `port` for those that have none. INVALID_ARGUMENT
// for a file that cannot be read, no node at all, or one without a port where `port` is 0;
// UNAVAILABLE when Slurm or Kubernetes do not answer.
absl::StatusOr<std::vector<std::string>> NodesOf(const std::string& where, int port);

}  // namespace parkade::cli
