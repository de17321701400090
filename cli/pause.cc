// `parkade pause`: moves the bytes of processes out of GPU memory.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/forecast.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/read.h"
#include "cli/selector.h"
#include "cli/tag_policies.h"
#include "cli/transition.h"
#include "cli/transition_options.h"
#include "cli/verbs.h"
#include "common/bytes.h"

namespace parkade::cli {
namespace {

struct PauseOptions {
  SelectorOptions selector;
  std::string policy;
  std::vector<std::string> tag_policies;  // TAG=POLICY
  LeavingOptions leaving;
  bool allow_empty = false;
  std::string chunk;
  std::string gate;
  std::string gated_work;
  std::string gated_allocations;
  std::string on_exported;
  std::string elision;
  bool deep = false;
  bool release_host = false;
  TransitionOptions shared;
};

bool MayUseDisk(v1::Policy policy) {
  return policy == v1::POLICY_DISK || policy == v1::POLICY_AUTO;
}

// Refuses settings that contradict each other or that nothing would come of.
absl::Status CheckEffects(const PauseOptions& options, const v1::PauseRequest& request) {
  const auto& tags = request.tag_policies();
  if (request.policy() == v1::POLICY_DISCARD && options.leaving.tags.empty()) {
    return UsageError(
        "--policy discard would lose every byte: name the tags, as in --tag-policy "
        "kv_cache=discard");
  }
  if (request.policy() == v1::POLICY_KEEP && tags.empty()) {
    return UsageError("--policy keep alone moves nothing: add --tag-policy for what shall move");
  }
  if (options.gate == "open" && options.deep) {
    return UsageError("--deep stops every CUDA call of the processes, so the gate cannot be open");
  }
  if (options.gate == "open" &&
      !(options.gated_work.empty() && options.gated_allocations.empty())) {
    return UsageError(
        "--gated-work and --gated-allocations have no effect with --gate open, which holds "
        "nothing");
  }
  if (options.leaving.write_behind && request.policy() == v1::POLICY_HOST) {
    return UsageError(
        "--write-behind moves bytes on to disk, and --policy host keeps them in host memory");
  }
  if (options.release_host && !options.leaving.write_behind) {
    return UsageError("--release-host has no effect without --write-behind");
  }
  // With no policy given the process's own default may be disk.
  const bool disk =
      request.policy() == v1::POLICY_UNSPECIFIED || MayUseDisk(request.policy()) ||
      std::any_of(tags.begin(), tags.end(), [](const auto& tag) { return MayUseDisk(tag.second); });
  if (disk) return absl::OkStatus();
  if (!options.chunk.empty()) {
    return UsageError("--chunk has no effect without the policy disk or auto");
  }
  if (!options.leaving.scratch_dir.empty()) {
    return UsageError("--scratch-dir has no effect without the policy disk or auto");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PauseRequest> MakeRequest(const PauseOptions& options, const Context& context) {
  v1::PauseRequest request;
  request.set_policy(ReadPolicy(options.policy));
  if (auto s = AddTagPolicies(options.tag_policies, *request.mutable_tag_policies()); !s.ok())
    return s;
  if (auto s = CheckEffects(options, request); !s.ok()) return s;
  if (auto s = FillIn(options.leaving, context, request); !s.ok()) return s;
  FillIn(options.shared, request);
  if (!options.gate.empty()) {
    request.set_gate_mode(options.gate == "open" ? v1::GATE_MODE_OPEN : v1::GATE_MODE_CLOSED);
  }
  if (!options.gated_work.empty()) {
    request.set_gated_work(options.gated_work == "fail" ? v1::GATED_WORK_FAIL
                                                        : v1::GATED_WORK_BLOCK);
  }
  if (!options.gated_allocations.empty()) {
    request.set_gated_allocations(options.gated_allocations == "pass"
                                      ? v1::GATED_ALLOCATIONS_PASS
                                      : v1::GATED_ALLOCATIONS_AS_WORK);
  }
  if (!options.on_exported.empty()) {
    request.set_on_exported(options.on_exported == "keep"     ? v1::ON_EXPORTED_KEEP
                            : options.on_exported == "refuse" ? v1::ON_EXPORTED_REFUSE
                                                              : v1::ON_EXPORTED_BROKER);
  }
  request.set_allow_empty(options.allow_empty);
  request.set_deep(options.deep);
  request.set_release_host(options.release_host);
  if (options.elision == "hash") request.set_elision(v1::ELISION_HASH);
  if (options.elision == "bytes") request.set_elision(v1::ELISION_BYTES);
  if (options.elision == "off") request.set_elision(v1::ELISION_OFF);
  if (!options.chunk.empty()) request.set_chunk_bytes(*ParseBytes(options.chunk));
  return request;
}

int Pause(const PauseOptions& options, const Context& context) {
  const std::string what = absl::StrCat("pause ", options.selector.Words());
  if (auto s = CheckSelects(options.selector); !s.ok()) return context.Fail("pause", s);
  auto request = MakeRequest(options, context);
  if (!request.ok()) return context.Fail(what, request.status());
  Client client(context.globals);
  const auto selector = MakeSelector(options.selector, client);
  if (!selector.ok()) return context.Fail(what, selector.status());
  *request->mutable_selector() = *selector;

  SetInterruptSentence(kGoesOn);
  absl::StatusOr<v1::PauseResponse> response;
  {
    Progress progress(client, *selector, "pausing", context.terminal);
    response = client.Pause(*request);
  }
  if (!response.ok()) return context.Fail(what, response.status());
  if (options.shared.dry_run) return PrintForecast(response->forecast(), context);
  PrintResults(response->results(), context);
  return kExitOk;
}

}  // namespace

void AddPause(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "pause", "Moves the bytes of processes out of GPU memory; they wait until they are resumed");
  auto options = std::make_shared<PauseOptions>();
  AddSelector(*verb, options->selector);
  AddPolicies(*verb, options->policy, options->tag_policies);
  AddLeavingOptions(*verb, options->leaving);
  verb->add_flag("--allow-empty", options->allow_empty,
                 "No process that matches, or none with a tag that is named, is no error");
  verb->add_option("--chunk", options->chunk, "Host memory that staging for disk may use (256MiB)")
      ->check(IsSize(16_MiB, 4_GiB))
      ->type_name("SIZE");
  verb->add_option("--gate", options->gate,
                   "closed (default): the processes wait at their next CUDA call; open: they go "
                   "on, and must not touch what is out")
      ->check(CLI::IsMember({"closed", "open"}).description(""))
      ->type_name("MODE");
  verb->add_option("--gated-work", options->gated_work,
                   "At a closed gate a call that submits work waits: block (default), or returns "
                   "an error: fail")
      ->check(CLI::IsMember({"block", "fail"}).description(""))
      ->type_name("WAY");
  verb->add_option("--gated-allocations", options->gated_allocations,
                   "At a closed gate an allocation does as other work: as-work (default), or goes "
                   "through: pass")
      ->check(CLI::IsMember({"as-work", "pass"}).description(""))
      ->type_name("WAY");
  verb->add_option("--on-exported", options->on_exported,
                   "Memory that other processes map by CUDA IPC: broker (default) moves what only "
                   "processes of this pause map, keep leaves it, refuse refuses the pause when "
                   "others map it")
      ->check(CLI::IsMember({"keep", "refuse", "broker"}).description(""))
      ->type_name("WAY");
  verb->add_option("--elision", options->elision,
                   "What tells bytes that need not move since the last backup has them: hash "
                   "(default), bytes (compares them too), or off: all move")
      ->check(CLI::IsMember({"hash", "bytes", "off"}).description(""))
      ->type_name("WAY");
  verb->add_flag(
      "--deep", options->deep,
      "Then the driver's process checkpoint takes the rest, contexts and modules, out of "
      "GPU memory too; where it cannot, the processes are paused and the answer says why");
  verb->add_flag("--release-host", options->release_host,
                 "With --write-behind: give pinned host memory back to the system afterwards");
  AddTransitionOptions(*verb, options->shared);
  verb->callback([&context, options] {
    context.verb = [&context, options] { return Pause(*options, context); };
  });
}

}  // namespace parkade::cli
