// Checks which processes run without the library, and looks for the reason in how they were
// started.
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"
#include "cli/preload.h"

namespace parkade::cli {
namespace {

struct Reason {
  std::string why;
  std::string fix;
};

std::string ValueOf(const SeenProcess& process, const std::string& name) {
  const auto at = process.environment.find(name);
  return at == process.environment.end() ? "" : at->second;
}

// The entry of LD_PRELOAD that is our library; empty: none is.
std::string Preloaded(const SeenProcess& process) {
  const std::string preload = ValueOf(process, "LD_PRELOAD");
  for (const std::string& entry : std::vector<std::string>(
           absl::StrSplit(preload, absl::ByAnyChar(": "), absl::SkipEmpty()))) {
    if (absl::StrContains(entry, "libparkade")) return entry;
  }
  return "";
}

bool IsRayWorker(const SeenProcess& process) {
  return absl::StartsWith(process.command, "ray::") ||
         absl::StrContains(process.command, "default_worker.py");
}

// The nearest ancestor that was started with the library in LD_PRELOAD; null: none.
const SeenProcess* PreloadingAncestor(const ProcessTree& tree, const SeenProcess& process) {
  const SeenProcess* at = &process;
  for (size_t steps = 0; steps < tree.size(); ++steps) {
    const auto parent = tree.find(at->parent);
    if (parent == tree.end()) return nullptr;
    at = &parent->second;
    if (!Preloaded(*at).empty()) return at;
  }
  return nullptr;
}

Reason WhyWithout(const KernelFiles& files, const ProcessTree& tree, const SeenProcess& process) {
  const std::string entry = Preloaded(process);
  if (!entry.empty()) {
    const std::string there = absl::StrCat(files.proc, "/", process.pid, "/root", entry);
    struct stat s;
    if (entry[0] == '/' && stat(there.c_str(), &s) != 0) {
      return {
          absl::StrCat("LD_PRELOAD names ", entry, ", which is not in its container"),
          absl::StrCat("docker run -v ", entry, ":", entry, ":ro -v /run/parkade:/run/parkade")};
    }
    return {
        "LD_PRELOAD names the library and the loader left it out, as for setuid and static "
        "programs",
        absl::StrCat("LD_DEBUG=libs LD_PRELOAD=", entry, " ", process.command)};
  }
  if (IsRayWorker(process)) {
    return {"a Ray worker has the environment of its runtime_env alone, and that has no LD_PRELOAD",
            "Actor.options(runtime_env=parkade.ray.runtime_env(job=\"JOB\"))"};
  }
  if (const SeenProcess* ancestor = PreloadingAncestor(tree, process)) {
    return {absl::StrCat("process ", ancestor->pid,
                         " above it has LD_PRELOAD, and something between started it with a clean "
                         "environment (sudo, env -i, ssh, a launcher)"),
            absl::StrCat("env LD_PRELOAD=", Preloaded(*ancestor), " ", process.command)};
  }
  return {"it was started without `parkade run`", absl::StrCat("parkade run -- ", process.command)};
}

Finding Judge(const KernelFiles& files, const ProcessTree& tree, const SeenProcess& process) {
  const std::string who = absl::StrCat("process ", process.pid, " (", process.command, ")");
  if (!process.visible) {
    return {Level::kNote, "processes",
            absl::StrCat(who, " cannot be looked at: it is another user's"),
            absl::StrCat("sudo parkade doctor --pid ", process.pid)};
  }
  const Reason reason = WhyWithout(files, tree, process);
  return {process.has_driver ? Level::kWarning : Level::kNote, "processes",
          absl::StrCat(who, process.has_driver ? " uses the driver" : " runs",
                       " without libparkade.so: ", reason.why),
          reason.fix};
}

}  // namespace

Findings CheckTree(const KernelFiles& files, std::optional<pid_t> root) {
  const ProcessTree tree = ReadProcessTree(files.proc);
  if (root && tree.find(*root) == tree.end()) {
    return {
        {Level::kError, "processes", absl::StrCat("there is no process ", *root), "parkade ps"}};
  }
  Findings found;
  size_t with = 0;
  for (const auto& [pid, process] : tree) {
    if (root && !IsBeneath(tree, pid, *root)) continue;
    with += process.has_library;
    if (process.has_library || ValueOf(process, "PARKADE") == "off") continue;
    // Without a tree to look at, only who has to do with a GPU.
    if (root || process.has_driver) found.push_back(Judge(files, tree, process));
  }
  const std::string which = root ? absl::StrCat(" beneath ", *root) : "";
  found.insert(found.begin(), {Level::kOk, "processes",
                               absl::StrCat(with, " processes", which, " have libparkade.so"), ""});
  for (Finding& finding : found) {
    finding.text = Printable(finding.text);
    finding.fix = Printable(finding.fix);
  }
  return found;
}

}  // namespace parkade::cli
