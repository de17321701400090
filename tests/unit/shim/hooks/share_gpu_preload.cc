// A preload in the manner of wrappers that share a GPU: its virtual memory management fails.
extern "C" {

int share_gpu_code = 801;  // CUDA_ERROR_NOT_SUPPORTED
int share_gpu_calls = 0;

int cuMemCreate(unsigned long long*, unsigned long, const void*, unsigned long long) {
  ++share_gpu_calls;
  return share_gpu_code;
}
}
