// Answers, and the memory, contexts and streams that cases stand on.
#include "tests/apps/edge_calls/case.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

// Still exported; the header of toolkit 13 has replaced it.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);

alignas(4096) char host_bytes[1 << 20];

Answer& Answer::Code(CUresult result) { return Note("%s", Name(result)); }

Answer& Answer::Code(const char* call, CUresult result) {
  return Note("%s=%s", call, Name(result));
}

Answer& Answer::Note(const char* format, ...) {
  char words[512];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  if (!text_.empty()) text_ += ' ';
  text_ += words;
  return *this;
}

std::string From(CUdeviceptr base, CUdeviceptr at) {
  if (at == kUntouched) return "untouched";
  if (at == 0) return "null";
  char words[32];
  snprintf(words, sizeof words, "%+lld", static_cast<long long>(at - base));
  return words;
}

const char* Name(CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) return "no-such-code";
  for (const char* prefix : {"CUDA_ERROR_", "CUDA_"}) {
    if (strncmp(name, prefix, strlen(prefix)) == 0) return name + strlen(prefix);
  }
  return name;
}

void Must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "edge_calls: %s: %s\n", call, Name(result));
  exit(2);
}

CUcontext PrimaryContext() {
  static const CUcontext primary = [] {
    CUcontext context = nullptr;
    Must(cuInit(0), "cuInit");
    Must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    return context;
  }();
  return primary;
}

Memory::Memory(size_t bytes) : bytes_(bytes) { Must(cuMemAlloc(&base_, bytes), "cuMemAlloc"); }
Memory::~Memory() { Must(cuMemFree(base_), "cuMemFree"); }

Freed::Freed(size_t bytes) : neighbour_(bytes) {
  Must(cuMemAlloc(&base_, bytes), "cuMemAlloc");
  Must(cuMemFree(base_), "cuMemFree");
}

void OnThread(CUcontext context, const std::function<void()>& work) {
  std::thread([&] {
    Must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    work();
  }).join();
}

OtherContext::OtherContext() { Must(cuCtxCreate_v2(&context_, 0, 0), "cuCtxCreate"); }
OtherContext::~OtherContext() { Destroy(); }

void OtherContext::Destroy() {
  if (context_ == nullptr) return;
  Must(cuCtxDestroy(context_), "cuCtxDestroy");
  Forget();
}

void OtherContext::Forget() {
  context_ = nullptr;
  Must(cuCtxSetCurrent(PrimaryContext()), "cuCtxSetCurrent");
}

Stream::Stream() { Must(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); }
Stream::~Stream() { Must(cuStreamDestroy(stream_), "cuStreamDestroy"); }
