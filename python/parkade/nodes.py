"""Which nodes a job has: from a file, from Slurm or from Kubernetes, by their own command lines."""

from __future__ import annotations

import json
import pathlib
import subprocess

from . import errors


def nodes_of(where: str) -> list[str]:
    """`where`: a file with one "host" or "host:port" a line and "#" before what is a remark; "slurm:JOB", the nodes that the
    job has; or "k8s:SELECTOR", the addresses of the pods with these labels. In the order found, each once.

    InvalidArgument when there is none, or it cannot be read; Unavailable when Slurm or Kubernetes do not answer.
    """
    kind, _, rest = where.partition(":")
    if kind == "slurm" and rest:
        hosts = _said("squeue", "--noheader", "--format=%N", "--jobs", rest).split()
        found = [name for hostlist in hosts for name in _said("scontrol", "show", "hostnames", hostlist).split()]
    elif kind == "k8s" and rest:
        pods = json.loads(_said("kubectl", "get", "pods", "--selector", rest, "--output", "json"))["items"]
        found = [address for pod in pods if (address := pod.get("status", {}).get("podIP"))]
    else:
        try:
            lines = pathlib.Path(where).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise errors.InvalidArgument(f"cannot read {where}: {error.strerror}") from None
        found = [name for line in lines if (name := line.partition("#")[0].strip())]
    if not found:
        raise errors.InvalidArgument(f"{where} names no node")
    return list(dict.fromkeys(found))


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
    except FileNotFoundError:
        raise errors.Unavailable(f"{command[0]} is not installed here") from None
    except subprocess.TimeoutExpired:
        raise errors.Unavailable(f"{command[0]} does not answer") from None
    except subprocess.CalledProcessError as error:
        raise errors.Unavailable(f"{' '.join(command)}: {error.stderr.strip() or error.returncode}") from None
