"""A JAX program that holds 64 MiB, in an allocation of its own (argument `platform`) or in the pool that JAX makes at its
start (`pool`), and computes from it. Knows nothing of Parkade."""

import os
import sys

from door_programs import missing, serve

ALLOCATOR = sys.argv[1]
if ALLOCATOR == "platform":
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
else:
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".02"  # others use this GPU at the same time

try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as error:
    missing(error)

SIDE = 4096
SIZE = SIDE * SIDE * 4


def main():
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError as error:
        missing(f"this JAX has no CUDA: {error}".splitlines()[0])
    held = jax.device_put(numpy.linspace(-1, 1, SIDE * SIDE, dtype=numpy.float32).reshape(SIDE, SIDE), device)
    function = jax.jit(lambda x: x @ x + jnp.sin(x))
    stats = {} if ALLOCATOR == "platform" else device.memory_stats()
    # What it has taken from the driver; older versions tell only how much that may be.
    pool = SIZE if not stats else stats.get("pool_bytes") or stats["bytes_limit"]
    serve(lambda: numpy.asarray(function(held)).tobytes(), pool)


main()
