// Lays out bars, rows and keys.
#include "cli/top_screen.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/format.h"
#include "cli/operation.h"
#include "cli/table.h"

namespace parkade::cli {
namespace {

constexpr char kReset[] = "\033[0m";
constexpr size_t kLeastBar = 10;  // shorter, and shares of a tenth do not show
constexpr const char* kBarColours[] = {"\033[44m", "\033[42m", "\033[45m",
                                       "\033[46m", "\033[43m", "\033[41m"};

// What a row of a process has room for.
struct Columns {
  size_t labels;  // 0: none
  bool tiers;     // host memory and disk beside HBM
  bool command;
};

Columns ColumnsFor(size_t width) {
  if (width > 110) return {34, true, true};
  if (width >= 60) return {16, true, false};
  return {0, false, false};
}

// A process's letter in bars and rows: a to z, then again.
char LetterOf(size_t index) { return char('a' + index % 26); }

std::string Cut(const std::string& text, size_t width) {
  size_t columns = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && columns++ == width) break;
  }
  return text.substr(0, at);
}

std::string Padded(const std::string& text, size_t width) {
  const std::string cut = Cut(text, width);
  return cut + std::string(width - std::min(width, DisplayWidth(cut)), ' ');
}

// One share of a bar.
struct Share {
  char letter;
  size_t colour;  // index of kBarColours; none for what nobody manages
  uint64_t bytes;
};

std::string Bar(const std::vector<Share>& shares, uint64_t total, size_t width, bool colour) {
  std::string bar;
  uint64_t below = 0;
  size_t drawn = 0;
  for (const Share& share : shares) {
    below += share.bytes;
    // Rounded on the sum, so that the bar is as long as what is used.
    const size_t until = std::min(
        width, size_t(double(below) / double(std::max<uint64_t>(total, 1)) * double(width) + 0.5));
    if (until <= drawn) continue;
    const std::string part(until - drawn, share.letter);
    const bool painted = colour && share.letter != '+';
    absl::StrAppend(&bar, painted ? kBarColours[share.colour] : "", part, painted ? kReset : "");
    drawn = until;
  }
  return bar + std::string(width - drawn, '.');
}

uint64_t HbmOn(const v1::Process& process, const std::string& uuid) {
  uint64_t bytes = 0;
  for (const auto& device : process.devices()) {
    if (uuid.empty() || device.gpu_uuid() == uuid)
      bytes += device.resident_bytes() + device.foreign_bytes();
  }
  return bytes;
}

std::vector<std::string> GpuLines(const TopView& view, size_t width, bool colour) {
  std::vector<std::string> lines;
  for (int i = 0; i < view.node.gpus_size(); ++i) {
    const v1::Gpu& gpu = view.node.gpus(i);
    const uint64_t used = gpu.total_bytes() - std::min(gpu.free_bytes(), gpu.total_bytes());
    std::vector<Share> shares;
    uint64_t managed = 0;
    for (size_t p = 0; p < view.processes.size(); ++p) {
      const uint64_t bytes = HbmOn(view.processes[p], gpu.uuid());
      if (bytes == 0) continue;
      shares.push_back({LetterOf(p), p % std::size(kBarColours), bytes});
      managed += bytes;
    }
    shares.push_back({'+', 0, used - std::min(used, managed)});
    const std::string head = absl::StrFormat("gpu %-2d ", i);
    const std::string words =
        absl::StrFormat(" %9s of %-9s", FormatBytes(used), FormatBytes(gpu.total_bytes()));
    // Where a bar beside all of that would be too short to read, the total goes.
    const std::string tail = width >= head.size() + words.size() + 2 + kLeastBar
                                 ? words
                                 : absl::StrFormat(" %9s", FormatBytes(used));
    const size_t beside = head.size() + tail.size() + 2;
    if (width <= beside) {
      lines.push_back(Cut(head + tail, width));
      continue;
    }
    const std::string bar = Bar(shares, gpu.total_bytes(), width - beside, colour);
    lines.push_back(absl::StrCat(head, "[", bar, "]", tail));
  }
  if (lines.empty()) {
    lines.push_back(
        Cut(absl::StrCat("no figures of GPUs: ", Printable(view.node.gpu_source())), width));
  }
  return lines;
}

std::string HeadLine(const Columns& columns) {
  std::string line = absl::StrFormat("    %8s  ", "PID");
  if (columns.labels != 0) absl::StrAppend(&line, Padded("JOB/ROLE/RANK", columns.labels), "  ");
  absl::StrAppendFormat(&line, "%-12s  %9s", "STATE", "HBM");
  if (columns.tiers) absl::StrAppendFormat(&line, "  %9s  %9s", "HOST", "DISK");
  if (columns.command) absl::StrAppend(&line, "  COMMAND");
  return line;
}

std::string ProcessLine(const TopView& view, size_t index, size_t width, bool colour) {
  const v1::Process& process = view.processes[index];
  const bool selected = index == view.selected;
  const Columns columns = ColumnsFor(width);
  std::string line =
      absl::StrFormat("%s %c %8d  ", selected ? ">" : " ", LetterOf(index), process.pid());
  if (columns.labels != 0) {
    absl::StrAppend(&line, Padded(Printable(Labels(process)), columns.labels), "  ");
  }
  absl::StrAppendFormat(&line, "%-12s  %9s", StateName(process.state()),
                        FormatBytes(HbmOn(process, "")));
  if (columns.tiers) {
    absl::StrAppendFormat(&line, "  %9s  %9s", FormatBytes(process.host_backup_bytes()),
                          FormatBytes(process.disk_backup_bytes()));
  }
  if (columns.command) absl::StrAppend(&line, "  ", Printable(process.command()));
  line = Cut(line, width);
  return selected && colour ? absl::StrCat("\033[7m", Padded(line, width), kReset) : line;
}

std::string OperationLine(const v1::Operation& operation, size_t width) {
  std::string pids;
  for (int i = 0; i < std::min(operation.pids_size(), 4); ++i)
    absl::StrAppend(&pids, i == 0 ? "" : ",", operation.pids(i));
  if (operation.pids_size() > 4) absl::StrAppend(&pids, ",...");
  return Cut(absl::StrFormat("  %s %s of %s: %s", OperationKindName(operation.kind()),
                             operation.id(), pids, OutcomeOf(operation)),
             width);
}

}  // namespace

std::vector<std::string> TopScreen(const TopView& view, size_t width, size_t height, bool colour) {
  std::vector<std::string> lines;
  const auto dim = [&](const std::string& text) {
    return Paint(Cut(text, width), Colour::kDim, colour);
  };
  uint64_t disk_free = 0;
  for (const auto& base : view.node.scratch_bases()) disk_free += base.free_bytes();
  lines.push_back(
      Cut(absl::StrFormat("parkade  %s  %d processes  free: host %s of %s, disk %s", view.time,
                          view.processes.size(), FormatBytes(view.node.host_available_bytes()),
                          FormatBytes(view.node.host_total_bytes()), FormatBytes(disk_free)),
          width));
  for (std::string& line : GpuLines(view, width, colour)) lines.push_back(std::move(line));

  std::vector<std::string> moves;
  for (const auto& operation : view.running) moves.push_back(OperationLine(operation, width));
  const size_t most_moves = std::max<size_t>(3, height / 5);
  if (moves.size() > most_moves) {
    const size_t more = moves.size() - most_moves + 1;
    moves.resize(most_moves - 1);
    moves.push_back(Cut(absl::StrCat("  and ", more, " more"), width));
  }
  lines.push_back("");
  lines.push_back(dim(HeadLine(ColumnsFor(width))));
  // What stands below: a blank, the moves with their head, the message and the keys.
  const size_t below = 3 + (moves.empty() ? 0 : moves.size() + 2);
  const size_t room = height > lines.size() + below ? height - lines.size() - below : 1;
  const size_t count = view.processes.size();
  const size_t first =
      count <= room ? 0 : std::min(count - room, view.selected - std::min(view.selected, room / 2));
  for (size_t i = first; i < std::min(count, first + room); ++i) {
    lines.push_back(ProcessLine(view, i, width, colour));
  }
  if (count == 0) lines.push_back(Cut("  no process runs under Parkade yet", width));
  if (!moves.empty()) {
    lines.push_back("");
    lines.push_back(dim("  MOVES"));
    lines.insert(lines.end(), moves.begin(), moves.end());
  }
  lines.resize(std::min(lines.size(), height > 2 ? height - 2 : 0));
  while (lines.size() + 2 < height) lines.push_back("");
  lines.push_back(Cut(Printable(view.message), width));
  lines.push_back(
      dim("up/down select  p pause  d pause to disk  r resume  q quit  +: not managed"));
  return lines;
}

}  // namespace parkade::cli
