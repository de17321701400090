// cuModule*, cuLibrary*, cuKernel* and cuFunc*: a library is a module here and a kernel a function.
#include "tests/sim/module.h"

#include <fstream>
#include <iterator>

#include "tests/sim/driver.h"

using namespace parkade::sim;

namespace {

CUresult Load(CUmodule* out, const void* image) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  if (auto r = LoadModule(image, &module); r != CUDA_SUCCESS) return r;
  *out = AllModules().Add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult LoadFile(CUmodule* out, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return Load(out, image.c_str());
}

CUresult Unload(CUmodule module) {
  return AllModules().Remove(module) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUmodule ModuleOf(CUlibrary library) { return reinterpret_cast<CUmodule>(library); }
CUfunction FunctionOf(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

CUresult Attribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (AllFunctions().Find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
           : attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION         ? 70
           : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION      ? 90
                                                                : 0;
  return CUDA_SUCCESS;
}

CUresult KnownFunction(CUfunction function) {
  return AllFunctions().Find(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Name(const char** name, CUfunction handle) {
  const auto function = AllFunctions().Find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();  // functions are never forgotten
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return CallIn<"cuModuleLoad">([&](Context&) { return LoadFile(module, path); });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return CallIn<"cuModuleLoadData">([&](Context&) { return Load(module, image); });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return CallIn<"cuModuleLoadDataEx">([&](Context&) { return Load(module, image); });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return CallIn<"cuModuleLoadFatBinary">([&](Context&) { return Load(module, image); });
}

CUresult cuModuleUnload(CUmodule module) {
  return CallIn<"cuModuleUnload">([&](Context&) { return Unload(module); });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return Call<"cuModuleGetLoadingMode">([&] {
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return CallIn<"cuModuleGetFunction">(
      [&](Context&) { return GetFunction(module, name, function); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return Call<"cuLibraryLoadData">(
      [&] { return Load(reinterpret_cast<CUmodule*>(library), code); });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**,
                               unsigned, CUlibraryOption*, void**, unsigned) {
  return Call<"cuLibraryLoadFromFile">(
      [&] { return LoadFile(reinterpret_cast<CUmodule*>(library), path); });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return Call<"cuLibraryUnload">([&] { return Unload(ModuleOf(library)); });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return Call<"cuLibraryGetKernel">(
      [&] { return GetFunction(ModuleOf(library), name, reinterpret_cast<CUfunction*>(kernel)); });
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return CallIn<"cuLibraryGetModule">([&](Context&) {
    if (AllModules().Find(ModuleOf(library)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *module = ModuleOf(library);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return CallIn<"cuKernelGetFunction">([&](Context&) {
    *function = FunctionOf(kernel);
    return KnownFunction(*function);
  });
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return Call<"cuKernelGetName">([&] { return Name(name, FunctionOf(kernel)); });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice) {
  return Call<"cuKernelGetAttribute">(
      [&] { return Attribute(value, attribute, FunctionOf(kernel)); });
}

CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel kernel, CUdevice) {
  return Call<"cuKernelSetAttribute">([&] { return KnownFunction(FunctionOf(kernel)); });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return CallIn<"cuFuncGetAttribute">(
      [&](Context&) { return Attribute(value, attribute, function); });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int) {
  return CallIn<"cuFuncSetAttribute">([&](Context&) { return KnownFunction(function); });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return CallIn<"cuFuncSetCacheConfig">([&](Context&) { return KnownFunction(function); });
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  return CallIn<"cuFuncGetName">([&](Context&) { return Name(name, function); });
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  return CallIn<"cuFuncGetModule">([&](Context&) {
    const auto function = AllFunctions().Find(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *module = function->module;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return CallIn<"cuFuncLoad">([&](Context&) { return KnownFunction(function); });
}
