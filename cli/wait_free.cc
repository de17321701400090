// `parkade wait-free`: waits until a GPU has memory free that nobody else is about to take.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"

namespace parkade::cli {
namespace {

int WaitFree(const GpuSizeOptions& options, const Context& context) {
  const std::string what = absl::StrCat("wait-free ", options.gpu);
  v1::WaitFreeRequest request;
  Client client(context.globals);
  if (auto s = FillIn(options, context, client, request); !s.ok()) return context.Fail(what, s);
  const auto response = client.WaitFree(request);
  if (!response.ok()) return context.Fail(what, response.status());
  if (context.json()) {
    context.terminal.out << FreeJson(*response) << '\n';
    return kExitOk;
  }
  context.terminal.out << FormatBytes(response->free_bytes()) << " free, "
                       << FormatBytes(response->booked_bytes()) << " of it booked, "
                       << FormatBytes(response->reserved_bytes()) << " reserved, after "
                       << FormatSeconds(response->waited_seconds()) << '\n';
  return kExitOk;
}

}  // namespace

void AddWaitFree(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "wait-free", "Waits until a GPU has so much memory free, beside what resumes have booked");
  auto options = std::make_shared<GpuSizeOptions>();
  AddGpuSize(*verb, *options, "Longest wait; without it the answer comes at once");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return WaitFree(*options, context); };
  });
}

}  // namespace parkade::cli
