"""A PyTorch program that pauses and resumes regions by torch_memory_saver's functions, with a memory pool for each as their
Python side has it. For each line of input it does one round and says "round right", or what was wrong.

  saver_torch.py FOLDER
"""

import contextlib
import ctypes
import os
import sys

import torch

SIZE = 4096
PAGE_TABLES = 16 << 20
REGIONS = {"weights": (True, False), "states": (False, True), "kv_cache": (False, False)}  # backup on the host, on disk


class Saver:
    def __init__(self, folder):
        (path,) = [p for p in os.environ["LD_PRELOAD"].split(":") if "torch_memory_saver" in p]
        self.library = ctypes.CDLL(path)
        for name in ("tms_set_interesting_region", "tms_set_enable_cpu_backup", "tms_set_enable_disk_backup"):
            getattr(self.library, name).argtypes = [ctypes.c_bool]
        self.library.tms_get_cpu_backup_pointer.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.library.tms_get_cpu_backup_pointer.restype = ctypes.c_void_p
        self.library.tms_set_disk_backup_dir(folder.encode())
        self.pools = {tag: torch.cuda.MemPool() for tag in REGIONS}

    @contextlib.contextmanager
    def region(self, tag):
        host, disk = REGIONS[tag]
        with torch.cuda.use_mem_pool(self.pools[tag]):
            self.library.tms_set_current_tag(tag.encode())
            self.library.tms_set_enable_cpu_backup(host)
            self.library.tms_set_enable_disk_backup(disk)
            self.library.tms_set_interesting_region(True)
            try:
                yield
            finally:
                self.library.tms_set_interesting_region(False)

    def move(self, name, tag=None):
        code = getattr(self.library, f"tms_{name}")(tag and tag.encode())
        if code != 0:
            sys.exit(f"tms_{name}({tag}): {code}")

    def copy(self, tensor):
        bytes_all = tensor.numel() * tensor.element_size()
        at = self.library.tms_get_cpu_backup_pointer(tensor.data_ptr(), bytes_all)
        if at is None:
            return None
        copy = torch.frombuffer(bytearray(ctypes.string_at(at, bytes_all)), dtype=tensor.dtype)
        return copy.reshape(tensor.shape)


def free():
    return torch.cuda.mem_get_info()[0]


def one_round(saver, weights, states, cache, ordinary):
    product = weights @ ordinary  # cuBLAS, whose workspace is none of a region's
    sums = weights.double().sum().item(), states.double().sum().item()
    kept = weights.cpu()
    before = free()
    saver.move("pause")
    moved = free() - before
    # Pinning host memory for the backup takes page tables in HBM.
    if moved < 3 * weights.numel() * weights.element_size() - PAGE_TABLES:
        return f"only {moved} bytes have become free"
    copy = saver.copy(weights)
    if copy is None or not torch.equal(copy, kept) or saver.copy(states) is not None:
        return "the copy on the host"
    if not torch.isfinite(ordinary @ ordinary).all():
        return "what works meanwhile"
    for tag in ("weights", "kv_cache", None):
        saver.move("resume", tag)
    cache.zero_()
    if (weights.double().sum().item(), states.double().sum().item()) != sums:
        return "the sums"
    return "right" if torch.equal(weights @ ordinary, product) else "the product"


def main():
    saver = Saver(sys.argv[1])
    ordinary = torch.rand(SIZE, SIZE, device="cuda")
    made = []
    for tag in REGIONS:
        with saver.region(tag):
            made.append(torch.rand(SIZE, SIZE, device="cuda"))
    torch.cuda.synchronize()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("round", one_round(saver, *made, ordinary), flush=True)
        made[0].add_(1)
        made[1].mul_(0.5)


main()
