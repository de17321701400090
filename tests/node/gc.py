"""`parkade gc` removes the scratch of the dead and nothing else; with --dry-run it changes nothing and says
the same."""

import os

import harness
import scratch_layout as layout


def entries(node, *options, under=()):
    done = node.cli("-o", "json", "gc", *options, under=under)
    harness.equal(done.code, 0, f"exit code of gc ({done.err.strip()})")
    return {e["path"]: e for e in harness.json.loads(done.out)["entries"]}


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "1,5M")
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    live = next((node.scratch / "parkade-v1").iterdir())

    # Only now, so that the sweep at the daemon's start has not seen them.
    dead = layout.make(node.scratch, layout.dead_owner())
    earlier = layout.make(node.scratch, layout.dead_owner()[:32] + b"11111111-2222-3333-4444-555555555555" + bytes(4))
    foreign = layout.make(node.scratch, layout.dead_owner())
    (foreign / "checkpoint-7.safetensors").write_bytes(b"precious")
    elsewhere = node.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data.0").write_bytes(b"precious")
    link = node.scratch / "parkade-v1" / f"p1-{'0' * 24}"
    link.symlink_to(elsewhere)
    (node.scratch / "parkade-v1" / "step-100").mkdir()
    (node.scratch / "checkpoint").mkdir()

    before = layout.picture(node.scratch)
    told = entries(node, "--dry-run")
    harness.equal(layout.picture(node.scratch), before, "the tree after a dry run")
    harness.holds("would go" in node.expect(0, "gc", "-n").out, "the table of a dry run says what would go")
    harness.equal(layout.picture(node.scratch), before, "the tree after another dry run")
    harness.equal(
        {path: e["dead"] for path, e in told.items()},
        {str(live): False, str(dead): True, str(earlier): True, str(foreign): False, str(link): False},
        "what a dry run says",
    )
    for path, word in ((live, "alive"), (dead, "has ended"), (earlier, "earlier boot"), (foreign, "checkpoint-7"), (link, "link")):
        harness.holds(word in told[str(path)]["reason"], f"{word!r} in why {path}: {told[str(path)]['reason']}")
    harness.equal(told[str(live)]["pid"], app.pid, "whose the live one is")

    harness.equal(entries(node), told, "what gc says that it has done")
    harness.equal([p.exists() for p in (dead, earlier)], [False, False], "the dead are gone")
    gone = (str(dead), str(earlier))
    harness.equal(
        [line for line in layout.picture(node.scratch) if "step-100" in line[0] or "checkpoint" in line[0]],
        [line for line in before if "step-100" in line[0] or "checkpoint" in line[0]],
        "checkpoints",
    )
    harness.equal((elsewhere / "data.0").read_bytes(), b"precious", "what a link led to")
    harness.equal({p for p, e in entries(node).items() if e["dead"]}, set(), f"left of {gone} for a second gc")

    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()
    harness.wait_for("its scratch goes with it", lambda: not live.exists())
    if os.getuid() == 0:
        users(node)


def users(node):
    """A user sees and removes his own."""
    node.root.chmod(0o755)
    node.scratch.chmod(0o1777)
    (node.scratch / "parkade-v1").chmod(0o1777)
    node.runtime.chmod(0o755)
    his = layout.make(node.scratch, layout.dead_owner(layout.STRANGER), layout.STRANGER)
    roots = layout.make(node.scratch, layout.dead_owner())
    forged = layout.make(node.scratch, layout.dead_owner(layout.STRANGER))  # root's, with his record in it
    user = ("setpriv", "--reuid", layout.STRANGER, "--regid", layout.STRANGER, "--clear-groups")
    harness.equal(list(entries(node, under=user)), [str(his)], "what a user's gc names")
    harness.equal([p.exists() for p in (his, roots, forged)], [False, True, True], "what it removes")
    told = entries(node)
    harness.holds(told[str(roots)]["dead"] and not roots.exists(), "root's gc removes root's")
    harness.holds(not told[str(forged)]["dead"] and forged.exists(), f"a forged record is no proof: {told[str(forged)]}")


harness.scenario(run)
