// The parts of `parkade report`: each makes one form of a recording.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/chart.h"
#include "cli/recording.h"
#include "cli/table.h"

namespace parkade::cli {

using Recordings = std::vector<Recording>;

// One page with its script, style and data inside, and no address of another page.
void WriteHtml(const Recordings& recordings, std::ostream& out);
// The data of that page; docs/reports.md has its keys.
std::string ReportJson(const Recordings& recordings);
// A picture of all charts of one recording, for a paper.
void WriteSvg(const Recording& recording, std::ostream& out);
// Chrome's trace format, which Perfetto opens.
void WriteTrace(const Recordings& recordings, std::ostream& out);
// Columns time_s, used_gb, available_gb, percent, marker; GB are 10^9 bytes. `of`: "host", "gpus",
// or a GPU's UUID. NOT_FOUND where the recording has no such curve.
absl::Status WriteCsv(const Recording& recording, const std::string& of, std::ostream& out);

// What a tag's bytes were in one tier when phases of a name began and ended, on average.
struct PhaseChange {
  std::string phase;
  std::string tag;
  std::string tier;  // "gpu", "host", "disk"
  size_t times = 0;  // that there was such a phase
  double before = 0;
  double after = 0;
};
std::vector<PhaseChange> PhaseChanges(const Recording& recording);

// One rule that a recording has to hold.
struct Check {
  std::string rule;
  std::string subject;  // the operation
  bool ok = false;
  std::string found;  // with figures
};
// For each pause: the driver showed what it gave back. For each handoff: no GPU held more than the
// larger side, what stays of both, and a margin. For each pause to disk alone: host memory stayed
// flat, `chunk` and 64 MiB.
std::vector<Check> CheckRecording(const Recording& recording, uint64_t chunk);

// What differs between recordings, one row for each figure.
Table CompareTable(const Recordings& recordings);

// What is not in a phase of that name is left out. False where there is none.
bool KeepPhase(const std::string& name, Recording& recording);

double SecondsOf(const v1::Operation& operation);

}  // namespace parkade::cli
