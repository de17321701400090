"""`parkade top` on a terminal: shows who holds the GPU, its keys pause and resume, it follows the terminal's size, and leaves it as it was."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import harness

ESCAPE = re.compile(r"\033\[[0-9;?]*[A-Za-z]")


class Screen:
    """A program on a terminal of its own; `text` is what it drew last."""

    def __init__(self, node, columns, rows):
        self.master, slave = pty.openpty()
        self.size(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [harness.BUILD / "bin/parkade", "top", "--every", "200ms"], stdin=slave, stdout=slave, stderr=subprocess.PIPE,
            env={**node.env, "TERM": "xterm", "NO_COLOR": "1"}, start_new_session=True,
        )
        node.clients.append(self.process)
        self.raw = ""

    def size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def text(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.raw += os.read(self.master, 65536).decode()
            except OSError:
                break
        frames = self.raw.split("\033[H")
        # The last may not be whole yet.
        whole = [f for f in frames if f.rstrip().endswith("\033[J")]
        return ESCAPE.sub("", whole[-1]) if whole else ""

    def shows(self, pattern):
        return harness.wait_for(f"the screen shows {pattern!r}", lambda: re.search(pattern, self.text()))

    def press(self, keys):
        os.write(self.master, keys.encode())


def keys(node, screen, first, second):
    screen.shows(rf"> a +{first.pid} .*running")
    screen.shows(r"gpu 0  \[a+b+\+*\.+\]")
    screen.press("\033[B")
    screen.shows(rf"> b +{second.pid} ")
    screen.press("p")
    screen.shows(rf"pause {second.pid}: done")
    screen.shows(rf"> b +{second.pid} .*paused")
    harness.equal(node.state(first.pid), "running", "the one that was not selected")
    screen.shows(r"gpu 0  \[a+[+.]+\]")
    screen.press("r")
    screen.shows(rf"resume {second.pid}: done")
    harness.equal(node.state(second.pid), "running", "state after r")
    node.faults(f"cuMemcpyDtoHAsync 1 fail 999 pid={first.pid}")
    screen.press("\033[Ap")
    screen.shows(rf"parkade: pause {first.pid}: ")
    node.faults()


def fits(screen, columns, rows):
    lines = screen.text().split("\r\n")
    return len(lines) == rows and max(map(len, lines)) <= columns and max(map(len, lines)) > columns - 12


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("the bars are those of the simulated GPU")
    harness.holds("no daemon at" in node.cli("top").err, "without a daemon it says so")
    node.start_daemon()
    first, second = sorted((node.stepper("--buffers", 2, "--bytes", 150_000_000) for _ in range(2)), key=lambda app: app.pid)
    screen = Screen(node, 80, 24)
    keys(node, screen, first, second)
    harness.wait_for("the picture has the terminal's size", lambda: fits(screen, 80, 24))
    screen.size(200, 50)
    os.kill(screen.process.pid, signal.SIGWINCH)
    harness.wait_for("the picture has the new size", lambda: fits(screen, 200, 50))
    screen.shows("COMMAND")
    screen.press("q")
    harness.equal(screen.process.wait(harness.PATIENCE), 0, "exit code")
    harness.equal(termios.tcgetattr(screen.slave), screen.before, "the terminal's settings afterwards")
    screen.text()
    harness.holds(screen.raw.rstrip().endswith("\033[?25h\033[?1049l"), "the cursor is back on the screen that was there before")
    once = node.expect(0, "top").out
    harness.holds(str(first.pid) in once and "\033" not in once, f"where it is no terminal it prints once: {once}")
    for app in (first, second):
        app.step()
        app.finish()


harness.scenario(run, gpu_bytes="1G")
