"""`guard.py RUNTIME FOLDER...` waits for the end of its standard input, which comes with the end of the bench however it
ends. Whoever still runs with that runtime directory in its environment is then killed, and the folders go."""

import os
import pathlib
import shutil
import signal
import sys


def main(runtime, *folders):
    sys.stdin.buffer.read()
    mark = f"PARKADE_RUNTIME_DIR={runtime}\0".encode()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # another user's, or gone by now
            pass
    for folder in (runtime, *folders):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
