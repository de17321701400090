// The whole daemon: pause, resume, refuse and watch, with processes whose bytes are only numbers.
#include <grpcpp/generic/generic_stub.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/bytes.h"
#include "common/deadline.h"
#include "tests/unit/daemon/daemon_run.h"

using namespace parkade;
using testing::DaemonRun;
using testing::Entries;
using testing::PauseOf;
using testing::ReasonIn;

namespace {

std::string Root(const DaemonRun& run) { return run.scratch() + "/parkade-v1"; }

}  // namespace

TEST_CASE("a process is listed with its labels and described with its allocations") {
  DaemonRun run;
  const auto shim = run.StartShim({"4096", "1048576:weights"}, {"FAKE_JOB=train", "FAKE_RANK=2"});
  const v1::Process process = run.Find(shim->pid());
  CHECK(process.job() == "train");
  CHECK(process.rank() == 2);
  CHECK(process.uid() == geteuid());
  CHECK(process.allocation_count() == 2);
  CHECK(process.shim_version() == "fake");
  CHECK(process.command().find("fake_shim") != std::string::npos);
  REQUIRE(process.devices_size() == 1);
  CHECK(process.devices(0).gpu_uuid() == "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");

  grpc::ClientContext context;
  v1::GetProcessRequest request;
  request.set_pid(shim->pid());
  v1::GetProcessResponse response;
  REQUIRE(run.stub().GetProcess(&context, request, &response).ok());
  REQUIRE(response.allocations_size() == 2);
  CHECK(response.allocations(1).tag() == "weights");
  CHECK(response.allocations(1).bytes() == 1_MiB);
  CHECK(response.allocations(1).place() == "gpu");
  CHECK(response.allocations(1).allocation_class() == "pausable");
  CHECK(response.process().settings(0) == "PARKADE_POLICY=host (default)");
  CHECK(response.process().warnings(0) == "this is no real shim");
}

TEST_CASE("pause and resume to host and to disk, and what is already so is said") {
  DaemonRun run;
  const auto shim = run.StartShim({"1", "2097152"});
  const int pid = shim->pid();
  for (const auto policy : {v1::POLICY_HOST, v1::POLICY_DISK, v1::POLICY_UNSPECIFIED}) {
    v1::PauseResponse paused;
    const auto status = run.Pause(PauseOf({pid}, policy), &paused);
    INFO(status.error_message());
    REQUIRE(status.ok());
    REQUIRE(paused.results_size() == 1);
    CHECK_FALSE(paused.results(0).already());
    CHECK(paused.results(0).state() == v1::PROCESS_STATE_PAUSED);
    const bool disk = policy == v1::POLICY_DISK;
    CHECK((disk ? paused.results(0).disk_bytes() : paused.results(0).host_bytes()) == 2_MiB + 4096);
    CHECK(paused.results(0).total_seconds() > 0);
    CHECK(run.Find(pid).state() == v1::PROCESS_STATE_PAUSED);

    v1::PauseResponse again;
    REQUIRE(run.Pause(PauseOf({pid}, policy), &again).ok());
    CHECK(again.results(0).already());
    CHECK(again.results(0).state() == v1::PROCESS_STATE_PAUSED);

    v1::ResumeResponse resumed;
    REQUIRE(run.Resume(pid, &resumed).ok());
    CHECK_FALSE(resumed.results(0).already());
    REQUIRE(run.Resume(pid, &resumed).ok());
    CHECK(resumed.results(0).already());
  }
  CHECK(Entries(Root(run)) == 1);
}

TEST_CASE("what cannot be paused is refused by kind, and nothing is left behind") {
  DaemonRun run;
  const auto shim = run.StartShim({"2097152"});
  const int pid = shim->pid();
  v1::PauseResponse response;
  const auto refusal = [&](const v1::PauseRequest& request, grpc::StatusCode code) {
    const auto status = run.Pause(request, &response);
    INFO(status.error_message());
    CHECK(status.error_code() == code);
    CHECK(run.Find(pid).state() == v1::PROCESS_STATE_RUNNING);
    CHECK(Entries(Root(run)) == 0);
    return ReasonIn(status);
  };
  using grpc::StatusCode;
  CHECK(refusal(PauseOf({4'000'000}, v1::POLICY_HOST), StatusCode::NOT_FOUND) == "NO_PROCESS");
  CHECK(refusal(PauseOf({getpid()}, v1::POLICY_HOST), StatusCode::FAILED_PRECONDITION) ==
        "NOT_INSTRUMENTED");
  CHECK(refusal(PauseOf({}, v1::POLICY_HOST), StatusCode::INVALID_ARGUMENT) == "BAD_SELECTOR");
  CHECK(refusal(PauseOf({pid}, v1::POLICY_DISCARD), StatusCode::INVALID_ARGUMENT) == "BAD_POLICY");
  auto request = PauseOf({pid}, v1::POLICY_HOST);
  (*request.mutable_tag_policies())["nothing"] = v1::POLICY_KEEP;
  CHECK(refusal(request, StatusCode::INVALID_ARGUMENT) == "UNKNOWN_TAG");
  request = PauseOf({pid}, v1::POLICY_DISK);
  request.set_chunk_bytes(5);
  CHECK(refusal(request, StatusCode::INVALID_ARGUMENT) == "BAD_SIZE");
  request = PauseOf({pid}, v1::POLICY_DISK);
  request.mutable_drain_timeout()->set_seconds(-1);
  CHECK(refusal(request, StatusCode::INVALID_ARGUMENT) == "BAD_SIZE");
  request = PauseOf({pid}, v1::POLICY_DISK);
  request.set_scratch_base(run.scratch() + "/missing");
  CHECK(refusal(request, StatusCode::NOT_FOUND) == "NO_FILE");
  request.set_scratch_base("/usr");
  CHECK(refusal(request, StatusCode::INVALID_ARGUMENT) == "BAD_SCRATCH");
  request.set_scratch_base("relative");
  CHECK(refusal(request, StatusCode::INVALID_ARGUMENT) == "BAD_SCRATCH");
  request = PauseOf({}, v1::POLICY_HOST);
  request.mutable_selector()->add_ranks(77);
  CHECK(refusal(request, StatusCode::NOT_FOUND) == "NO_PROCESS");
}

TEST_CASE("a host budget that is too small refuses host and sends auto to disk") {
  DaemonRun run({"--host-budget", "3M"});
  const auto shim = run.StartShim({"2097152", "2097152"});
  v1::PauseResponse response;
  const auto status = run.Pause(PauseOf({shim->pid()}, v1::POLICY_HOST), &response);
  CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(ReasonIn(status) == "HOST_MEMORY");
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_AUTO), &response).ok());
  CHECK(response.results(0).host_bytes() == 3_MiB);
  CHECK(response.results(0).disk_bytes() == 1_MiB);
}

TEST_CASE("a file size limit of the process refuses a disk pause before anything moves") {
  DaemonRun run;
  const auto shim = run.StartShim({"2097152"});
  rlimit limit{4096, RLIM_INFINITY};
  REQUIRE(prlimit(shim->pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
  v1::PauseResponse response;
  const auto status = run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response);
  CHECK(ReasonIn(status) == "FILE_SIZE_LIMIT");
  CHECK(Entries(Root(run)) == 0);
}

TEST_CASE("a job is paused as a group, and the whole node by all") {
  DaemonRun run;
  const auto a = run.StartShim({"1048576"}, {"FAKE_JOB=a"});
  const auto b = run.StartShim({"1048576"}, {"FAKE_JOB=a"});
  const auto c = run.StartShim({"1048576"}, {"FAKE_JOB=c"});
  v1::PauseRequest request;
  request.mutable_selector()->set_job("a");
  v1::PauseResponse response;
  REQUIRE(run.Pause(request, &response).ok());
  CHECK(response.results_size() == 2);
  CHECK(run.Find(c->pid()).state() == v1::PROCESS_STATE_RUNNING);
  request.Clear();
  request.mutable_selector()->set_all(true);
  REQUIRE(run.Pause(request, &response).ok());
  REQUIRE(response.results_size() == 3);
  int already = 0;
  for (const auto& result : response.results()) already += result.already() ? 1 : 0;
  CHECK(already == 2);
}

TEST_CASE(
    "while one process does not answer, the list comes at once and its deadline undoes nothing") {
  DaemonRun run;
  const auto stuck = run.StartShim({"1048576"});
  const auto free = run.StartShim({"1048576"});
  stuck->Signal(SIGSTOP);
  grpc::ClientContext watching;
  const auto watch = run.stub().Watch(&watching, {});
  v1::Event event;
  REQUIRE(watch->Read(&event));
  auto request = PauseOf({stuck->pid()}, v1::POLICY_HOST);
  request.set_request_id("once");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1500));
  v1::PauseResponse response;
  const uint64_t begin = MonotonicNs();
  std::thread caller([&] {
    const auto status = run.stub().Pause(&context, request, &response);
    CHECK(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
    CHECK(ReasonIn(status) == "STILL_RUNNING");
  });
  while (watch->Read(&event) && event.process().state() != v1::PROCESS_STATE_PREPARING) {
  }
  watching.TryCancel();
  std::vector<uint64_t> took_ns;
  for (int i = 0; i < 9; ++i) {
    const uint64_t asked = MonotonicNs();
    CHECK(run.Find(free->pid()).pid() == free->pid());
    took_ns.push_back(MonotonicNs() - asked);
  }
  // The median: a loaded machine may hold up any single one.
  std::sort(took_ns.begin(), took_ns.end());
  CHECK(took_ns[4] < 50'000'000);
  v1::PauseResponse other;
  CHECK(ReasonIn(run.Pause(PauseOf({stuck->pid()}, v1::POLICY_HOST), &other)) == "BUSY");
  CHECK(run.Pause(PauseOf({free->pid()}, v1::POLICY_HOST), &other).ok());
  caller.join();
  CHECK(MonotonicNs() - begin < 1'500'000'000);
  stuck->Signal(SIGCONT);
  // The same id joins the operation that went on.
  REQUIRE(run.Pause(request, &response).ok());
  CHECK_FALSE(response.results(0).already());
  request.set_policy(v1::POLICY_DISK);
  CHECK(run.Pause(request, &response).error_code() == grpc::StatusCode::ALREADY_EXISTS);
}

TEST_CASE("a watcher sees what is there, what comes, each state, and what goes") {
  DaemonRun run;
  const auto first = run.StartShim({"1048576"});
  grpc::ClientContext context;
  const auto reader = run.stub().Watch(&context, {});
  v1::Event event;
  REQUIRE(reader->Read(&event));
  CHECK(event.kind() == v1::Event::KIND_PRESENT);
  CHECK(event.process().pid() == first->pid());
  auto second = run.StartShim({"1048576"});
  REQUIRE(reader->Read(&event));
  CHECK(event.kind() == v1::Event::KIND_APPEARED);
  CHECK(event.process().pid() == second->pid());
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({second->pid()}, v1::POLICY_HOST), &response).ok());
  const int gone = second->pid();
  second.reset();
  std::vector<v1::ProcessState> states;
  while (reader->Read(&event) && event.kind() != v1::Event::KIND_GONE) {
    if (event.kind() == v1::Event::KIND_STATE) states.push_back(event.process().state());
  }
  CHECK(event.process().pid() == gone);
  const std::vector<v1::ProcessState> expected{
      v1::PROCESS_STATE_PREPARING, v1::PROCESS_STATE_PREPARED, v1::PROCESS_STATE_EVICTING,
      v1::PROCESS_STATE_PAUSED};
  REQUIRE(states.size() >= expected.size());
  CHECK(std::equal(expected.begin(), expected.end(), states.begin()));
  context.TryCancel();
}

TEST_CASE("another user sees and moves only its own processes") {
  if (geteuid() != 0) return;
  DaemonRun run;
  const auto shim = run.StartShim({"1048576"});
  // The client's connections are made by this thread's user.
  REQUIRE(seteuid(65534) == 0);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel("unix:" + run.dir() / "run/control.sock",
                                                 grpc::InsecureChannelCredentials(), arguments);
  const bool connected =
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
  REQUIRE(seteuid(0) == 0);
  REQUIRE(connected);
  const auto stub = v1::Control::NewStub(channel);
  grpc::ClientContext list, pause;
  v1::ListProcessesResponse listed;
  REQUIRE(stub->ListProcesses(&list, {}, &listed).ok());
  CHECK(listed.processes_size() == 0);
  v1::PauseResponse response;
  const auto status = stub->Pause(&pause, PauseOf({shim->pid()}, v1::POLICY_HOST), &response);
  CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(ReasonIn(status) == "UID_MISMATCH");
}

TEST_CASE("the health service answers") {
  DaemonRun run;
  // Health's messages are two: an empty request, and a response whose field 1 is 1 for SERVING.
  grpc::GenericStub health(run.channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Slice nothing;
  grpc::ByteBuffer request(&nothing, 1), response;
  const auto call =
      health.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  REQUIRE(queue.Next(&tag, &ok));
  INFO(status.error_message());
  REQUIRE(status.ok());
  grpc::Slice answer;
  REQUIRE(response.DumpToSingleSlice(&answer).ok());
  CHECK(std::string(answer.begin(), answer.end()) == std::string("\x08\x01"));
}

TEST_CASE("the node says what it has") {
  DaemonRun run;
  grpc::ClientContext context;
  v1::GetNodeResponse node;
  REQUIRE(run.stub().GetNode(&context, {}, &node).ok());
  CHECK(node.host_total_bytes() > node.host_available_bytes());
  CHECK_FALSE(node.gpu_source().empty());
  REQUIRE(node.scratch_bases_size() == 1);
  CHECK(node.scratch_bases(0).path() == run.scratch());
  CHECK(node.scratch_bases(0).usable());
  CHECK(node.scratch_bases(0).free_bytes() > 0);
}

TEST_CASE("a process of another user is paused to a directory of that user") {
  if (geteuid() != 0) return;
  DaemonRun run;
  const auto shim = run.StartNobodysShim({"1048576"});
  CHECK(run.Find(shim->pid()).uid() == 65534);
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf({shim->pid()}, v1::POLICY_DISK), &response).ok());
  const std::string directory = run.Find(shim->pid()).scratch_dir();
  struct stat own, data, shared;
  REQUIRE(stat(directory.c_str(), &own) == 0);
  REQUIRE(stat((directory + "/data.0").c_str(), &data) == 0);
  REQUIRE(stat(Root(run).c_str(), &shared) == 0);
  CHECK(own.st_uid == 65534);
  CHECK((own.st_mode & 0777) == 0700);
  CHECK(data.st_uid == 65534);
  CHECK(shared.st_uid == 0);
  shim->Signal(SIGKILL);
  REQUIRE(run.WaitUntilGone(shim->pid()));
  for (const Deadline by = Deadline::InMs(1000); !by.Passed() && Entries(Root(run)) != 0;) {
    sched_yield();
  }
  CHECK(Entries(Root(run)) == 0);
}

TEST_CASE("a base that only root can write to is no place for another user's bytes") {
  if (geteuid() != 0) return;
  DaemonRun run;
  const std::string base = run.scratch() + "/roots";
  REQUIRE(mkdir(base.c_str(), 0755) == 0);
  const auto shim = run.StartNobodysShim({"1048576"});
  auto request = PauseOf({shim->pid()}, v1::POLICY_DISK);
  request.set_scratch_base(base);
  v1::PauseResponse response;
  const auto status = run.Pause(request, &response);
  CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(ReasonIn(status) == "NO_ACCESS");
  CHECK(Entries(base) == 0);
}

TEST_CASE("controllers that contradict each other end in one accepted order") {
  DaemonRun run;
  const auto a = run.StartShim({"1048576"});
  const auto b = run.StartShim({"1048576"});
  const std::vector<int> pids{a->pid(), b->pid()};
  std::vector<std::thread> controllers;
  std::atomic<int> accepted{0}, strange{0};
  for (int c = 0; c < 4; ++c) {
    controllers.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i) {
        // Each its own mix: both as a group, or one alone, out or back.
        const auto chosen = c % 2 == 0 ? pids : std::vector<int>{pids[size_t(i % 2)]};
        v1::PauseResponse paused;
        v1::ResumeResponse resumed;
        grpc::Status status;
        if ((c + i) % 3 == 0) {
          grpc::ClientContext context;
          v1::ResumeRequest request;
          for (const int pid : chosen) request.mutable_selector()->add_pids(pid);
          status = run.stub().Resume(&context, request, &resumed);
        } else {
          const auto policy = i % 5 == 0 ? v1::POLICY_DISK : v1::POLICY_HOST;
          status = run.Pause(PauseOf(chosen, policy), &paused);
        }
        if (status.ok()) {
          ++accepted;
        } else if (ReasonIn(status) != "BUSY") {
          ++strange;
        }
      }
    });
  }
  for (auto& controller : controllers) controller.join();
  CHECK(strange == 0);
  CHECK(accepted > 0);
  v1::PauseResponse response;
  REQUIRE(run.Pause(PauseOf(pids, v1::POLICY_HOST), &response).ok());
  for (const int pid : pids) CHECK(run.Find(pid).state() == v1::PROCESS_STATE_PAUSED);
  CHECK(Entries(Root(run)) <= 2);
}
