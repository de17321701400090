"""A CuPy program that holds 64 MiB and computes from it by a kernel of its own and by a reduction. Knows nothing of
Parkade."""

from door_programs import missing, serve

try:
    import cupy
except ImportError as error:
    missing(error)

SIZE = 64 << 20

held = cupy.arange(SIZE // 4, dtype=cupy.float32)
scale = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * 3 + 1", "scale")


def compute():
    return (scale(held) - held.max()).get().tobytes()


serve(compute, SIZE)
