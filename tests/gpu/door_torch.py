"""A PyTorch program that holds 64 MiB and computes from it by one library: Triton, torch.compile, cuBLASLt, cuDNN or
cuSOLVER, as its argument says. Knows nothing of Parkade."""

import os
import pathlib
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it

from door_programs import missing, serve  # noqa: E402

try:
    import torch
except ImportError as error:
    missing(error)

SIDE = 4096  # of a square of floats: 64 MiB
SIZE = SIDE * SIDE * 4


def loaded(library):
    """Whether this process has the library: else the result came through another one."""
    return library in pathlib.Path("/proc/self/maps").read_text()


def triton():
    try:
        from door_triton import scale
    except ImportError as error:
        missing(error)
    return scale


def compiled():
    return torch.compile(lambda x: torch.sin(x) * 2 + x.sum(dim=0))


def cublaslt():
    torch.backends.cuda.preferred_blas_library("cublaslt")
    return lambda x: x @ x


def cudnn():
    if not torch.backends.cudnn.is_available():
        missing("this PyTorch has no cuDNN")
    torch.backends.cudnn.deterministic = True
    weights = torch.linspace(-1, 1, 9, device="cuda").reshape(1, 1, 3, 3)
    return lambda x: torch.nn.functional.conv2d(x[None, None], weights, padding=1)


def cusolver():
    torch.backends.cuda.preferred_linalg_library("cusolver")
    # Sums of rows on the diagonal make it positive definite.
    return lambda x: torch.linalg.cholesky(x @ x.t() + SIDE * torch.eye(SIDE, device="cuda"))


FUNCTIONS = {"triton": triton, "compile": compiled, "cublaslt": cublaslt, "cudnn": cudnn, "cusolver": cusolver}
LIBRARIES = {"cublaslt": "libcublasLt", "cudnn": "libcudnn", "cusolver": "libcusolver"}


def main():
    name = sys.argv[1]
    if not torch.cuda.is_available():
        missing("this PyTorch has no CUDA")
    held = torch.linspace(-1, 1, SIDE * SIDE, device="cuda").reshape(SIDE, SIDE)
    function = FUNCTIONS[name]()

    def compute():
        return function(held).contiguous().cpu().numpy().tobytes()

    compute()
    if name in LIBRARIES and not loaded(LIBRARIES[name]):
        sys.exit(f"{LIBRARIES[name]} was not used")
    serve(compute, SIZE)


main()
