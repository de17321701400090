// `parkade wait-free`: waits until a GPU has memory free that nobody else is about to take.
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"
#include "common/bytes.h"

namespace parkade::cli {
namespace {

struct WaitFreeOptions {
  std::string gpu;
  std::string bytes;
  std::string wait;
};

int WaitFree(const WaitFreeOptions& options, const Context& context) {
  const std::string what = absl::StrCat("wait-free ", options.gpu);
  v1::WaitFreeRequest request;
  request.set_bytes(*ParseBytes(options.bytes));
  const auto wait = ReadWait(options.wait, "--wait", context);
  if (!wait.ok()) return context.Fail(what, wait.status());
  if (*wait) *request.mutable_wait_timeout() = ToProto(**wait);
  Client client(context.globals);
  const auto uuid = GpuUuid(options.gpu, client);
  if (!uuid.ok()) return context.Fail(what, uuid.status());
  request.set_gpu_uuid(*uuid);
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
  auto options = std::make_shared<WaitFreeOptions>();
  verb->add_option("GPU", options->gpu, "By index or UUID")
      ->required()
      ->check(IsLabel(64))
      ->type_name("");
  verb->add_option("SIZE", options->bytes, "Such as 40GiB")
      ->required()
      ->check(IsSize(1, 1024_GiB))
      ->type_name("");
  verb->add_option("--wait", options->wait, "Longest wait; without it the answer comes at once")
      ->check(IsDuration())
      ->type_name("TIME");
  verb->callback([&context, options] {
    context.verb = [&context, options] { return WaitFree(*options, context); };
  });
}

}  // namespace parkade::cli
