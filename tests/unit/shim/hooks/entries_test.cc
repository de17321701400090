// The generated tables: names, policies, and what cuGetProcAddress means by a name.
#include "shim/hooks/entries.h"

#include <catch2/catch.hpp>
#include <string>

using namespace parkade::shim;

TEST_CASE("every name is found under itself and nothing else is") {
  for (int i = 0; i < kEntryCount; ++i) {
    const auto found = FindEntry(NameOf(Entry(i)));
    REQUIRE(found);
    REQUIRE(int(*found) == i);
  }
  for (const char* name : {"", "c", "cu", "cuInit2", "cuIni", "cudnnCreate", "cublasCreate",
                           "cuFileOpen", "cuZzz", "CUInit"}) {
    INFO(name);
    CHECK_FALSE(FindEntry(name));
  }
}

TEST_CASE("submitting is gated, waiting never is, in every form of a name") {
  for (Entry e :
       {Entry::cuLaunchKernel, Entry::cuLaunchKernel_ptsz, Entry::cuLaunchKernelEx,
        Entry::cuLaunchCooperativeKernel, Entry::cuMemcpyHtoD, Entry::cuMemcpyBatchAsync_v2_ptsz,
        Entry::cuMemsetD8Async, Entry::cuStreamWriteValue64_v2_ptsz, Entry::cuModuleLoadData,
        Entry::cuGraphInstantiateWithFlags}) {
    INFO(NameOf(e));
    CHECK(PolicyOf(e) == Policy::kGate);
  }
  for (int i = 0; i < kEntryCount; ++i) {
    const std::string name = NameOf(Entry(i));
    INFO(name);
    if (name.starts_with("cuLaunch") || name.starts_with("cuMemcpy") ||
        name.starts_with("cuMemset")) {
      const bool gated = PolicyOf(Entry(i)) == Policy::kGate || PolicyOf(Entry(i)) == Policy::kCopy;
      CHECK(gated);
    }
    // With a handler, which custom_gate_test finds waiting.
    if (name.starts_with("cuGraphLaunch")) CHECK(PolicyOf(Entry(i)) == Policy::kCustom);
    if (name.find("Synchronize") != name.npos || name.starts_with("cuEventQuery") ||
        name.starts_with("cuStreamQuery")) {
      CHECK(PolicyOf(Entry(i)) == Policy::kWait);
    }
  }
}

TEST_CASE("a name means its newest form that is not newer than the version asked for") {
  CHECK(FindVersion("cuMemAlloc", 2000, false) == Entry::cuMemAlloc);
  CHECK(FindVersion("cuMemAlloc", 3019, false) == Entry::cuMemAlloc);
  CHECK(FindVersion("cuMemAlloc", 3020, false) == Entry::cuMemAlloc_v2);
  CHECK(FindVersion("cuMemAlloc", kToolkitVersion, true) == Entry::cuMemAlloc_v2);
  CHECK(FindVersion("cuCtxCreate", 11030, false) == Entry::cuCtxCreate_v2);
  CHECK(FindVersion("cuCtxCreate", 11040, false) == Entry::cuCtxCreate_v3);
  CHECK(FindVersion("cuCtxCreate", kToolkitVersion, false) == Entry::cuCtxCreate_v4);
  CHECK(FindVersion("cuMemcpyHtoD", 6000, true) == Entry::cuMemcpyHtoD_v2);
  CHECK(FindVersion("cuMemcpyHtoD", 7000, true) == Entry::cuMemcpyHtoD_v2_ptds);
  CHECK(FindVersion("cuMemcpyHtoD", 7000, false) == Entry::cuMemcpyHtoD_v2);
}

TEST_CASE("what is older than a name, newer than the headers or no base name has no form") {
  CHECK_FALSE(FindVersion("cuMemCreate", 10010, false));
  CHECK_FALSE(FindVersion("cuMemAlloc", kToolkitVersion + 1, false));
  CHECK_FALSE(FindVersion("cuMemAlloc_v2", kToolkitVersion, false));
  CHECK_FALSE(FindVersion("", 0, false));
}

TEST_CASE("every exported form is reachable by some version") {
  for (int i = 0; i < kEntryVersionCount; ++i) {
    const EntryVersion& form = kEntryVersions[i];
    INFO(NameOf(form.entry));
    CHECK(FindVersion(NameOf(form.base), form.since, form.per_thread) == form.entry);
  }
  CHECK(kEntryVersionCount == kEntryCount);
}

TEST_CASE("graphics names are told apart") {
  CHECK(IsGraphicsName("cuGraphicsGLRegisterBuffer"));
  CHECK(IsGraphicsName("cuEGLStreamConsumerConnect"));
  CHECK_FALSE(IsGraphicsName("cuGraphicsMapResources"));
  CHECK_FALSE(IsGraphicsName(""));
}
