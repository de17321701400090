// parkaded: reads flags, builds the parts, runs until SIGTERM or SIGINT, and ends them in order.
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "common/log.h"
#include "daemon/authority.h"
#include "daemon/config.h"
#include "daemon/driver_helper.h"
#include "daemon/events.h"
#include "daemon/gpu_account.h"
#include "daemon/gpus.h"
#include "daemon/groups.h"
#include "daemon/holders.h"
#include "daemon/host_budget.h"
#include "daemon/identity.h"
#include "daemon/journal.h"
#include "daemon/metrics.h"
#include "daemon/node_sample.h"
#include "daemon/node_state.h"
#include "daemon/node_timeline.h"
#include "daemon/operation_text.h"
#include "daemon/operations.h"
#include "daemon/reaper.h"
#include "daemon/recovery.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/reservations.h"
#include "daemon/runtime_dir.h"
#include "daemon/sampler.h"
#include "daemon/scratch.h"
#include "daemon/service.h"
#include "daemon/service_health.h"
#include "daemon/service_listener.h"
#include "daemon/service_tcp.h"
#include "daemon/service_text.h"
#include "daemon/sharer.h"
#include "daemon/shim_listener.h"
#include "daemon/status.h"
#include "daemon/supervisor.h"
#include "daemon/timeline_recording.h"
#include "daemon/unmanaged.h"
#include "daemon/warmer.h"
#include "daemon/watchdog.h"
#include "daemon/words.h"
#include "daemon/write_behinds.h"

namespace parkade::daemon {
namespace {

const char* Variable(const char* name) { return getenv(name); }

void ForEachLine(const absl::Status& why, const std::function<void(const std::string&)>& call) {
  const std::string message = MessageOf(why);
  for (const std::string_view line : Split(message, "\n")) call(std::string(line));
}

int Refuse(const absl::Status& why) {
  ForEachLine(why,
              [](const std::string& line) { fprintf(stderr, "parkaded: %s\n", line.c_str()); });
  return why.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

// Every process costs three descriptors, every disk backup three more; and a backup is preallocated
// by the daemon, so its limit on file sizes counts as well as the process's.
void RaiseLimits() {
  for (const auto resource : {RLIMIT_NOFILE, RLIMIT_FSIZE}) {
    rlimit limit;
    if (getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
  }
}

// gRPC aborts where it cannot have its own; with fewer than these there is nothing to serve.
absl::Status CheckOpenFiles() {
  constexpr rlim_t kLeast = 64;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kLeast) return absl::OkStatus();
  return Fail(absl::StatusCode::kResourceExhausted, "OPEN_FILES",
              Cat("only ", limit.rlim_cur, " files may be open, at least ", kLeast,
                  " are needed: raise the limit (ulimit -n, or LimitNOFILE= of its service)"));
}

// Blocks the signals in this thread and those that it starts, and opens them for reading.
Fd CatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a reservation past the limit is an error, not the end
  return Fd(signalfd(-1, &set, SFD_CLOEXEC));
}

// Looks after the watchdog and calls `reload` at each SIGHUP, until a signal ends the daemon.
void AwaitEnd(const Fd& signals, Watchdog& watchdog, const std::function<void()>& reload) {
  for (;;) {
    pollfd wanted{signals.get(), POLLIN, 0};
    const int ready = poll(&wanted, 1, watchdog.DueMs());
    if (ready == 0) watchdog.Look();
    if (ready <= 0) continue;  // a stop and its end interrupt it
    signalfd_siginfo info;
    if (read(signals.get(), &info, sizeof info) != ssize_t(sizeof info)) continue;
    if (info.ssi_signo != SIGHUP) {
      Log(LogLevel::kInfo, "signal %u: ending", info.ssi_signo);
      return;
    }
    reload();
  }
}

int Run(const Flags& flags, Config config) {
  SetLog("parkaded", config.log_level, config.log_format);
  const Fd signals = CatchSignals();
  RaiseLimits();
  if (auto s = CheckOpenFiles(); !s.ok()) return Refuse(s);
  const Supervisor supervisor(Variable);
  auto runtime = RuntimeDir::Open(config.runtime_dir);
  if (!runtime.ok()) return Refuse(runtime.status());
  if (auto s = MakeDirectory(config.state_dir, 0700); !s.ok()) return Refuse(s);
  for (const std::string& setting : config.described) Log(LogLevel::kInfo, "%s", setting.c_str());

  const Gpus gpus;
  Log(LogLevel::kInfo, "GPU figures: %s", gpus.source().c_str());
  for (const auto& remark : gpus.remarks()) Log(LogLevel::kInfo, "GPUs: %s", remark.c_str());
  Journal journal(config.state_dir, BootId());
  Events events([&journal](const Event& event) { journal.Note(event); });
  Unmanaged unmanaged;
  Registry registry(
      [&unmanaged](const Caller& caller, pid_t pid) { return unmanaged.Explain(caller, pid); });
  Authority authority("parkade", config.tcp ? config.tcp->clients : std::vector<std::string>{});
  Scratch scratch({config.scratch_dirs, config.allow_tmpfs, config.scratch_stripe},
                  config.state_dir);
  Budgets budgets(config.host_budget, registry, &journal);
  HostBudget budget(budgets);
  Reservations reservations(&journal);
  GpuAccount account([&gpus](const auto& uuids) { return gpus.Free(uuids); },
                     [&reservations] { return reservations.Kept(); });
  Returning returning;
  DeepPause::Settings deep;
  deep.helper.earlier = std::make_shared<const EarlierHelpers>(EarlierHelpers::Find());
  NodeState node(
      {registry, events, gpus, scratch, budget, account, journal, returning, reservations}, {},
      deep);
  std::atomic<int> wants{0};  // being answered
  Warmer warmer(budget);
  std::unique_ptr<TimelineRecording> recording;
  if (!config.timeline_dir.empty()) {
    auto begun = TimelineRecording::Begin(config.timeline_dir, config.timeline_limit);
    if (!begun.ok()) return Refuse(begun.status());
    recording = std::move(*begun);
  }
  NodeTimeline timeline({}, [&recording](const v1::TimelineEntry& entry) {
    if (recording != nullptr) recording->Add(entry);
  });
  std::unique_ptr<Metrics> metrics;
  if (!config.metrics_listen.empty()) {
    auto listens = Metrics::Listen({registry, gpus, scratch, budgets}, config.metrics_listen);
    if (!listens.ok()) return Refuse(listens.status());
    metrics = std::move(*listens);
  }
  Operations operations(&journal, [&](const OperationView& ended) {
    v1::Operation told;
    Write(ended, &told);
    timeline.Add(told);
    if (metrics != nullptr) metrics->Ended(ended);
    LogEnded(ended);
  });
  Sharer sharer({registry, node, operations, account, reservations}, config.turn_quantum_ns);
  Reaper reaper([&] { scratch.SweepAll({}); });
  scratch.BeginTrials([&reaper](auto work) { reaper.Later(std::move(work)); });

  auto shim_socket = runtime->Listen("shim.sock", SOCK_SEQPACKET);
  if (!shim_socket.ok()) return Refuse(shim_socket.status());
  auto control_socket = runtime->Listen("control.sock", SOCK_STREAM);
  if (!control_socket.ok()) return Refuse(control_socket.status());
  // Before anybody is served, so that none of them is claimed by others.
  for (auto& process : Revive(journal)) registry.Add(std::move(process));
  Recovery recovery({registry, events, node, journal, returning}, {});
  ShimListener shims(
      std::move(*shim_socket), registry, events,
      {[&](Process& process, const std::string& path, Fd lock) {
         scratch.Adopt(process, path, std::move(lock));
       },
       [&](auto directory) { reaper.Bury(std::move(directory)); },
       [&](auto process) {
         if (process->scratch() == nullptr) return;
         reaper.Later([&, process] {
           // A transition that has it looks after its directory.
           if (const auto claim = registry.Take({process}); claim.ok()) {
             scratch.Forsake(*process);
           }
         });
       },
       [&](auto process, const wire::Want& want) {
         // Programs may live with failed allocations: not more at once than these.
         if (wants.fetch_add(1) >= 16) {
           wants.fetch_sub(1);
           return;
         }
         reaper.Later([&, process, want] {
           AnswerWant(*process, want, registry, gpus);
           wants.fetch_sub(1);
         });
       },
       [&](auto process, Bytes bytes) { warmer.Want(std::move(process), bytes); },
       [&](const Peer& peer, uint32_t version, const std::string& shim) {
         unmanaged.TurnedAway(peer, version, shim);
       },
       [&](auto process, const wire::AskTurn& ask) { sharer.Asks(std::move(process), ask); }},
      {});

  WriteBehinds behinds(node, operations);
  behinds.GoOn(journal, registry);
  Groups groups(config.groups, &journal);
  ControlService service({authority, registry, events, gpus, scratch, node, operations, groups,
                          account, reservations, budgets, behinds, timeline});
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  int tcp_port = 0;
  if (config.tcp) {
    auto credentials = TcpCredentials(*config.tcp);
    if (!credentials.ok()) return Refuse(credentials.status());
    AddTcp(builder, *config.tcp, std::move(*credentials), &tcp_port);
  }
  const auto server = builder.BuildAndStart();
  if (config.tcp && tcp_port == 0) {
    fprintf(
        stderr,
        "parkaded: cannot listen at %s: the address is not free, or %s is no certificate of %s\n",
        config.tcp->listen.c_str(), config.tcp->certificate.c_str(), config.tcp->key.c_str());
    return 1;
  }
  if (server == nullptr) {
    fprintf(stderr, "parkaded: the gRPC server does not start\n");
    return 1;
  }
  KnownParts known;  // the sampler's
  // Ends with `events`.
  const Sampler sampler(
      events, [&] { return ReadNode(registry, gpus, scratch.rules(), known); },
      [&timeline](const NodeSample& sample) { timeline.Add(sample); });
  {
    const ServiceListener controls(std::move(*control_socket), *server, authority);
    Log(LogLevel::kInfo, "serving %s", config.runtime_dir.c_str());
    if (config.tcp)
      Log(LogLevel::kInfo, "serving %s, port %d", config.tcp->listen.c_str(), tcp_port);
    const std::string serving = Cat("serving ", config.runtime_dir);
    supervisor.Ready(serving);
    Watchdog watchdog(supervisor,
                      {{"shim loop", [&](Deadline by) { return shims.IsAlive(by); }},
                       {"control acceptor", [&](Deadline by) { return controls.IsAlive(by); }},
                       {"control API", [&](Deadline by) { return ServerAnswers(*server, by); }},
                       // Whoever held their locks for ever would hold this thread as well.
                       {"registry and operations", [&](Deadline) {
                          registry.All();
                          operations.List({0, true});
                          return true;
                        }}});
    AwaitEnd(signals, watchdog, [&] {
      supervisor.Reloading();
      const auto fresh = LoadConfig(flags, Variable);
      if (!fresh.ok()) {
        ForEachLine(fresh.status(), [](const std::string& line) {
          Log(LogLevel::kError, "reload: nothing has changed: %s", line.c_str());
        });
      }
      const std::string changes =
          fresh.ok() ? Reload(*fresh, config, budgets, groups) : "the configuration has mistakes";
      Log(LogLevel::kInfo, "reload: %s", changes.c_str());
      supervisor.Ready(Cat(serving, "; reload: ", changes));
    });
  }
  supervisor.Stopping("ending");
  // Shims first: without them every transition under way comes to its end at once, and each process
  // undoes or finishes by itself. Whoever was in the middle is the next daemon's to bring to an
  // end.
  journal.Close();
  shims.Stop();
  account.Close();
  recovery.Stop();
  sharer.Stop();
  operations.Finish();
  events.Close();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  Log(LogLevel::kInfo, "ended");
  return 0;
}

}  // namespace
}  // namespace parkade::daemon

int main(int argc, char** argv) {
  using namespace parkade::daemon;
  if (argc > 1 && std::string_view(argv[1]) == kDriverHelperFlag) {
    return RunDriverHelper(argc, argv);
  }
  CLI::App app("parkaded: pauses and resumes the GPU memory of this node's processes.");
  Flags flags;
  bool check = false;
  app.set_version_flag("--version", PARKADE_VERSION);
  app.add_option("--config", flags.config_file, "TOML file (default /etc/parkade/parkaded.toml)");
  app.add_flag("--check-config", check,
               "print every setting with its source, or every mistake with its place, and end");
  app.add_option("--runtime-dir", flags.runtime_dir, "sockets and lock (default /run/parkade)");
  app.add_option("--state-dir", flags.state_dir, "what outlives the daemon");
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off");
  app.add_option("--host-budget", flags.host_budget,
                 "host memory for backups, such as 64G (default: what is free)");
  app.add_option("--scratch-dir", flags.scratch_dirs,
                 "directory for backups that jobs may name; the first is the default; repeatable")
      ->expected(1)
      ->take_all();
  app.add_option("--allow-tmpfs", flags.allow_tmpfs, "one of them that may be tmpfs; repeatable")
      ->expected(1)
      ->take_all();
  app.add_option("--scratch-stripe", flags.scratch_stripe,
                 "one of them that takes its part of each backup; for two and more; repeatable")
      ->expected(1)
      ->take_all();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    fprintf(stderr, "parkaded: %s; `parkaded --help` shows what there is\n", e.what());
    return 2;
  }
  const auto config = LoadConfig(flags, Variable);
  if (!config.ok()) return Refuse(config.status());
  if (check) {
    for (const std::string& setting : config->described) printf("%s\n", setting.c_str());
    return 0;
  }
  return Run(flags, *config);
}
