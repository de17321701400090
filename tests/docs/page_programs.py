"""What a page takes for granted when its commands run: a folder with the programs that it names, programs that run already, and a GPU
of a size."""

import dataclasses
import shlex
import sys

import harness

# A program of the reader's: any CUDA program will do.
STAND_IN = """import os, sys
os.execv({program!r}, [{program!r}, "--buffers", "2", "--bytes", {size!r}, "--step-ms", "100"])
"""


@dataclasses.dataclass(frozen=True)
class Page:
    gpu_bytes: str = "4G"
    daemon: bool = True
    stand_ins: dict = dataclasses.field(default_factory=dict)  # file: bytes of each of its two buffers
    # Programs that run before the first block: labels, and allocations as (name, bytes, tag).
    running: tuple = ()


TAGGED = (("w", 4 << 20, "weights"), ("c", 4 << 20, "kv_cache"))
PAGES = {
    "docs/first-pause.md": Page(daemon=False),
    "docs/disk.md": Page(stand_ins={"train.py": "20M"}),
    "docs/choosing.md": Page(daemon=False),
    # The program that runs takes a slab of 64 MiB for each tag; then one of the two has room, not both.
    "docs/operations.md": Page(
        gpu_bytes="384M", stand_ins={"one.py": "64M", "two.py": "64M"}, running=(({"PARKADE_ROLE": "rollout"}, TAGGED),)
    ),
    "docs/reports.md": Page(running=(({"PARKADE_JOB": "rl"}, TAGGED),)),
}


def prepare(node, page, folder):
    """Lays out `folder` for a page and starts its programs: how many of them run."""
    stepper = str(harness.BUILD / "bin/stepper")
    for name, size in page.stand_ins.items():
        (folder / name).write_text(STAND_IN.format(program=stepper, size=size))
    tools = folder / "bin"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)
    (tools / "python3").symlink_to(sys.executable)
    if page.daemon:
        node.start_daemon()
    for labels, allocations in page.running:
        environment = {**labels, "PYTHONPATH": str(harness.BUILD / "python")}
        app = node.start(sys.executable, harness.TREE / "tests/apps/tagging.py", env=environment)
        app.until("ready")
        for name, size, tag in allocations:
            app.say(f"allocate {name} {size} {tag}")
            harness.equal(app.line(), "allocated", "a program's answer")
        harness.wait_for("the daemon lists it", lambda app=app: node.state(app.pid) == "running")
    return len(page.running)


# What a reader does by waiting a moment: a daemon or a program that was started into the background is there.
WAITING = """
settled() {{
  local until=$((SECONDS + {patience}))
  until found=$(parkade -o json ps 2>/dev/null) && [[ $(grep -o '"pid"' <<<"$found" | wc -l) -ge $1 ]]; do
    [[ $SECONDS -lt $until ]] || {{ echo "not within {patience} s: $1 processes; there are: $found" >&2; exit 1; }}
    sleep 0.05
  done
}}
"""


def script(blocks, folder, running):
    """One bash program of a page's blocks, which ends at the first command that fails and says which that was."""
    lines = [
        "set -uo pipefail", "set -eE", f"cd {shlex.quote(str(folder))}",
        "trap 'echo \"failed in $block: $BASH_COMMAND\" >&2' ERR",
        "trap 'for job in $(jobs -p); do kill -9 $job 2>/dev/null || true; done' EXIT",
        WAITING.format(patience=int(harness.PATIENCE)),
    ]  # fmt: skip
    for block in blocks:
        lines.append(f"block={shlex.quote(block.place)}")
        for line in block.text.splitlines():
            lines.append(line)
            command = line.partition("  #")[0].rstrip()
            if command.endswith("&"):
                running += command.startswith("parkade run")
                lines.append(f"settled {running}")
    return "\n".join(lines) + "\n"
