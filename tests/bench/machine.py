"""Facts about the machine that a figure means nothing without."""

import ctypes
import datetime
import os
import pathlib
import platform
import shlex
import subprocess
import sys

import harness


def nvml_facts():
    """Name and driver of GPU 0, as far as NVML says them."""
    facts = {}
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1" if harness.ON_CARD else f"{harness.SIM_LIBRARIES}/libnvidia-ml.so.1")
        device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() != 0 or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
            return facts
        for fact, ask in (
            ("gpu", lambda: nvml.nvmlDeviceGetName(device, text, len(text))),
            ("driver", lambda: nvml.nvmlSystemGetDriverVersion(text, len(text))),
        ):
            if ask() == 0:
                facts[fact] = text.value.decode()
    except (OSError, AttributeError):  # no library, or one without that call
        pass
    return facts


def facts(node):
    commit = subprocess.run([str(harness.BUILD / "bin/parkade"), "--version"], capture_output=True, text=True, check=True)
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) << 10
    kind = subprocess.run(["stat", "-f", "-c", "%T", node.scratch], capture_output=True, text=True, check=True)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "parkade": commit.stdout.strip(),
        "simulated": not harness.ON_CARD,
        **nvml_facts(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "scratch_file_system": kind.stdout.strip(),
    }
