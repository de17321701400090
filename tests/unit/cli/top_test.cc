// The picture of `parkade top`, and what it prints where there is no terminal.
#include <algorithm>
#include <catch2/catch.hpp>

#include "cli/table.h"
#include "cli/top_screen.h"
#include "tests/unit/cli/fake_control.h"

namespace parkade::cli {
namespace {

constexpr uint64_t kGiB = uint64_t(1) << 30;

// A GPU of 80 GiB with 60 in use, 40 of them by that many processes.
TopView Node(int processes) {
  TopView view;
  auto* gpu = view.node.add_gpus();
  gpu->set_uuid("GPU-a");
  gpu->set_total_bytes(80 * kGiB);
  gpu->set_free_bytes(20 * kGiB);
  view.time = "12:00:00";
  for (int i = 0; i < processes; ++i) {
    v1::Process& process = view.processes.emplace_back();
    process.set_pid(100 + i);
    process.set_state(v1::PROCESS_STATE_RUNNING);
    process.set_command("python\033 train.py");
    auto* device = process.add_devices();
    device->set_gpu_uuid("GPU-a");
    device->set_resident_bytes(40 * kGiB / uint64_t(processes));
  }
  return view;
}

bool Has(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("bars are as long as what is used, by process") {
  const auto lines = TopScreen(Node(2), 80, 24, false);
  REQUIRE(lines.size() == 24);
  const std::string bar = lines[1];
  const auto count = [&](char c) { return double(std::count(bar.begin(), bar.end(), c)); };
  const double width = double(bar.find(']') - bar.find('[') - 1);
  CHECK(count('a') ==
        Approx(width / 4).margin(1 + 1));  // and the letter in "gpu 0"'s own words: none
  CHECK(count('b') == Approx(width / 4).margin(2));
  CHECK(count('+') == Approx(width / 4).margin(1));
  CHECK(bar.find("60.0 GiB of 80.0 GiB") != std::string::npos);
}

TEST_CASE("every size of terminal is kept to") {
  for (const size_t width : {12, 20, 40, 41, 42, 60, 80, 200}) {
    for (const size_t height : {8, 24, 50}) {
      TopView view = Node(30);
      view.message = "paused 129: " + std::string(300, 'x');
      for (int i = 0; i < 5; ++i) view.running.emplace_back().set_id("m-" + std::to_string(i));
      view.selected = 29;
      const auto lines = TopScreen(view, width, height, false);
      INFO(width << "x" << height);
      CHECK(lines.size() == height);
      for (const std::string& line : lines) CHECK(DisplayWidth(line) <= width);
      // Whoever is selected is there.
      if (width >= 20) CHECK(Has(lines, "129"));
      TopView empty;
      empty.node.set_gpu_source(std::string(300, 'y'));
      for (const std::string& line : TopScreen(empty, width, height, false)) {
        CHECK(DisplayWidth(line) <= width);
      }
    }
  }
}

TEST_CASE("40 columns have a bar, and of each process its state and what it holds") {
  TopView view = Node(2);
  view.processes[0].set_state(v1::PROCESS_STATE_PARTLY_MOVED);
  const auto lines = TopScreen(view, 40, 12, false);
  CHECK(Has(lines, "gpu 0  [aaaa"));
  CHECK(lines[1].find("60.0 GiB") != std::string::npos);
  CHECK(Has(lines, "100  partly_moved   20.0 GiB"));
  CHECK(Has(lines, "PID  STATE"));
}

TEST_CASE("what moves is told with its rate, and more than there is room for is counted") {
  TopView view = Node(1);
  for (int i = 0; i < 9; ++i) {
    v1::Operation& operation = view.running.emplace_back();
    operation.set_id("m-" + std::to_string(i));
    operation.set_kind(v1::Operation::KIND_PAUSE);
    operation.set_state(v1::Operation::STATE_RUNNING);
    operation.add_pids(100);
    operation.mutable_progress()->set_done_bytes(kGiB);
    operation.mutable_progress()->set_total_bytes(4 * kGiB);
    operation.mutable_progress()->set_bytes_per_second(2e9);
  }
  const auto lines = TopScreen(view, 100, 24, false);
  CHECK(Has(lines, "pause m-0 of 100: 1.00 GiB of 4.00 GiB, 2.00 GB/s"));
  CHECK(Has(lines, "and 6 more"));
}

TEST_CASE("what other processes chose moves no cursor") {
  for (const std::string& line : TopScreen(Node(2), 200, 24, false)) {
    CHECK(line.find('\033') == std::string::npos);
  }
}

TEST_CASE("top prints once where it is no terminal") {
  FakeControl daemon;
  daemon.node_answer = Node(0).node;
  *daemon.list_answer.add_processes() = MakeProcess(4711, v1::PROCESS_STATE_PAUSED);
  const Outcome o = RunCli({"top", daemon.flag()});
  CHECK(o.exit_code == 0);
  CHECK(o.out.find("4711") != std::string::npos);
  CHECK(o.out.find("paused") != std::string::npos);
  daemon.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  CHECK(RunCli({"top", daemon.flag()}).exit_code == kExitUnreachable);
}

}  // namespace parkade::cli
