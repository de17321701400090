"""How long a pause takes of which little or nothing has to move: cases for scripts/bench and tests/gpu.

A case gets a Node with a daemon and gives back figures by name: seconds, bytes, and `ratio` of what its mark is
about."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "apps/part_changing.py"
LONG = 600.0


def ask(app, line):
    app.say(line)
    return app.line(LONG)


def start(node, count, size):
    """A program with `count` allocations of `size` bytes."""
    app = node.start(sys.executable, PROGRAM)
    harness.equal(app.line(), "ready", "the program's first line")
    harness.equal(ask(app, f"fill {count} {size}"), "filled", "its answer to fill")
    harness.wait_for("the daemon lists the program", lambda: node.state(app.pid) == "running")
    return app


def finish(app):
    harness.equal(ask(app, "verify"), "right", "the program's bytes")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "its exit code")


def pause(node, app, *words):
    return node.json("pause", app.pid, *words)["results"][0]


def cycle(node, app, *words):
    result = pause(node, app, *words)
    node.expect(0, "resume", app.pid)
    return result


def moved(result):
    return result["host_bytes"] + result["disk_bytes"]


def unchanged_and_tenth(node, count, size, policy="host", rounds=3):
    """A full pause with a warm pool, one with nothing changed, one with 10 % of the blocks changed; each the best
    of `rounds`, in turn."""
    app = start(node, count, size)
    total = count * size
    cycle(node, app, "--policy", policy)
    full, nothing, tenth = [], [], []
    for _ in range(rounds):
        full.append(cycle(node, app, "--policy", policy, "--elision", "off"))
        harness.equal(moved(full[-1]), total, "bytes of a full pause")
        cycle(node, app, "--policy", policy)
        nothing.append(cycle(node, app, "--policy", policy))
        harness.equal((moved(nothing[-1]), nothing[-1]["elided_bytes"]), (0, total), "moved and elided with nothing changed")
        changed = int(ask(app, "change 10").split()[1])
        tenth.append(cycle(node, app, "--policy", policy))
        harness.equal(moved(tenth[-1]), changed << 21, "moved with 10 % changed")
    finish(app)
    best = lambda results: min(r["total_seconds"] for r in results)
    return {
        "full_seconds": best(full),
        "unchanged_seconds": best(nothing),
        "unchanged_move_seconds": min(r["move_seconds"] for r in nothing),
        "tenth_seconds": best(tenth),
        "tenth_ratio": best(tenth) / best(full),
    }


def zeroes(node, count, size, rounds=3):
    """A pause and a resume of nothing but zeroes."""
    app = start(node, count, size)
    ask(app, f"zero {count}")
    out, back = [], []
    for _ in range(rounds):
        out.append(pause(node, app))
        harness.equal(moved(out[-1]), 0, "bytes stored of zeroes")
        back.append(node.json("resume", app.pid)["results"][0])
    finish(app)
    return {"zero_pause_seconds": min(r["total_seconds"] for r in out), "zero_resume_seconds": min(r["total_seconds"] for r in back)}


def discard(node, count, size, rounds=3):
    """A pause that discards all there is."""
    app = start(node, count, size)
    results = [cycle(node, app, "--policy", "keep", "--tag-policy", "default=discard") for _ in range(rounds)]
    for result in results:
        harness.equal(result["discarded_bytes"], count * size, "bytes discarded")
    app.kill()
    return {"discard_seconds": min(r["total_seconds"] for r in results), "discard_move_seconds": min(r["move_seconds"] for r in results)}
