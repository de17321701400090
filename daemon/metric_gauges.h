// The metrics that are figures of one moment, as Prometheus' own messages.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "daemon/budgets.h"
#include "daemon/node_sample.h"

namespace parkade::daemon {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

// Of the node's memory. Processes of one set of labels are added up: no label is a pid.
void AddNodeGauges(const NodeSample& sample, const std::vector<Budgets::Entry>& budgets,
                   MetricFamilies& to);

// The standard ones of this process: CPU, memory, descriptors, start.
void AddProcessGauges(MetricFamilies& to);

}  // namespace parkade::daemon
