// `parkade reserve` and `parkade release`: keep free memory of a GPU from resumes, and give it
// back.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

struct ReserveOptions {
  GpuSizeOptions room;
  std::string label;
  std::string ttl;
  int32_t pid = 0;
  int32_t priority = 0;
  std::string request_id;
};

int Reserve(const ReserveOptions& options, const Context& context) {
  const std::string what = absl::StrCat("reserve ", options.room.gpu);
  v1::ReserveRequest request;
  request.set_label(options.label);
  request.set_pid(options.pid);
  request.set_priority(options.priority);
  request.set_request_id(options.request_id);
  if (!options.ttl.empty()) *request.mutable_ttl() = ToProto(*ReadDuration(options.ttl));
  Client client(context.globals);
  if (auto s = FillIn(options.room, context, client, request); !s.ok())
    return context.Fail(what, s);
  SetInterruptSentence(kGoesOnOrLeaves);
  const auto response = client.Reserve(request);
  if (!response.ok()) return context.Fail(what, response.status());
  if (context.json()) {
    context.terminal.out << ReservationJson(*response) << '\n';
    return kExitOk;
  }
  const v1::Reservation& kept = response->reservation();
  context.terminal.out << kept.id() << "  " << FormatBytes(kept.bytes()) << " of "
                       << Printable(kept.gpu_uuid()) << " are kept\n";
  return kExitOk;
}

int Release(const std::string& id, const Context& context) {
  Client client(context.globals);
  v1::ReleaseRequest request;
  request.set_id(id);
  const auto response = client.Release(request);
  return response.ok() ? kExitOk : context.Fail(absl::StrCat("release ", id), response.status());
}

}  // namespace

void AddReserve(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("reserve", "Keeps free memory of a GPU from resumes, for another program");
  auto options = std::make_shared<ReserveOptions>();
  AddGpuSize(*verb, options->room, "Longest wait for its turn and the memory");
  verb->add_option("--label", options->label, "What it is for, in lists")
      ->check(IsLabel(63))
      ->type_name("TEXT");
  verb->add_option("--ttl", options->ttl, "It ends by itself then; without it, when it is released")
      ->check(IsDuration())
      ->type_name("TIME");
  verb->add_option("--pid", options->pid, "It ends with this process")
      ->check(IsPid())
      ->type_name("PID");
  AddPriority(*verb, options->priority);
  verb->add_option("--request-id", options->request_id,
                   "A name for this request: repeating it gives the same reservation")
      ->check(IsLabel(128))
      ->type_name("ID");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Reserve(*options, context); };
  });
}

void AddRelease(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("release", "Ends a reservation");
  auto id = std::make_shared<std::string>();
  verb->add_option("ID", *id, "Which, as `parkade reserve` and `parkade gpus` show it")
      ->required()
      ->check(IsLabel(128))
      ->type_name("");
  verb->callback(
      [&context, id] { context.verb = [&context, id] { return Release(*id, context); }; });
}

}  // namespace parkade::cli
