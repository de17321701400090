// cuLaunchKernel and its relatives.
#include "tests/sim/driver.h"
#include "tests/sim/module.h"

using namespace parkade::sim;

namespace {

// A kernel object of a library may be launched in a function's place, so one handle serves both.
CUresult Submit(Context& context, CUfunction function, const LaunchShape& shape, CUstream stream,
                void** parameters, void** extra) {
  Task task;
  if (auto r = PrepareLaunch(function, shape, parameters, extra, &task); r != CUDA_SUCCESS)
    return r;
  return Enqueue(context, stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(task));
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra) {
  return CallIn<"cuLaunchKernel">([&](Context& context) {
    return Submit(context, function,
                  {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream,
                  parameters, extra);
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** parameters) {
  return CallIn<"cuLaunchCooperativeKernel">([&](Context& context) {
    return Submit(context, function,
                  {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream,
                  parameters, nullptr);
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  return CallIn<"cuLaunchKernelEx">([&](Context& context) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Submit(context, function,
                  {{config->gridDimX, config->gridDimY, config->gridDimZ},
                   {config->blockDimX, config->blockDimY, config->blockDimZ},
                   config->sharedMemBytes},
                  config->hStream, parameters, extra);
  });
}
