// An ordinary CUDA runtime program that checks its own bytes: buffers of many sizes, a kernel for
// each and step, every other step captured and launched as a graph. Speaks as stepper does. The sizes
// may be given as arguments.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  exit(1);
}

__host__ __device__ unsigned Word(unsigned seed, size_t i) {
  return seed * 2654435761u + unsigned(i) * 40503u;
}

// Counts the words that are not Word(seed, i), and makes them Word(seed + 1, i).
__global__ void Advance(unsigned* words, size_t count, unsigned seed, unsigned long long* wrong) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (words[i] != Word(seed, i)) atomicAdd(wrong, 1ull);
    words[i] = Word(seed + 1, i);
  }
}

__global__ void Fill(unsigned* words, size_t count, unsigned seed) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    words[i] = Word(seed, i);
  }
}

struct Buffer {
  unsigned* words;
  size_t count;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) {
    // Around every border that the heap has.
    sizes = {4,        4096,     1 << 20,        (1 << 20) + 4, 2 << 20,
             20 << 20, 32 << 20, (32 << 20) + 4, 600 << 20};
  }
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  unsigned long long* wrong;
  Check(cudaMalloc(&wrong, sizeof *wrong), "counter");
  Check(cudaMemset(wrong, 0, sizeof *wrong), "counter");
  std::vector<Buffer> buffers(sizes.size());
  size_t bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const size_t size = sizes[i];
    Buffer& b = buffers[i];
    b.count = size / 4;
    Check(cudaMalloc(&b.words, size), "cudaMalloc");
    Fill<<<1024, 256, 0, stream>>>(b.words, b.count, 1000 + unsigned(i));
    bytes += size;
  }
  Check(cudaStreamSynchronize(stream), "fill");
  printf("stepper pid %d ready: %zu buffers, %zu bytes\n", int(getpid()), buffers.size(), bytes);
  fflush(stdout);

  unsigned step = 0;
  for (; getchar() == '\n'; ++step) {
    cudaGraph_t graph = nullptr;
    if (step % 2 == 1)
      Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (size_t i = 0; i < buffers.size(); ++i) {
      Advance<<<1024, 256, 0, stream>>>(buffers[i].words, buffers[i].count,
                                        1000 + unsigned(i) + step, wrong);
    }
    if (step % 2 == 1) {
      Check(cudaStreamEndCapture(stream, &graph), "end of capture");
      cudaGraphExec_t exec;
      Check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
      Check(cudaGraphLaunch(exec, stream), "graph launch");
      Check(cudaStreamSynchronize(stream), "graph");
      Check(cudaGraphExecDestroy(exec), "graph");
      Check(cudaGraphDestroy(graph), "graph");
    }
    unsigned long long count = 0;
    Check(cudaMemcpyAsync(&count, wrong, sizeof count, cudaMemcpyDeviceToHost, stream), "copy");
    Check(cudaStreamSynchronize(stream), "step");
    if (count != 0) {
      fprintf(stderr, "step %u: %llu words are wrong\n", step, count);
      return 1;
    }
    printf("step %u ok bytes=%zu\n", step, bytes);
    fflush(stdout);
  }
  for (Buffer& b : buffers) Check(cudaFree(b.words), "cudaFree");
  printf("done after %u steps, every byte right\n", step);
  return 0;
}
