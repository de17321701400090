"""As a service: every mistake of a configuration has its line, a flag comes before the environment and that before the
file, SIGHUP changes what can change and names the rest, and a supervisor hears of it all by sd_notify's protocol. The capabilities of the unit are enough for it."""

import os
import re
import select
import signal
import socket
import subprocess
import time

import harness

WRONG = """\
[daemon]
log_level = "loud"
runtimedir = "/x"
[host]
budget = "lots"
[scratch]
dirs = ["/tmp/x", 5]
stripe = ["/a"]
[tcp]
listen = "nowhere"
[groups.odd]
policy = "banana"
colour = "red"
"""
# Setting, line, and a word of what is said of it.
MISTAKES = [
    ("daemon.log_level", 2, "loud"), ("daemon.runtimedir", 3, "unknown setting"), ("host.budget", 5, "lots"),
    ("scratch.dirs", 7, "list of texts"), ("scratch.stripe", 8, "from 2 to"), ("tcp.listen", 10, "nowhere"),
    ("groups.odd.policy", 12, "is unknown or"), ("groups.odd.colour", 13, "is unknown or"),
]
# Setting, flag, variable, and three values.
SETTINGS = [
    ("daemon.runtime_dir", "--runtime-dir", "PARKADE_RUNTIME_DIR", ("/f", "/e", "/t")),
    ("daemon.state_dir", "--state-dir", "PARKADED_STATE_DIR", ("/f", "/e", "/t")),
    ("daemon.log_level", "--log-level", "PARKADED_LOG_LEVEL", ("error", "debug", "warning")),
    ("host.budget", "--host-budget", "PARKADED_HOST_BUDGET", ("1G", "2G", "3G")),
    ("scratch.dirs", "--scratch-dir", "PARKADED_SCRATCH_DIRS", ("/f", "/e", "/t")),
]


def check(node, text, *flags, env=()):
    """`parkaded --check-config` with that file: its result."""
    file = node.root / "parkaded.toml"
    file.write_text(text)
    bare = {name: value for name, value in node.env.items() if not name.startswith("PARKADE")}
    return subprocess.run([harness.BUILD / "bin/parkaded", "--check-config", "--config", file, *flags], env={**bare, **dict(env)},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.PATIENCE, check=False)


def mistakes_have_their_lines(node):
    done = check(node, WRONG)
    harness.equal(done.returncode, 2, "exit code of --check-config with mistakes")
    said = done.stderr.splitlines()
    for setting, line, word in MISTAKES:
        begin = f"parkaded: {node.root}/parkaded.toml:{line}: {setting}: "
        harness.holds(any(each.startswith(begin) and word in each for each in said), f"{begin} ... {word} in {said}")
    harness.holds(all(line.startswith("parkaded: ") for line in said), f"lines of {said}")
    harness.equal(check(node, "[host]\nbudget = \n").returncode, 2, "exit code for what is no TOML")
    harness.equal(check(node, "", "--host-budget", "lots").stderr.split(":")[1].strip(), "flag", "place of a wrong flag")


def one_precedence(node):
    for setting, flag, variable, (by_flag, by_variable, by_file) in SETTINGS:
        table, _, key = setting.partition(".")
        value = f'["{by_file}"]' if setting == "scratch.dirs" else f'"{by_file}"'
        text, env = f"[{table}]\n{key} = {value}\n", {variable: by_variable}
        for done, wanted in (
            (check(node, text, flag, by_flag, env=env), f"{setting}={by_flag} (flag)"),
            (check(node, text, env=env), f"{setting}={by_variable} ({variable})"),
            (check(node, text), f"{setting}={by_file} ({node.root}/parkaded.toml:2)"),
        ):
            harness.equal(done.returncode, 0, f"exit code of --check-config ({done.stderr})")
            harness.holds(wanted in done.stdout.splitlines(), f"{wanted!r} in {done.stdout!r}")
        harness.holds(f"{setting}=" in check(node, "").stdout, f"the default of {setting}")


def service_rights():
    """The command that gives the daemon no more capabilities than its unit does; none where only root could tell."""
    if os.getuid() != 0:
        return []
    unit = (harness.TREE / "packaging/parkaded.service").read_text()
    names = re.findall(r"CAP_(\w+)", " ".join(re.findall(r"^CapabilityBoundingSet=(.*)", unit, re.MULTILINE)))
    return ["setpriv", "--no-new-privs", "--bounding-set=" + ",".join(["-all", *(f"+{name.lower()}" for name in names)])]


class Supervisor:
    """What systemd is to a service: a datagram socket."""

    def __init__(self, node):
        self.path = str(node.runtime / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def hears(self, first, deadline=harness.PATIENCE):
        """Waits for the message that begins so; returns all its lines."""
        end = time.monotonic() + deadline
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                break
            lines = self.socket.recv(4096).decode().splitlines()
            if lines[0] == first:
                return lines
        raise AssertionError(f"the supervisor did not hear {first}")


def run(node):
    mistakes_have_their_lines(node)
    one_precedence(node)

    supervisor = Supervisor(node)
    file = node.root / "parkaded.toml"
    file.write_text('[host]\nbudget = "1GiB"\n[groups.before]\nrole = "actor"\n')
    node.start_daemon("--config", file, under=service_rights(), env={"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "20000000"})
    harness.holds(any(line.startswith("STATUS=serving ") for line in supervisor.hears("READY=1")), "the status when ready")
    supervisor.hears("WATCHDOG=1")
    supervisor.hears("WATCHDOG=1")
    app = node.stepper()
    app.step()

    file.write_text('[daemon]\nlog_level = "debug"\n[host]\nbudget = "2GiB"\n[groups.after]\nrole = "actor"\n'
                    f'[scratch]\nallow_tmpfs = ["{node.scratch}"]\n')
    node.daemon.send_signal(signal.SIGHUP)
    harness.holds(any(line.startswith("MONOTONIC_USEC=") for line in supervisor.hears("RELOADING=1")), "the time of a reload")
    status = next(line for line in supervisor.hears("READY=1") if line.startswith("STATUS="))
    for word in ("daemon.log_level", "host.budget", "after a restart: scratch.allow_tmpfs"):
        harness.holds(word in status, f"{word!r} in {status!r}")
    harness.equal([group["name"] for group in node.json("group")["groups"]], ["after"], "groups after the reload")
    harness.equal(node.json("budget")["budgets"][0]["host_bytes"], 2 << 30, "host budget after the reload")
    log = node.daemon_log.read_text()
    harness.holds(f"reload: scratch.allow_tmpfs={node.scratch}, before : holds from the next start on" in log, f"the restart in {log}")

    file.write_text(WRONG)
    node.daemon.send_signal(signal.SIGHUP)
    supervisor.hears("RELOADING=1")
    harness.holds("mistakes" in "".join(supervisor.hears("READY=1")), "the status after a wrong reload")
    harness.holds(f"nothing has changed: {file}:2: daemon.log_level" in node.daemon_log.read_text(), "the mistake's line in the log")
    harness.equal([group["name"] for group in node.json("group")["groups"]], ["after"], "groups after a wrong reload")

    node.expect(0, "pause", app.pid, "--policy", "disk")
    node.expect(0, "resume", app.pid)
    app.step()
    os.kill(node.daemon.pid, signal.SIGTERM)
    supervisor.hears("STOPPING=1")
    harness.equal(node.daemon.wait(harness.PATIENCE), 0, "exit code of the daemon's orderly end")
    app.finish()


harness.scenario(run)
