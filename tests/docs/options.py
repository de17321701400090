"""The options of `parkade` and `parkaded` by their own --help, and what is wrong with a command of a page."""

import functools
import os
import re
import subprocess

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Options:
    """`folder` has the two programs."""

    def __init__(self, folder):
        self._folder = folder

    @functools.lru_cache(maxsize=None)  # noqa: B019 one instance for a run
    def help(self, program, verb=""):
        words = [os.path.join(self._folder, program), *verb.split(), "--help"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout

    def of(self, program, verb=""):
        lines = re.findall(r"^ +((?:-\S+)(?:, *-\S+)*)", self.help(program, verb), re.MULTILINE)
        return {re.split(r"[=\[ ]", option)[0] for line in lines for option in line.split(",")}

    def verbs(self, verb=""):
        """Those of the program, or of a verb that has verbs of its own."""
        return set(re.findall(r"^  ([a-z][a-z-]*) {2,}", self.help("parkade", verb).partition("Subcommands:")[2], re.MULTILINE))

    def problems(self, command):
        """What is wrong with a command; nothing where it is neither of the two. `parkade run` may stand behind another program."""
        while command and (ASSIGNMENT.match(command[0]) or command[0] == "sudo"):
            command = command[1:]
        names = [os.path.basename(word) for word in command]
        if "parkaded" in names[:1]:
            return [f"parkaded has no {word}" for word in _named(command[1:]) if word not in self.of("parkaded")]
        if "parkade" not in names or (names[0] != "parkade" and names[names.index("parkade") + 1 : names.index("parkade") + 2] != ["run"]):
            return []
        words = command[names.index("parkade") + 1 :]
        verb = next((word for word in words if word in self.verbs()), None)
        if verb is None:
            return [] if words and words[0] in ("--help", "--version", "VERB") else [f"no verb in {' '.join(command)}"]
        known = self.of("parkade") | self.of("parkade", verb)
        below = next((word for word in words if word in self.verbs(verb)), None)
        if below is not None:
            known |= self.of("parkade", f"{verb} {below}")
        if verb == "run":
            if "--" not in words:
                return [f"parkade run without --: {' '.join(command)}"]
            words = words[: words.index("--")]
        return [f"parkade {verb} has no {word}" for word in _named(words) if word not in known]


def _named(words):
    """The options among words, without their values."""
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
