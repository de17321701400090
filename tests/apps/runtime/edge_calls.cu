// Calls at the edges of what the CUDA runtime allows, and its last-error state after each: a line a
// case, with what differs from run to run told as a relation. The runtime's twin of edge_calls/.
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr size_t kSmall = 5000;
constexpr size_t kMiddle = (3 << 20) + 100;
char host_bytes[4 << 20];

std::string line;

__attribute__((format(printf, 1, 2))) void Note(const char* format, ...) {
  char words[256];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  line += ' ';
  line += words;
}

// What a call said, and what the runtime says of it before it is asked to forget.
void Code(const char* call, cudaError_t result) {
  Note("%s=%s", call, cudaGetErrorName(result));
  const cudaError_t seen = cudaPeekAtLastError();
  if (seen != result) Note("peek=%s", cudaGetErrorName(seen));
}

void* Untouched() { return reinterpret_cast<void*>(0xabcdef00abcdef00); }
const char* Touched(const void* p) {
  return p == Untouched() ? "untouched" : p == nullptr ? "null" : "set";
}

char* Allocated(size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) {
    fprintf(stderr, "edge_calls: cudaMalloc of %zu bytes failed\n", bytes);
    exit(2);
  }
  return static_cast<char*>(p);
}

void Malloc(size_t bytes) {
  void* p = Untouched();
  const cudaError_t r = cudaMalloc(&p, bytes);
  Code("malloc", r);
  Note("out=%s", Touched(p));
  if (r == cudaSuccess) Code("free", cudaFree(p));
}

void Pitch(size_t width, size_t height) {
  void* p = Untouched();
  size_t pitch = 77;
  const cudaError_t r = cudaMallocPitch(&p, &pitch, width, height);
  Code("malloc", r);
  Note("out=%s pitch=%zu", Touched(p), pitch);
  if (r == cudaSuccess) Code("free", cudaFree(p));
}

void Attributes(const char* what, const void* at, const void* base) {
  cudaPointerAttributes attributes;
  memset(&attributes, 0x11, sizeof attributes);
  Code(what, cudaPointerGetAttributes(&attributes, at));
  Note("type=%d device=%d", int(attributes.type), attributes.device);
  for (const void* p : {attributes.devicePointer, attributes.hostPointer}) {
    if (p == nullptr) {
      Note("null");
    } else {
      Note("%+lld", static_cast<long long>(uintptr_t(p) - uintptr_t(base)));
    }
  }
}

// `work` while a stream of another thread's, or of this one, captures.
template <typename Work>
void DuringCapture(cudaStreamCaptureMode mode, bool elsewhere, Work work) {
  cudaStream_t stream;
  cudaGraph_t graph = nullptr;
  char* target = Allocated(4096);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, mode);
  cudaMemsetAsync(target, 1, 4096, stream);
  if (elsewhere) {
    std::thread([&] {
      work();
      Note("there=%s", cudaGetErrorName(cudaGetLastError()));
    }).join();
  } else {
    work();
  }
  Code("end", cudaStreamEndCapture(stream, &graph));
  Note("graph=%d", graph != nullptr);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaFree(target);
}

void MallocInCapture(cudaStreamCaptureMode mode, bool elsewhere) {
  void* p = nullptr;
  DuringCapture(mode, elsewhere, [&] { Code("malloc", cudaMalloc(&p, kSmall)); });
  if (p != nullptr) Code("free", cudaFree(p));
}

void FreeInCapture(cudaStreamCaptureMode mode, bool elsewhere) {
  char* p = Allocated(kMiddle);
  DuringCapture(mode, elsewhere, [&] { Code("free", cudaFree(p)); });
  Code("again", cudaFree(p));
}

struct Case {
  const char* name;
  void (*run)();
};

const Case kCases[] = {
    {"malloc_zero_bytes", [] { Malloc(0); }},
    {"malloc_one_byte", [] { Malloc(1); }},
    {"malloc_32_tib", [] { Malloc(size_t(32) << 40); }},
    {"malloc_size_max", [] { Malloc(SIZE_MAX); }},
    {"malloc_null_out", [] { Code("malloc", cudaMalloc(static_cast<void**>(nullptr), 10)); }},
    {"malloc_null_out_zero_bytes",
     [] { Code("malloc", cudaMalloc(static_cast<void**>(nullptr), 0)); }},
    {"free_null", [] { Code("free", cudaFree(nullptr)); }},
    {"free_twice",
     [] {
       char* p = Allocated(kSmall);
       Code("once", cudaFree(p));
       Code("twice", cudaFree(p));
     }},
    {"free_inside",
     [] {
       char* p = Allocated(kMiddle);
       Code("inside", cudaFree(p + 4096));
       Code("base", cudaFree(p));
     }},
    {"free_host_memory", [] { Code("free", cudaFree(host_bytes)); }},
    {"free_pinned",
     [] {
       void* p = nullptr;
       Code("malloc", cudaMallocHost(&p, kSmall));
       Code("free", cudaFree(p));
       Code("free_host", cudaFreeHost(p));
     }},
    {"free_host_of_device_memory",
     [] {
       char* p = Allocated(kMiddle);
       Code("free_host", cudaFreeHost(p));
       Code("free", cudaFree(p));
     }},
    {"pitch", [] { Pitch(1000, 10); }},
    {"pitch_zero_width", [] { Pitch(0, 10); }},
    {"pitch_zero_height", [] { Pitch(10, 0); }},
    {"pitch_huge", [] { Pitch(SIZE_MAX - 5, 2); }},
    {"pitch_null",
     [] {
       size_t pitch = 77;
       void* p = Untouched();
       Code("no_out", cudaMallocPitch(static_cast<void**>(nullptr), &pitch, 10, 10));
       Code("no_pitch", cudaMallocPitch(&p, nullptr, 10, 10));
       Note("out=%s pitch=%zu", Touched(p), pitch);
     }},
    {"box",
     [] {
       cudaPitchedPtr p;
       memset(&p, 0, sizeof p);
       const cudaError_t r = cudaMalloc3D(&p, make_cudaExtent(100, 10, 3));
       Code("malloc", r);
       Note("pitch=%zu", p.pitch);
       if (r == cudaSuccess) Code("free", cudaFree(p.ptr));
     }},
    {"managed_zero_bytes",
     [] {
       void* p = Untouched();
       Code("malloc", cudaMallocManaged(&p, 0));
       Note("out=%s", Touched(p));
     }},
    {"attributes_device",
     [] {
       char* p = Allocated(kSmall);
       Attributes("base", p, p);
       Attributes("inside", p + 100, p);
       Attributes("end", p + kSmall, p);
       cudaFree(p);
       Attributes("freed", p, p);
     }},
    {"attributes_middle",
     [] {
       char* p = Allocated(kMiddle);
       Attributes("last", p + kMiddle - 1, p);
       Attributes("end", p + kMiddle, p);
       cudaFree(p);
       Attributes("freed", p, p);
     }},
    {"attributes_host",
     [] {
       void* p = nullptr;
       cudaMallocHost(&p, kSmall);
       Attributes("pinned", p, p);
       cudaFreeHost(p);
       Attributes("plain", host_bytes, host_bytes);
       Attributes("null", nullptr, nullptr);
       Code("no_out", cudaPointerGetAttributes(nullptr, host_bytes));
     }},
    {"attributes_managed",
     [] {
       char* p = nullptr;
       cudaMallocManaged(&p, kSmall);
       Attributes("managed", p + 10, p);
       cudaFree(p);
     }},
    {"memset_ends",
     [] {
       char* p = Allocated(kMiddle);
       Code("whole", cudaMemset(p, 1, kMiddle));
       Code("one_more", cudaMemset(p, 1, kMiddle + 1));
       Code("null", cudaMemset(nullptr, 1, 10));
       Code("nothing", cudaMemset(nullptr, 1, 0));
       cudaFree(p);
     }},
    {"memcpy_ends",
     [] {
       char* p = Allocated(kMiddle);
       Code("whole", cudaMemcpy(host_bytes, p, kMiddle, cudaMemcpyDefault));
       Code("in", cudaMemcpy(p, host_bytes, kMiddle + 1, cudaMemcpyHostToDevice));
       Code("out", cudaMemcpy(host_bytes, p, kMiddle + 1, cudaMemcpyDeviceToHost));
       Code("bad_kind", cudaMemcpy(host_bytes, p, 10, cudaMemcpyKind(99)));
       Code("null", cudaMemcpy(p, nullptr, 10, cudaMemcpyHostToDevice));
       cudaFree(p);
     }},
    {"memcpy_rows",
     [] {
       char* p = Allocated(4096);
       Code("fits", cudaMemcpy2D(p, 512, host_bytes, 512, 500, 8, cudaMemcpyHostToDevice));
       Code("wide", cudaMemcpy2D(p, 100, host_bytes, 512, 500, 8, cudaMemcpyHostToDevice));
       cudaFree(p);
     }},
    {"last_error_stays_until_read",
     [] {
       Malloc(SIZE_MAX);
       char* p = Allocated(kSmall);
       Note("peek=%s", cudaGetErrorName(cudaPeekAtLastError()));
       Note("get=%s", cudaGetErrorName(cudaGetLastError()));
       Note("get=%s", cudaGetErrorName(cudaGetLastError()));
       cudaFree(p);
     }},
    {"last_error_is_the_threads_own",
     [] {
       Malloc(SIZE_MAX);
       std::thread([] { Note("there=%s", cudaGetErrorName(cudaPeekAtLastError())); }).join();
     }},
    {"information_null",
     [] {
       size_t bytes = 0;
       Code("free", cudaMemGetInfo(&bytes, nullptr));
       Code("both", cudaMemGetInfo(nullptr, nullptr));
     }},
    {"malloc_async_zero_bytes",
     [] {
       void* p = Untouched();
       Code("malloc", cudaMallocAsync(&p, 0, nullptr));
       Note("out=%s", Touched(p));
     }},
    {"free_async_plain_memory",
     [] {
       char* p = Allocated(kMiddle);
       Code("free", cudaFreeAsync(p, nullptr));
       Code("wait", cudaDeviceSynchronize());
       Code("again", cudaFree(p));
     }},
    {"free_async_null", [] { Code("free", cudaFreeAsync(nullptr, nullptr)); }},
    {"ipc",
     [] {
       char* p = Allocated(kMiddle);
       cudaIpcMemHandle_t handle;
       void* opened = Untouched();
       Code("get", cudaIpcGetMemHandle(&handle, p));
       Code("inside", cudaIpcGetMemHandle(&handle, p + 100));
       Code("open", cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
       Note("out=%s", Touched(opened));
       Code("close", cudaIpcCloseMemHandle(p));
       Code("host", cudaIpcGetMemHandle(&handle, host_bytes));
       cudaFree(p);
     }},
    {"register_device_memory",
     [] {
       char* p = Allocated(kMiddle);
       Code("register", cudaHostRegister(p, 4096, 0));
       Code("unregister", cudaHostUnregister(p));
       cudaFree(p);
     }},
    {"malloc_in_global_capture", [] { MallocInCapture(cudaStreamCaptureModeGlobal, false); }},
    {"malloc_beside_global_capture", [] { MallocInCapture(cudaStreamCaptureModeGlobal, true); }},
    {"malloc_in_thread_local_capture",
     [] { MallocInCapture(cudaStreamCaptureModeThreadLocal, false); }},
    {"malloc_in_relaxed_capture", [] { MallocInCapture(cudaStreamCaptureModeRelaxed, false); }},
    {"free_in_global_capture", [] { FreeInCapture(cudaStreamCaptureModeGlobal, false); }},
    {"free_beside_global_capture", [] { FreeInCapture(cudaStreamCaptureModeGlobal, true); }},
    {"free_in_relaxed_capture", [] { FreeInCapture(cudaStreamCaptureModeRelaxed, false); }},
    {"reset_takes_all_memory",
     [] {
       char* p = Allocated(kMiddle);
       Code("reset", cudaDeviceReset());
       Code("free", cudaFree(p));
       Malloc(kMiddle);
     }},
};

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
  const char* from = argc > 2 && strcmp(argv[1], "--from") == 0 ? argv[2] : nullptr;
  if (!list) cudaFree(nullptr);
  for (const Case& c : kCases) {
    if (from != nullptr && strcmp(from, c.name) != 0) continue;
    from = nullptr;
    if (list) {
      puts(c.name);
      continue;
    }
    cudaGetLastError();
    line.clear();
    c.run();
    Note("last=%s", cudaGetErrorName(cudaGetLastError()));
    Note("then=%s", cudaGetErrorName(cudaGetLastError()));
    printf("%s:%s\n", c.name, line.c_str());
  }
}
