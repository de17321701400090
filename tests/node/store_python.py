"""A Python program's optimizer state streams through a store by `parkade.store`, and without libparkade.so it is told so."""

import os
import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/storing.py"


def run(node):
    python_package.load()
    folder = node.root / "optimizer"
    folder.mkdir()
    paths = {"PYTHONPATH": os.pathsep.join([str(harness.BUILD / "python"), str(PROGRAM.parent)])}
    node.start_daemon()
    app = node.start(sys.executable, PROGRAM, folder, env=paths)
    app.until("done")
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the program")
    bare = node.start(sys.executable, "-c", """
from parkade.store import Store, StoreCode, StoreError
try:
    Store([])
except StoreError as error:
    print(error.code is StoreCode.ABSENT and "parkade run" in str(error))
""", env=paths, park=False)
    bare.until("True")


harness.scenario(run, gpu_bytes="1G")
