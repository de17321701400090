"""Every shell block of the pages runs, or has a reason in not_run.py why no test machine can run it; then its options exist all the
same. Python blocks compile, and what they take from the package is there; C blocks name what the headers have; TOML blocks are
configurations that the daemon takes.

usage: commands.py [PAGE...]    runs the commands of these pages alone
"""

import ast
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import fences  # noqa: E402
import harness  # noqa: E402
import page_programs  # noqa: E402
import python_package  # noqa: E402
from not_run import NOT_RUN  # noqa: E402
from options import Options  # noqa: E402

TREE = harness.TREE


def run_page(page, blocks):
    """Runs them in their order, in one shell, beside a daemon of its own."""
    wanted = page_programs.PAGES[page]
    node = harness.Node(gpu_bytes=wanted.gpu_bytes)
    home = pathlib.Path(tempfile.mkdtemp(prefix="page-", dir=harness.disk()))
    (home / "build").mkdir()
    (home / "build/release").symlink_to(harness.BUILD)
    try:
        running = page_programs.prepare(node, wanted, home)
        # Names of files in /tmp that a page makes are this run's alone.
        environment = {**node.env, "USER": node.runtime.name.removeprefix("parkade-"), "PATH": f"{home}/bin:{harness.BUILD}/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", page_programs.script(blocks, home, running)],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
        if done.returncode:
            node.print_logs()
            raise AssertionError(f"{page}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    finally:
        node.close()
        node.remove()
        shutil.rmtree(home, ignore_errors=True)


def shell_problems(block, options):
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{block.place}: {done.stderr.strip()}"
    for command in fences.commands(block.text):
        yield from (f"{block.place}: {problem}" for problem in options.problems(command))


class Uses(ast.NodeVisitor):
    """What a Python block takes from the package and the examples."""

    def __init__(self, parkade):
        self.parkade, self.problems = parkade, []

    def visit_Attribute(self, node):
        names, at = [], node
        while isinstance(at, ast.Attribute):
            names.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id == "parkade":
            found = self.parkade
            for name in reversed(names):
                if inspect.isclass(found) or inspect.ismodule(found):
                    if not hasattr(found, name) and name not in getattr(found, "__annotations__", ()):
                        self.problems.append(f"there is no parkade.{'.'.join(reversed(names))}")
                    found = getattr(found, name, None)
        self.generic_visit(node)

    def visit_ImportFrom(self, node):
        example = python_package.examples() / f"{node.module}.py"
        if example.exists():
            defined = {found.name for found in ast.parse(example.read_text()).body if hasattr(found, "name")}
            self.problems += [f"{node.module} has no {name.name}" for name in node.names if name.name not in defined]

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "client":
            method = getattr(self.parkade.Client, node.func.attr, None)
            if method is None:
                self.problems.append(f"Client has no {node.func.attr}")
            else:
                known = set(inspect.signature(method).parameters)
                for name in re.findall(r"calls\.(\w+)", str(inspect.get_annotations(method))):
                    known |= set(getattr(self.parkade.calls, name).__annotations__)
                self.problems += [f"Client.{node.func.attr} takes no {word.arg}" for word in node.keywords if word.arg and word.arg not in known]
        self.generic_visit(node)


def python_problems(block, parkade):
    try:
        code = compile(textwrap.dedent(block.text), block.place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return [f"{block.place}: {error}"]
    uses = Uses(parkade)
    uses.visit(code)
    return [f"{block.place}: {problem}" for problem in uses.problems]


def c_problems(block):
    known = "".join(path.read_text() for path in (TREE / "shim/include/parkade").glob("*.h"))
    return [f"{block.place}: no header has {name}" for name in sorted(set(re.findall(r"\b(?:parkade|PARKADE)_\w+", block.text))) if not re.search(rf"\b{name}\b", known)]


def toml_problems(block):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(block.text)
        file.flush()
        done = subprocess.run([harness.BUILD / "bin/parkaded", "--config", file.name, "--check-config"], capture_output=True, text=True, check=False)
    return [f"{block.place}: {done.stderr.strip()}"] if done.returncode else []


def refusals(options, parkade):
    """That the checks find what is wrong."""
    wrong = fences.Block("trial", 1, "sh", "parkade pause --polizy disk\nsudo parkaded --chek-config\nparkade pauze 1\nsrun x parkade run --jub rl -- y")
    harness.equal(len(list(shell_problems(wrong, options))), 4, "mistakes found in a shell block")
    code = "client.pause('x', polizy='disk')\nclient.pauze()\nparkade.Klient()\nparkade.Policy.DISC"
    harness.equal(len(python_problems(fences.Block("trial", 1, "python", code), parkade)), 4, "mistakes found in a Python block")
    harness.equal(len(toml_problems(fences.Block("trial", 1, "toml", "[host]\nbudged = '1G'"))), 1, "mistakes found in a configuration")
    harness.equal(len(c_problems(fences.Block("trial", 1, "c", "parkade_store_opem(parkade_store_open);"))), 1, "mistakes found in C")


def main():
    parkade = python_package.load()
    import parkade.ray  # noqa: F401 as a part of the package

    options = Options(harness.BUILD / "bin")
    refusals(options, parkade)
    pages = ["README.md", *sorted(f"docs/{path.name}" for path in (TREE / "docs").glob("*.md")), "python/README.md"]
    problems, fitting, ran = [], set(), 0
    for page in pages:
        to_run = []
        for block in fences.blocks(TREE, page):
            if block.language == "python":
                problems += python_problems(block, parkade)
            elif block.language == "c":
                problems += c_problems(block)
            elif block.language == "toml":
                problems += toml_problems(block)
            elif block.language == "sh":
                problems += shell_problems(block, options)
                rows = [row for row in NOT_RUN if row[0] == page and re.search(row[1], block.text, re.MULTILINE)]
                fitting |= set(rows)
                if not rows and page in page_programs.PAGES:
                    to_run.append(block)
                elif not rows:
                    problems.append(f"{block.place}: neither does the page run (page_programs.py) nor has the block a row in not_run.py")
        if to_run and (len(sys.argv) == 1 or page in sys.argv[1:]):
            print(f"{page}: {len(to_run)} blocks", flush=True)
            run_page(page, to_run)
            ran += len(to_run)
    problems += [f"not_run.py: no block of {page} has {pattern}" for page, pattern, _ in NOT_RUN if (page, pattern, _) not in fitting]
    harness.holds(ran > 10 or len(sys.argv) > 1, f"{ran} blocks ran")
    harness.equal(problems, [], "what is wrong in the pages")
    print(f"{ran} shell blocks ran")


if harness.ON_CARD:
    print("skipped: the pages run on the simulated GPU")
    sys.exit(harness.SKIPPED)
main()
