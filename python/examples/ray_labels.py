"""For a framework that makes Ray actors with options of its own, and takes the class of them from its caller."""

from __future__ import annotations

from typing import Any

import parkade.ray


class Labelled:
    """Stands in for an actor class: its actors start under Parkade, with these labels (those of parkade.environment()).

    RayActorGroup(nodes, gpus, Labelled(PolicyModelActor, job="rl", role="actor"), ...)
    """

    def __init__(self, actor_class: Any, **labels: Any):
        self._actor_class, self._labels = actor_class, labels

    def options(self, **options: Any) -> Any:
        options["runtime_env"] = parkade.ray.runtime_env(options.get("runtime_env"), **self._labels)
        return self._actor_class.options(**options)

    def remote(self, *arguments: Any, **named: Any) -> Any:
        return self.options().remote(*arguments, **named)
