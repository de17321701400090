// The progress line: its words, and that it is drawn and cleared around a pause.
#include "cli/progress.h"

#include <catch2/catch.hpp>
#include <streambuf>

#include "common/bytes.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

// A stream that one thread writes and another waits for.
class SharedText : public std::streambuf {
 public:
  // False when `text` has not been written within 10 s.
  bool WaitFor(const std::string& text) {
    const Deadline by = Deadline::InMs(10'000);
    MutexLock lock(mutex_);
    while (text_.find(text) == std::string::npos) {
      if (by.Passed()) return false;
      changed_.WaitUntil(mutex_, by);
    }
    return true;
  }
  std::string Text() {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  int_type overflow(int_type c) override {
    const char byte = char(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* bytes, std::streamsize n) override {
    MutexLock lock(mutex_);
    text_.append(bytes, size_t(n));
    changed_.NotifyAll();
    return n;
  }

  Mutex mutex_;  // innermost
  CondVar changed_;
  std::string text_ GUARDED_BY(mutex_);
};

v1::Process Moving(int32_t pid, uint64_t done, uint64_t total) {
  v1::Process process = MakeProcess(pid, v1::PROCESS_STATE_EVICTING);
  process.mutable_progress()->set_done_bytes(done);
  process.mutable_progress()->set_total_bytes(total);
  process.mutable_progress()->set_bytes_per_second(10e9);
  process.mutable_progress()->mutable_time_left()->set_nanos(100'000'000 * pid);
  return process;
}

}  // namespace

TEST_CASE("the progress line sums processes and takes the longest time left") {
  CHECK(ProgressLine("pausing", {{1, MakeProcess(1, v1::PROCESS_STATE_PREPARING)}}) ==
        "pausing 1 process");
  CHECK(ProgressLine("pausing", {{1, Moving(1, 1_GiB, 4_GiB)}, {2, Moving(2, 2_GiB, 4_GiB)}}) ==
        "pausing 2 processes: 3.00 GiB of 8.00 GiB, 20.0 GB/s, 200 ms left");
}

TEST_CASE("on a terminal a pause draws its progress and clears it before the result") {
  FakeControl daemon;
  v1::Event event;
  event.set_kind(v1::Event::KIND_PROGRESS);
  *event.mutable_process() = Moving(4711, 1_GiB, 8_GiB);
  daemon.events = {event};
  daemon.watch_ends = false;
  SharedText err_text;
  bool drawn = false;
  daemon.before_answer = [&] { drawn = err_text.WaitFor("pausing 1 process: 1.00 GiB of 8.00"); };
  std::ostringstream out;
  std::ostream err(&err_text);
  Terminal terminal{out, err, 0, 120, false};
  CHECK(RunCommandLine({"pause", "4711", daemon.flag()}, terminal) == 0);
  CHECK(drawn);
  CHECK(daemon.watch_request.selector().pids(0) == 4711);
  const std::string text = err_text.Text();
  CHECK(text.substr(text.size() - 4) == "\r\033[K");
}

TEST_CASE("a watch that fails does not fail the pause") {
  FakeControl daemon;
  daemon.watch_error = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no watch");
  std::ostringstream out, err;
  Terminal terminal{out, err, 0, 80, false};
  CHECK(RunCommandLine({"pause", "4711", daemon.flag()}, terminal) == 0);
}

}  // namespace parkade::cli
