// A library with a CUDA runtime of its own inside: two copies of it are two runtimes in one process.
#include <cuda_runtime.h>

namespace {

__global__ void Add(unsigned* words, size_t count, unsigned delta) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    words[i] += delta;
  }
}

unsigned* words = nullptr;
size_t count = 0;

}  // namespace

// Each returns a cudaError_t.
extern "C" int plugin_begin(size_t bytes) {
  count = bytes / sizeof(unsigned);
  const cudaError_t made = cudaMalloc(&words, bytes);
  return made != cudaSuccess ? made : cudaMemset(words, 0, bytes);
}

extern "C" int plugin_add(unsigned delta) {
  Add<<<256, 256>>>(words, count, delta);
  return cudaDeviceSynchronize();
}

// The first and the last word.
extern "C" int plugin_read(unsigned* first, unsigned* last) {
  const cudaError_t r = cudaMemcpy(first, words, sizeof *first, cudaMemcpyDeviceToHost);
  if (r != cudaSuccess) return r;
  return cudaMemcpy(last, words + count - 1, sizeof *last, cudaMemcpyDeviceToHost);
}

extern "C" int plugin_end() { return cudaFree(words); }
