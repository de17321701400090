"""One user's programs are invisible to another; root and members of the group `parkade` see and move all. A daemon
listens at nothing on the network unless it is told to."""

import os
import pathlib
import subprocess

import harness
import scratch_layout as layout

HIM, HER = 65534, 65533
GROUP = 64999
DENIED, NOT_FOUND = 1, 3


def as_user(uid, *groups):
    chosen = ("--groups", ",".join(map(str, groups))) if groups else ("--clear-groups",)
    return ("setpriv", "--reuid", uid, "--regid", uid, *chosen)


def listed(node, under):
    done = node.cli("-o", "json", "ps", under=under)
    harness.equal(done.code, 0, f"exit code of ps ({done.err.strip()})")
    return [p["pid"] for p in harness.json.loads(done.out)["processes"]]


def listening(pid):
    """TCP ports at which a process listens, in its own network namespace."""
    sockets = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(fd))
        except OSError:
            pass  # closed meanwhile
    ports = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in sockets:
                ports.append(words[1])
    return ports


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("two users need root")
    for folder in (node.root, node.runtime, node.root / "sim"):
        folder.chmod(0o755)
    (node.root / "sim").chmod(0o777)
    node.scratch.chmod(0o1777)
    # The daemon reads the group from a file of its own, in a mount namespace of its own.
    groups = node.root / "group"
    groups.write_text(pathlib.Path("/etc/group").read_text() + f"parkade:x:{GROUP}:\n")
    script = 'mount --bind "$0" /etc/group && exec "$@"'
    if subprocess.run(["unshare", "--mount", "sh", "-c", script, groups, "true"], check=False).returncode:
        raise harness.Skip("no mount namespace can be made here")
    node.start_daemon(under=("unshare", "--mount", "sh", "-c", script, groups))
    (node.root / "sim/account").chmod(0o666)  # the simulated GPU is everybody's
    harness.equal(listening(node.daemon.pid), [], "sockets of the daemon on the network")

    app = node.start(*as_user(HIM), harness.BUILD / "bin/parkade", "run", "--", harness.BUILD / "bin/stepper",
                     "--on-input", "--buffers", 2, "--bytes", "5M", park=False).ready()
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    app.step()

    harness.equal(listed(node, as_user(HIM)), [app.pid], "what its user sees")
    harness.equal(listed(node, as_user(HER)), [], "what another user sees")
    harness.equal(listed(node, as_user(HER, GROUP)), [app.pid], "what a member of the group sees")
    for words in (("pause", app.pid), ("resume", app.pid), ("show", app.pid)):
        done = node.cli(*words, under=as_user(HER))
        harness.holds(done.code in (DENIED, NOT_FOUND), f"{words} by another user: {done.code} {done.err.strip()}")
        harness.equal(len(done.err.strip().splitlines()), 1, f"lines of the error {done.err!r}")
    harness.equal(node.cli("pause", "--all", under=as_user(HER)).code, NOT_FOUND, "all of nothing")
    harness.equal(node.state(app.pid), "running", "state after what another user tried")

    harness.equal(node.cli("pause", app.pid, "--policy", "disk", under=as_user(HER, GROUP)).code, 0, "a member's pause")
    directory = next((node.scratch / "parkade-v1").iterdir())
    harness.equal((directory.stat().st_uid, directory.stat().st_mode & 0o777), (HIM, 0o700), "whose scratch it is")
    harness.equal((directory / "data.0").stat().st_uid, HIM, "whose bytes they are")
    told = node.cli("-o", "json", "gc", under=as_user(HER))
    harness.equal(harness.json.loads(told.out)["entries"], [], "what another user's gc sees")
    told = node.cli("-o", "json", "gc", under=as_user(HER, GROUP))
    harness.equal([e["path"] for e in harness.json.loads(told.out)["entries"]], [str(directory)], "what a member's sees")
    harness.equal(node.cli("resume", app.pid, under=as_user(HIM)).code, 0, "its user's resume")
    app.step()
    app.finish()


harness.scenario(run)
