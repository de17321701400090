// Checks variables in the environment of programs that change what a pause can do.
#include <unistd.h>

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/doctor_checks.h"
#include "cli/format.h"

namespace parkade::cli {
namespace {

// What is said of one process, so that the same of many is said once.
using Remark = std::tuple<Level, std::string, std::string>;

std::string Get(const Variables& variables, const std::string& name) {
  const auto at = variables.find(name);
  return at == variables.end() ? "" : at->second;
}

// As `parkade run` knows that there are several ranks.
bool IsOneOfSeveral(const Variables& variables) {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    int64_t ranks = 0;
    if (absl::SimpleAtoi(Get(variables, name), &ranks) && ranks > 1) return true;
  }
  return false;
}

void JudgeNccl(const Variables& variables, std::set<Remark>& remarks) {
  if (!IsOneOfSeveral(variables)) return;
  const bool registers =
      Get(variables, "NCCL_GRAPH_REGISTER") != "0" || Get(variables, "NCCL_LOCAL_REGISTER") != "0";
  if (registers) {
    remarks.emplace(Level::kWarning,
                    "NCCL may register memory by itself, which then stays in GPU memory",
                    "export NCCL_GRAPH_REGISTER=0 NCCL_LOCAL_REGISTER=0");
  }
  if (Get(variables, "NCCL_NVLS_ENABLE") != "0") {
    remarks.emplace(Level::kNote, "NCCL may use NVLS, whose memory never moves",
                    "export NCCL_NVLS_ENABLE=0");
  }
}

void JudgeAllocator(const Variables& variables, std::set<Remark>& remarks) {
  for (const std::string name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const std::string value = Get(variables, name);
    if (absl::StrContains(value, "backend:cudaMallocAsync")) {
      remarks.emplace(Level::kWarning,
                      absl::StrCat(name, " takes memory from CUDA's own pools, which never moves"),
                      absl::StrCat("export ", name, "=backend:native"));
    }
    if (absl::StrContains(value, "expandable_segments:True")) {
      remarks.emplace(Level::kNote,
                      absl::StrCat(name,
                                   " has expandable segments: whole pauses work, "
                                   "parkade.tag() does not go with them"),
                      absl::StrCat("export ", name, "=expandable_segments:False"));
    }
  }
}

void JudgeRest(const Variables& variables, std::set<Remark>& remarks) {
  if (Get(variables, "PARKADE") == "off") {
    remarks.emplace(Level::kNote, "PARKADE=off keeps the library inert", "unset PARKADE");
  }
  for (const std::string name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    if (Get(variables, name).empty()) continue;
    remarks.emplace(Level::kNote, absl::StrCat(name, " is set: a profiler is loaded"),
                    absl::StrCat("unset ", name));
  }
  if (Get(variables, "RAY_LD_PRELOAD_ON_WORKERS") == "0") {
    remarks.emplace(Level::kWarning,
                    "RAY_LD_PRELOAD_ON_WORKERS=0 removes LD_PRELOAD from Ray's workers",
                    "unset RAY_LD_PRELOAD_ON_WORKERS");
  }
}

std::set<Remark> Judge(const Variables& variables) {
  std::set<Remark> remarks;
  JudgeNccl(variables, remarks);
  JudgeAllocator(variables, remarks);
  JudgeRest(variables, remarks);
  return remarks;
}

}  // namespace

Findings CheckEnvironment(const KernelFiles& files, std::optional<pid_t> root) {
  const ProcessTree tree = ReadProcessTree(files.proc);
  std::map<Remark, std::vector<pid_t>> all;
  size_t looked_at = 0;
  for (const auto& [pid, process] : tree) {
    if (root ? !IsBeneath(tree, pid, *root) : !process.has_library) continue;
    if (process.environment.empty()) continue;
    ++looked_at;
    for (const Remark& remark : Judge(process.environment)) all[remark].push_back(pid);
  }
  const bool own = looked_at == 0;
  if (own) {
    const Variables variables = ParseEnvironment(ReadSmallFile(files.proc + "/self/environ"));
    for (const Remark& remark : Judge(variables)) all[remark];
  }
  Findings found;
  for (const auto& [remark, pids] : all) {
    const auto& [level, text, fix] = remark;
    const std::string who = own ? "in this shell" : absl::StrCat("in ", absl::StrJoin(pids, ", "));
    found.push_back({level, "environment", absl::StrCat(text, " (", who, ")"), fix});
  }
  if (found.empty()) {
    found.push_back({Level::kOk, "environment",
                     own ? std::string("no variable of this shell stands in the way of pauses")
                         : absl::StrCat("no variable of the ", looked_at,
                                        " processes stands in the way of pauses"),
                     ""});
  }
  return found;
}

}  // namespace parkade::cli
