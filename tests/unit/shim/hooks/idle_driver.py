#!/usr/bin/env python3
"""Writes the source of a libcuda.so.1 that exports every name, each of which does nothing.

  idle_driver.py SHIM_HOOKS_DIR CC CUDA_INCLUDE OUT
"""
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import generate  # noqa: E402

names = sorted(generate.read_prototypes(sys.argv[2], sys.argv[3]))
names += ["cuNotYetInvented", "cuGraphicsGLRegisterBuffer"]
pathlib.Path(sys.argv[4]).write_text(
    "".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
