"""Parkade under Ray: what an actor needs to be started under it, and the actors that front the daemons (ray_cluster.py). Importing
this does not import Ray."""

from __future__ import annotations

import copy
import os
from typing import Any, Mapping

from .labels import environment
from .preload import find_library, merge_preload
from .ray_cluster import Cluster, NodeParkade, gpu_nodes, node_actor

__all__ = ["Cluster", "NodeParkade", "gpu_nodes", "node_actor", "runtime_env"]


def runtime_env(base: Mapping[str, Any] | None = None, *, library: str | None = None, **labels: Any) -> dict[str, Any]:
    """A runtime_env with Parkade's library preloaded and the labels of parkade.environment() set.

        Trainer.options(runtime_env=parkade.ray.runtime_env({"env_vars": {...}}, job="rl", role="actor"))

    `base` is what the actor has anyway, and is left as it is: an actor's runtime_env replaces the one of
    its class, so give it here. LD_PRELOAD of `base` keeps its place, else that of this process's
    environment, as a worker would inherit it from its raylet; the library goes behind. Where the raylet
    runs with RAY_LD_PRELOAD_ON_WORKERS=0 a worker has what stands here all the same. A variable of
    `base` that a label contradicts is an error, ValueError.
    """
    merged = copy.deepcopy(dict(base or {}))
    variables = dict(merged.get("env_vars") or {})
    for name, value in environment(**labels).items():
        if variables.setdefault(name, value) != value:
            raise ValueError(f"{name} is {variables[name]!r} in env_vars and {value!r} by its label")
    preload = variables.get("LD_PRELOAD", os.environ.get("LD_PRELOAD", ""))
    variables["LD_PRELOAD"] = merge_preload(preload, library or find_library(), {**os.environ, **variables})
    merged["env_vars"] = variables
    return merged
