// Follows the selected processes on a thread of its own and redraws one line.
#include "cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

constexpr char kClearLine[] = "\r\033[K";

double Seconds(const google::protobuf::Duration& d) {
  return double(d.seconds()) + d.nanos() * 1e-9;
}

}  // namespace

std::string ProgressLine(const std::string& doing,
                         const std::map<int32_t, v1::Process>& processes) {
  v1::Progress sum;
  double left = 0;
  for (const auto& [pid, process] : processes) {
    const v1::Progress& progress = process.progress();
    sum.set_done_bytes(sum.done_bytes() + progress.done_bytes());
    sum.set_total_bytes(sum.total_bytes() + progress.total_bytes());
    sum.set_bytes_per_second(sum.bytes_per_second() + progress.bytes_per_second());
    left = std::max(left, Seconds(progress.time_left()));
  }
  const size_t count = processes.size();
  std::string line = absl::StrCat(doing, " ", count, count == 1 ? " process" : " processes");
  if (sum.total_bytes() == 0) return line;
  if (left > 0) {
    sum.mutable_time_left()->set_seconds(int64_t(left));
    sum.mutable_time_left()->set_nanos(int32_t((left - double(int64_t(left))) * 1e9));
  }
  return absl::StrCat(line, ": ", FormatProgress(sum));
}

Progress::Progress(Client& client, const v1::Selector& selector, std::string doing,
                   Terminal& terminal)
    : doing_(std::move(doing)), terminal_(terminal) {
  if (terminal.err_columns == 0) return;
  v1::WatchRequest request;
  *request.mutable_selector() = selector;
  events_ = client.Watch(request);
  thread_ = std::thread([this] { Draw(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  events_->Cancel();
  thread_.join();
  terminal_.err << kClearLine << std::flush;
}

void Progress::Draw() {
  v1::Event event;
  while (events_->Next(&event)) {
    const int32_t pid = event.process().pid();
    if (event.kind() == v1::Event::KIND_GONE) {
      processes_.erase(pid);
    } else {
      processes_[pid] = event.process();
    }
    // A line that wraps could not be cleared.
    const std::string line = ProgressLine(doing_, processes_);
    terminal_.err << kClearLine << line.substr(0, terminal_.err_columns - 1) << std::flush;
  }
  (void)events_->Finish();
}

}  // namespace parkade::cli
