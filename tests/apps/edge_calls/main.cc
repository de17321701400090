// edge_calls: makes calls at the edges of what the driver API allows, and prints a line for each
// case: its name, the codes, and what the out-parameters held. Knows nothing of Parkade; the same
// lines must come with it and without.
//
//   edge_calls               all cases
//   edge_calls --list        their names
//   edge_calls --from NAME   that case and those behind it
//   edge_calls --watch       what queries say of some allocations, once for each line of input
//
// A fault of the GPU takes the context and all that is in it. So children run the cases, and where
// one ends early its case is said to be LOST and the next child goes on behind it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/apps/edge_calls/case.h"
#include "tests/apps/edge_calls/watch.h"

namespace {

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const auto subject :
       {AllocationCases(), StreamOrderedCases(), PitchedCases(), AttributeCases(), RangeCases(),
        SharingCases(), ContextCases(), InformationCases(), FillCases(), CopyCases(),
        CaptureCases(), HostMemoryCases(), ManagedCases(), MappingCases(), OwnMappingCases(),
        GraphCases(), ResolverCases()}) {
    all.insert(all.end(), subject.begin(), subject.end());
  }
  return all;
}

// Whether the context still works after the case: its error would stick.
bool Run(const Case& c) {
  Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
  Answer answer;
  c.run(answer);
  const CUresult state = cuCtxSynchronize();
  if (state != CUDA_SUCCESS) answer.Code("context", state);
  printf("%s: %s\n", c.name, answer.text().c_str());
  return state == CUDA_SUCCESS;
}

// Runs the cases from `*at` on and keeps it at the one that has no line yet.
[[noreturn]] void RunAsChild(const std::vector<Case>& cases, volatile size_t* at) {
  bool works = true;
  while (works && *at < cases.size()) {
    works = Run(cases[*at]);
    *at = *at + 1;
  }
  exit(0);
}

// Makes no call of CUDA itself, for none may be made on both sides of a fork.
int RunFrom(const std::vector<Case>& cases, size_t first) {
  void* shared =
      mmap(nullptr, sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 71;
  auto* at = static_cast<volatile size_t*>(shared);
  *at = first;
  int result = 0;
  while (*at < cases.size()) {
    const size_t began = *at;
    const pid_t child = fork();
    if (child == 0) RunAsChild(cases, at);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 71;
    if (*at == cases.size() || (status == 0 && *at > began)) continue;
    printf("%s: LOST %s=%d\n", cases[*at].name, WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    *at = *at + 1;
    result = 1;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const char* verb = argc > 1 ? argv[1] : "";
  const char* from = argc > 2 && strcmp(verb, "--from") == 0 ? argv[2] : nullptr;
  if (argc > 1 && from == nullptr && strcmp(verb, "--list") != 0 && strcmp(verb, "--watch") != 0) {
    fputs("usage: edge_calls [--list | --from NAME | --watch]\n", stderr);
    return 64;
  }
  if (strcmp(verb, "--watch") == 0) return Watch();
  const std::vector<Case> cases = AllCases();
  if (strcmp(verb, "--list") == 0) {
    for (const Case& c : cases) puts(c.name);
    return 0;
  }
  size_t first = 0;
  while (from != nullptr && first < cases.size() && strcmp(from, cases[first].name) != 0) ++first;
  return first < cases.size() ? RunFrom(cases, first) : 64;
}
