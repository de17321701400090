"""What the package puts into an environment starts a program that is managed, labelled, and keeps its own preloads."""

import importlib
import os
import sys

import harness
import python_package


def refuses(call):
    try:
        call()
    except ValueError:
        return
    raise AssertionError("must raise ValueError")


class Actors:
    """In the place of a Ray actor class: what it was given."""

    def options(self, **options):
        self.given = options
        return self

    def remote(self, *arguments):
        return arguments


def labelled(parkade, base, made):
    """The example that gives a framework's actors labels."""
    sys.path.insert(0, str(python_package.examples()))
    actors = Actors()
    stand_in = importlib.import_module("ray_labels").Labelled(actors, job="rl", role="actor", rank=3)
    harness.equal(stand_in.options(num_gpus=1, runtime_env=base).remote(2, 0), (2, 0), "an actor's arguments")
    harness.equal(actors.given, {"num_gpus": 1, "runtime_env": made}, "an actor's options")
    stand_in.remote()
    harness.equal(actors.given, {"runtime_env": parkade.ray.runtime_env(job="rl", role="actor", rank=3)}, "those of an actor without")


def run(node):
    parkade = python_package.load()
    import parkade.ray

    other = str(node.root / "libother.so")
    (node.root / "libother.so").write_bytes(b"")
    library = str(harness.SHIM)
    os.environ["PARKADE_LIBRARY"] = library
    harness.equal(parkade.find_library(), library, "the library named")
    os.environ["PARKADE_LIBRARY"] = str(node.root / "missing.so")
    try:
        parkade.find_library()
        raise AssertionError("a library that does not exist must be refused")
    except FileNotFoundError:
        del os.environ["PARKADE_LIBRARY"]
    harness.equal(os.path.realpath(parkade.find_library()), os.path.realpath(library), "the library beside the package")

    merge = parkade.merge_preload
    harness.equal(merge("", library), library, "an empty LD_PRELOAD")
    harness.equal(merge(other, library), f"{other}:{library}", "what was there keeps its place")
    harness.equal(merge(f"{library} {other}", library), f"{library} {other}", "what is there is not added again")
    link = node.root / "link.so"
    link.symlink_to(library)
    harness.equal(merge(str(link), library), str(link), "nor what is there by another name")
    harness.equal(merge("libparkade.so", library, {"LD_LIBRARY_PATH": os.path.dirname(library)}), "libparkade.so", "nor by the library path")
    refuses(lambda: merge("/elsewhere/libparkade.so", library))
    refuses(lambda: merge("", "/with space/libparkade.so"))

    base = {"working_dir": ".", "env_vars": {"A": "b", "LD_PRELOAD": other}}
    made = parkade.ray.runtime_env(base, job="rl", role="actor", rank=3)
    harness.equal(base["env_vars"], {"A": "b", "LD_PRELOAD": other}, "the environment given is left alone")
    harness.equal(made["working_dir"], ".", "the rest of it")
    wanted = {"A": "b", "PARKADE_JOB": "rl", "PARKADE_ROLE": "actor", "PARKADE_RANK": "3", "LD_PRELOAD": f"{other}:{parkade.find_library()}"}
    harness.equal(made["env_vars"], wanted, "its variables")
    refuses(lambda: parkade.ray.runtime_env({"env_vars": {"PARKADE_JOB": "other"}}, job="rl"))
    labelled(parkade, base, made)
    for wrong in ({"role": ""}, {"role": "x" * 32}, {"job": "a\nb"}, {"rank": -1}, {"policy": "discard"}):
        refuses(lambda wrong=wrong: parkade.environment(**wrong))
    parkade.set_labels(cell="c1")
    harness.equal(os.environ.pop("PARKADE_CELL"), "c1", "a label of this process")

    node.start_daemon()
    variables = parkade.ray.runtime_env(job="rl", role="actor", rank=3, policy="disk", runtime_dir=str(node.runtime))["env_vars"]
    app = node.stepper("--buffers", 2, "--bytes", "20M", env=variables, park=False)
    with parkade.Client(str(node.runtime)) as client:
        harness.wait_for("the daemon lists it", client.list_processes)
        harness.equal([(p.job, p.role, p.rank) for p in client.list_processes()], [("rl", "actor", 3)], "its labels")
        (result,) = client.pause(app.pid)
        harness.holds(result.disk_bytes >= app.bytes, f"its default policy is disk: {result}")
        client.resume(app.pid)
    app.step()
    app.finish()


harness.scenario(run)
