"""One rank of a tensor-parallel engine that knows nothing of Parkade: layers whose halves are added up over the GPUs,
captured in a CUDA graph that is replayed again and again. They are added up by NCCL, or by a kernel that reads the
other ranks' buffers, which it has by CUDA IPC, as engines do for small messages. Prints the hash of what was computed
after some replays. Steps as rank_clock.py says; each is a few replays."""

import argparse
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it

import cupy  # noqa: E402
import rank_clock  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

ROWS, WIDTH, LAYERS = 16, 4096, 8
REPLAYS = 20
REPORT_EVERY = 10
BLOCKS, THREADS = 16, 256
WORD = 4

# Each block adds up its own part. Two slots by turns: a rank writes the next one while others still read the last,
# and none is ever two turns ahead, for it waits for all.
KERNEL = r"""
extern "C" __global__ void add_up(const float* in, float* out, int count, unsigned* turn, int rank, int ranks,
                                  const unsigned long long* buffers, const unsigned long long* flags) {
  const unsigned now = turn[blockIdx.x] + 1;
  const int slot = (now & 1) * count;
  float* mine = reinterpret_cast<float*>(buffers[rank]) + slot;
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (int i = first; i < count; i += stride) mine[i] = in[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < ranks) {
    reinterpret_cast<volatile unsigned*>(flags[threadIdx.x])[blockIdx.x * ranks + rank] = now;
    volatile unsigned* theirs = reinterpret_cast<volatile unsigned*>(flags[rank]) + blockIdx.x * ranks + threadIdx.x;
    while (static_cast<int>(*theirs - now) < 0) {
    }
    __threadfence_system();
  }
  __syncthreads();
  for (int i = first; i < count; i += stride) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += reinterpret_cast<volatile const float*>(buffers[r])[slot + i];
    out[i] = sum;
  }
  if (threadIdx.x == 0) turn[blockIdx.x] = now;
}
"""


class AddUp:
    """Sums over the ranks by the kernel above. Its buffers are allocations of their own."""

    def __init__(self, rank, ranks, count):
        self._kernel = cupy.RawKernel(KERNEL, "add_up")
        self._rank, self._ranks, self._count = rank, ranks, count
        sizes = 2 * count * WORD, BLOCKS * ranks * WORD
        own = [cupy.cuda.runtime.malloc(size) for size in sizes]
        for address, size in zip(own, sizes, strict=True):
            cupy.cuda.runtime.memset(address, 0, size)
        torch.cuda.synchronize()
        handles = [None] * ranks
        dist.all_gather_object(handles, [cupy.cuda.runtime.ipcGetMemHandle(address) for address in own])
        self._buffers, self._flags = (
            cupy.array([own[kind] if peer == rank else cupy.cuda.runtime.ipcOpenMemHandle(handles[peer][kind]) for peer in range(ranks)], cupy.uint64)
            for kind in (0, 1)
        )
        self._turn = cupy.zeros(BLOCKS, cupy.uint32)
        torch.cuda.synchronize()
        dist.barrier()

    def __call__(self, tensor):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            pointer = tensor.data_ptr()
            arguments = (pointer, pointer, cupy.int32(self._count), self._turn, cupy.int32(self._rank), cupy.int32(self._ranks), self._buffers, self._flags)
            self._kernel((BLOCKS,), (THREADS,), arguments)


class Engine:
    def __init__(self, rank, ranks, add_up):
        torch.manual_seed(1)
        inner = 2 * WIDTH // ranks
        self._layers = []
        for _ in range(LAYERS):
            up, down = torch.randn(WIDTH, 2 * WIDTH) / WIDTH**0.5, torch.randn(2 * WIDTH, WIDTH) / WIDTH**0.5
            part = slice(rank * inner, (rank + 1) * inner)
            self._layers.append((up[:, part].cuda(), down[part].cuda()))
        self.state = torch.randn(ROWS, WIDTH).cuda()
        self._add_up = add_up
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self._forward()  # warm
        torch.cuda.synchronize()
        dist.barrier()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._forward()

    def _forward(self):
        x = self.state
        for up, down in self._layers:
            half = torch.relu(x @ up) @ down
            self._add_up(half)
            x = torch.nn.functional.layer_norm(x + half, (WIDTH,))
        self.state.copy_(x)

    def replay(self):
        for _ in range(REPLAYS):
            self._graph.replay()

    def close(self):
        """A communicator that a graph holds does not end."""
        self._graph.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("nccl", "ipc"), required=True)
    parser.add_argument("--held", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    rank = rank_clock.join()
    ranks = dist.get_world_size()
    cupy.cuda.Device(rank).use()
    add_up = AddUp(rank, ranks, ROWS * WIDTH) if options.kind == "ipc" else dist.all_reduce
    engine = Engine(rank, ranks, add_up)
    clock = rank_clock.Clock(rank, options.held, options.limit)
    dist.barrier()
    print("ready", flush=True)
    running = True
    while running:
        engine.replay()
        if clock.step % REPORT_EVERY == 0:
            print(f"state {clock.step} {hashlib.sha256(engine.state.cpu().numpy().tobytes()).hexdigest()}", flush=True)
        running = clock.goes_on()
    torch.cuda.synchronize()
    dist.barrier()
    engine.close()
    dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
