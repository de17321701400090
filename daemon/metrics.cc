// Counts what ends, reads the rest when asked, and serves both by prometheus-cpp.
#include "daemon/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>

#include "daemon/metric_gauges.h"
#include "daemon/node_sample.h"
#include "daemon/operation_text.h"
#include "daemon/status.h"
#include "daemon/words.h"

namespace parkade::daemon {
namespace {

const prometheus::Histogram::BucketBoundaries kSeconds{0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                       1,     3,     10,   30,   60,  120};

}  // namespace

class Metrics::Figures final : public prometheus::Collectable {
 public:
  explicit Figures(Neighbours neighbours) : to_(neighbours) {
    prometheus::BuildGauge()
        .Name("parkade_build_info")
        .Help("The daemon that answers; always 1.")
        .Register(counted_)
        .Add({{"version", PARKADE_VERSION}})
        .Set(1);
    for (const char* direction : {"in", "out"}) {
      for (const char* target : {"disk", "host"}) {
        transferred_.Add({{"direction", direction}, {"target", target}});
      }
    }
    waited_.Add({}, kSeconds);
    written_.Add({});
    // Each is there from the start, so that a rate over the first failure is one.
    for (const char* op : {"pause", "resume", "handoff"}) {
      failures_.Add({{"op", op}, {"reason", ""}});
      seconds_.Add({{"op", op}, {"phase", "total"}, {"target", "none"}}, kSeconds);
    }
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    auto families = counted_.Collect();
    AddNodeGauges(ReadNode(to_.registry, to_.gpus, to_.scratch.rules()), to_.budgets.Look(),
                  families);
    AddProcessGauges(families);
    auto& reclaimed = families.emplace_back();
    reclaimed.name = "parkade_stale_reclaimed_bytes_total";
    reclaimed.help = "Bytes of scratch directories that were removed after their owners.";
    reclaimed.type = prometheus::MetricType::Counter;
    reclaimed.metric.emplace_back().counter.value = double(to_.scratch.reclaimed_bytes());
    return families;
  }

  void Ended(const OperationView& operation) {
    const std::string op = KindName(operation.kind);
    if (!operation.answer->ok()) {
      failures_.Add({{"op", op}, {"reason", ReasonOf(operation.answer->status())}}).Increment();
    }
    const auto& outcomes = operation.answer->ok() ? **operation.answer : operation.report;
    for (const Outcome& outcome : outcomes) {
      if (!outcome.already) Count(op, operation.kind, outcome);
    }
  }

 private:
  void Count(const std::string& op, OperationKind kind, const Outcome& outcome) {
    for (const auto& [phase, seconds] : PhasesOf(outcome)) {
      seconds_.Add({{"op", op}, {"phase", phase}, {"target", TargetOf(outcome)}}, kSeconds)
          .Observe(seconds);
    }
    if (outcome.wait_seconds > 0) waited_.Add({}, kSeconds).Observe(outcome.wait_seconds);
    // A verify moves nothing; what a handoff has moved by process is in or out by where it ended.
    if (kind == OperationKind::kVerify) return;
    const bool out = outcome.state == wire::ProcessState::kPaused;
    const bool to_disk = out && kind != OperationKind::kPrefetch;
    const std::string direction = to_disk ? "out" : "in";
    const auto& stats = outcome.stats;
    transferred_.Add({{"direction", direction}, {"target", "host"}})
        .Increment(double(stats.host_bytes));
    transferred_.Add({{"direction", direction}, {"target", "disk"}})
        .Increment(double(stats.disk_bytes));
    if (to_disk) written_.Add({}).Increment(double(stats.disk_bytes));
  }

  const Neighbours to_;
  prometheus::Registry counted_;
  prometheus::Family<prometheus::Histogram>& seconds_ =
      prometheus::BuildHistogram()
          .Name("parkade_transition_seconds")
          .Help("Time of one process's part in an operation, by phase.")
          .Register(counted_);
  prometheus::Family<prometheus::Histogram>& waited_ =
      prometheus::BuildHistogram()
          .Name("parkade_wait_free_seconds")
          .Help("How long resumes and reservations waited for GPU memory, those that did.")
          .Register(counted_);
  prometheus::Family<prometheus::Counter>& transferred_ =
      prometheus::BuildCounter()
          .Name("parkade_transfer_bytes_total")
          .Help("Bytes moved out of and into HBM, by where they went or came from.")
          .Register(counted_);
  prometheus::Family<prometheus::Counter>& failures_ =
      prometheus::BuildCounter()
          .Name("parkade_transition_failures_total")
          .Help("Operations that failed.")
          .Register(counted_);
  prometheus::Family<prometheus::Counter>& written_ =
      prometheus::BuildCounter()
          .Name("parkade_disk_written_bytes_total")
          .Help("Bytes written to scratch files by pauses and write-behinds.")
          .Register(counted_);
};

struct Metrics::Server {
  std::shared_ptr<Figures> figures;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Metrics::Metrics(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Metrics::~Metrics() = default;

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Listen(Neighbours neighbours,
                                                         const std::string& address) {
  auto server = std::make_unique<Server>();
  server->figures = std::make_shared<Figures>(neighbours);
  // The library has no other way to say that it cannot.
  try {
    server->exposer = std::make_unique<prometheus::Exposer>(address, 2);
  } catch (const std::exception&) {
    return Fail(absl::StatusCode::kInvalidArgument, "BAD_CONFIG",
                Cat("metrics.listen: cannot listen at ", address,
                    ": the address is not free, or none of this machine"));
  }
  server->exposer->RegisterCollectable(server->figures);
  return std::unique_ptr<Metrics>(new Metrics(std::move(server)));
}

void Metrics::Ended(const OperationView& operation) { server_->figures->Ended(operation); }

}  // namespace parkade::daemon
