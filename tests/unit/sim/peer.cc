// A second process on the simulated node: does what it is told on standard input, a line each, and
// answers every line with the CUresult.
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

namespace {

CUmemGenericAllocationHandle handle = 0;
CUdeviceptr mapped = 0;
size_t mapped_bytes = 0;
CUdeviceptr native = 0;
CUdeviceptr opened = 0;

// Imports the descriptor that process `pid` has as `fd`.
CUresult Import(const std::string& pid, const std::string& fd, size_t bytes) {
  const int own = open(("/proc/" + pid + "/fd/" + fd).c_str(), O_RDWR);
  if (own < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult result = cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t(own)),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(own);
  if (result == CUDA_SUCCESS) result = cuMemAddressReserve(&mapped, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cuMemMap(mapped, bytes, 0, handle, 0);
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (result == CUDA_SUCCESS) result = cuMemSetAccess(mapped, bytes, &access, 1);
  mapped_bytes = bytes;
  return result;
}

CUresult Drop() {
  const CUresult result = cuMemUnmap(mapped, mapped_bytes);
  return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

CUresult OpenToken(const std::string& hex) {
  CUipcMemHandle token = {};
  for (size_t i = 0; i < sizeof token.reserved; ++i)
    token.reserved[i] = char(std::stoi(hex.substr(i * 2, 2), nullptr, 16));
  return cuIpcOpenMemHandle(&opened, token, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

CUresult AddOne(CUdeviceptr at) {
  unsigned word = 0;
  CUresult result = cuMemcpyDtoH(&word, at, sizeof word);
  ++word;
  return result == CUDA_SUCCESS ? cuMemcpyHtoD(at, &word, sizeof word) : result;
}

// Keeps a call inside the driver for so long.
CUresult Spin(unsigned ms) {
  CUmodule module;
  CUfunction spin;
  void* parameters[] = {&ms};
  CUresult result = cuModuleLoadData(&module, "any");
  if (result == CUDA_SUCCESS) result = cuModuleGetFunction(&spin, module, "spin_ms");
  if (result == CUDA_SUCCESS) {
    result = cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  }
  return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

// Makes memory that another process can open; nobody does.
CUresult Export(size_t bytes) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd = -1;
  const CUresult result = cuMemCreate(&handle, bytes, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  return cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CUresult Do(std::istringstream& words) {
  std::string verb, pid, fd;
  size_t bytes = 0;
  words >> verb;
  if (verb == "alloc" && words >> bytes) return cuMemAlloc(&native, bytes);
  if (verb == "spin" && words >> bytes) return Spin(unsigned(bytes));
  if (verb == "export" && words >> bytes) return Export(bytes);
  if (verb == "free") return cuMemFree(native);
  if (verb == "import" && words >> pid >> fd >> bytes) return Import(pid, fd, bytes);
  if (verb == "add") return AddOne(mapped != 0 ? mapped : opened);
  if (verb == "drop") return Drop();
  if (verb == "open" && words >> fd) return OpenToken(fd);
  if (verb == "close") return cuIpcCloseMemHandle(opened);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

int main() {
  CUcontext context;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  printf("%d\n", int(result));
  fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    printf("%d\n", int(Do(words)));
    fflush(stdout);
  }
}
