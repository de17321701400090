// A preload in the manner of wrappers that share a GPU: its virtual memory management fails.
int cuMemCreate(unsigned long long* out, unsigned long bytes, const void* properties,
                unsigned long long flags) {
  (void)out, (void)bytes, (void)properties, (void)flags;
  return 801;  // CUDA_ERROR_NOT_SUPPORTED
}
