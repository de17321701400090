// edge_calls: makes calls at the edges of what the driver API allows, and prints a line for each
// case: its name, the codes, and what the out-parameters held. Knows nothing of Parkade; the same
// lines must come with it and without.
//
//   edge_calls               all cases
//   edge_calls --list        their names
//   edge_calls --from NAME   that case and those behind it
//   edge_calls --watch       what queries say of some allocations, once for each line of input
#include <unistd.h>

#include <cstdio>
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

// Whether the context still works after a case: its error would stick.
void CheckContext(Answer& answer) {
  const CUresult state = cuCtxSynchronize();
  if (state != CUDA_SUCCESS) answer.Code("context", state);
}

void Run(const Case& c) {
  Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
  Answer answer;
  c.run(answer);
  CheckContext(answer);
  printf("%s: %s\n", c.name, answer.text().c_str());
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
  for (const Case& c : AllCases()) {
    if (strcmp(verb, "--list") == 0) {
      puts(c.name);
    } else if (from == nullptr || strcmp(from, c.name) == 0) {
      from = nullptr;
      Run(c);
    }
  }
  return from == nullptr ? 0 : 64;
}
