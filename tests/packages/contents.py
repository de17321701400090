"""The packages: their files, one version in all of them, lintian, manual pages that say what the programs say, the list of
what is in them, the unit, and programs in C and C++ that are built from libparkade-dev alone."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PARKADE_BUILD_DIR", TREE / "build/release")).resolve()
VERSION = re.search(r"project\(parkade VERSION ([\d.]+)", (TREE / "CMakeLists.txt").read_text())[1]
NAMES = ["libparkade", "libparkade-dev", "parkade", "parkaded", "python3-parkade"]
# What people and scripts rely on.
FILES = {
    "parkade": ["usr/bin/parkade", "usr/share/man/man1/parkade.1.gz", "usr/share/bash-completion/completions/parkade",
                "usr/share/zsh/vendor-completions/_parkade", "usr/share/fish/vendor_completions.d/parkade.fish"],
    "parkaded": ["usr/sbin/parkaded", "etc/parkade/parkaded.toml", "lib/systemd/system/parkaded.service",
                 "usr/share/man/man5/parkaded.toml.5.gz", "usr/share/man/man8/parkaded.8.gz"],
    "libparkade": ["usr/lib/x86_64-linux-gnu/libparkade.so", "usr/lib/x86_64-linux-gnu/libparkade_torch_memory_saver.so"],
    "libparkade-dev": ["usr/include/parkade/parkade.h", "usr/share/parkade/proto/control.proto", "usr/share/pkgconfig/parkade.pc",
                       "usr/share/cmake/Parkade/ParkadeConfig.cmake", "usr/share/man/man3/parkade.h.3.gz"],
    "python3-parkade": ["usr/lib/python3/dist-packages/parkade/control.binpb", "usr/lib/python3/dist-packages/parkade/client.py"],
}


def run(*words, code=0, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def unpack(packages, folder):
    """Each package into folder/NAME; checks names, versions and files."""
    debs = {run("dpkg-deb", "-f", deb, "Package").strip(): deb for deb in packages.glob("*.deb")}
    holds(sorted(debs) == NAMES, f"packages: {sorted(debs)}")
    for name, deb in debs.items():
        found = run("dpkg-deb", "-f", deb, "Version").strip()
        holds(found == f"{VERSION}-1", f"version of {name}: {found}")
        run("dpkg-deb", "-x", deb, folder / name)
        for file in FILES[name]:
            holds((folder / name / file).exists(), f"{name} has {file}")
        for program in ("usr/bin/parkade", "usr/sbin/parkaded"):
            if (path := folder / name / program).exists():
                holds(VERSION in run(path, "--version"), f"version of {program}")
                holds("not found" not in run("ldd", path), f"libraries of {program}")
                holds("RUNPATH" not in run("readelf", "-d", path), f"run path of {program}")
    metadata = next((folder / "python3-parkade").rglob("*.egg-info")).read_text()
    holds(f"\nVersion: {VERSION}\n" in metadata, f"version of the Python package: {metadata}")
    return sorted(debs.values())


def lintian(debs):
    said = run("lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", *debs)
    errors = [line for line in said.splitlines() if line.startswith("E:")]
    holds(not errors, "lintian: " + "\n".join(errors))


def manuals(folder):
    """Each page is free of errors and names what its program or header has."""
    pages = {path.name[:-3]: path for path in folder.rglob("man/man*/*.gz")}
    holds(len(pages) == 4, f"manual pages: {sorted(pages)}")
    text = {}
    for name, path in pages.items():
        plain = folder / name
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        run("mandoc", "-T", "lint", "-W", "error", plain)
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(plain)], capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
        holds(done.returncode == 0 and not done.stderr, f"man --warnings {name}: {done.stderr}")
        text[name] = re.sub(r"\\(f.|&)", "", plain.read_text()).replace("\\-", "-").replace("\\", "")
    parkade, parkaded = folder / "parkade/usr/bin/parkade", folder / "parkaded/usr/sbin/parkaded"
    help_of = run(parkade, "--help")
    verbs = re.findall(r"^  ([a-z][a-z-]+) ", help_of.partition("Subcommands:")[2], re.MULTILINE)
    holds(len(verbs) > 15, f"verbs of parkade: {help_of}")
    for word in verbs + re.findall(r"--[a-z][a-z-]+", help_of):
        holds(re.search(rf"(^|[\s,]){re.escape(word)}\b", text["parkade.1"]), f"parkade(1) has {word}")
    for word in re.findall(r"--[a-z][a-z-]+", run(parkaded, "--help")):
        holds(word in text["parkaded.8"], f"parkaded(8) has {word}")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PARKADE")}
    for line in run(parkaded, "--check-config", env=bare).splitlines():
        holds(line.partition("=")[0] in text["parkaded.toml.5"], f"parkaded.toml(5) has {line}")
    header = (folder / "libparkade-dev/usr/include/parkade/parkade.h").read_text()
    for word in {*re.findall(r"PARKADE_CALL\((parkade_\w+)", header), *re.findall(r"(PARKADE_[A-Z_]+) (?:=|\d)", header)}:
        holds(word in text["parkade.h.3"], f"parkade.h(3) has {word}")


def contents_list(debs):
    """The SPDX document: its fields, references and digests."""
    document = json.loads(run(sys.executable, TREE / "packaging/sbom.py", *debs))
    holds(document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0" and document["SPDXID"] == "SPDXRef-DOCUMENT", "its head")
    holds(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"]), "its date")
    holds(re.match(r"https://[^#\s]+$", document["documentNamespace"]), "its namespace")
    elements = [*document["packages"], *document["files"]]
    known = [document["SPDXID"], *(each["SPDXID"] for each in elements)]
    holds(len(known) == len(set(known)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in known), "identifiers")
    for relation in document["relationships"]:
        holds(relation["relationshipType"] in ("DESCRIBES", "CONTAINS", "DYNAMIC_LINK", "STATIC_LINK", "DEPENDS_ON"), relation)
        holds({relation["spdxElementId"], relation["relatedSpdxElement"]} <= set(known), f"a relationship to nothing: {relation}")
    for package in document["packages"]:
        holds({"name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"} <= set(package), f"fields of {package}")
        holds(package["filesAnalyzed"] == ("packageVerificationCode" in package), f"files of {package['name']}")
    digests = {hashlib.sha256(deb.read_bytes()).hexdigest() for deb in debs}
    ours = [package for package in document["packages"] if "packageFileName" in package]
    holds({package["checksums"][0]["checksumValue"] for package in ours} == digests, "digests of the packages")
    names = {package["name"] for package in document["packages"]}
    holds({*NAMES, "libgrpc++1.51", "libc6", "libstdc++-12-dev", "libcli11-dev"} <= names, f"packages in it: {sorted(names)}")


def unit(folder):
    """The unit is one that systemd reads without a word."""
    if shutil.which("systemd-analyze") is None:
        return print("the unit is not verified: there is no systemd-analyze")
    text = (folder / "parkaded/lib/systemd/system/parkaded.service").read_text()
    file = folder / "parkaded.service"
    file.write_text(text.replace("/usr/sbin/parkaded", str(folder / "parkaded/usr/sbin/parkaded")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(file)], capture_output=True, text=True, check=False)
    about = [line for line in (done.stdout + done.stderr).splitlines() if "parkaded" in line]
    holds(done.returncode == 0 and not about, f"systemd-analyze verify: {about}")


def interface(folder):
    """Every function that programs were built with, or that the headers declare, is there; those of parkade.h are as they were."""
    library = folder / "libparkade/usr/lib/x86_64-linux-gnu/libparkade.so"
    exported = {line.split()[7] for line in run("readelf", "--dyn-syms", "-W", library).splitlines() if " FUNC " in line and " UND " not in line}
    known = {line for line in (TREE / "packaging/libparkade.symbols").read_text().splitlines() if not line.startswith("#")}
    for header in (folder / "libparkade-dev/usr/include/parkade").glob("*.h"):
        known |= set(re.findall(r"^PARKADE_\w*CALL\((parkade_\w+),", header.read_text(), re.MULTILINE))
    holds(known <= exported, f"gone from libparkade.so: {sorted(known - exported)}")
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", TREE / "tests/packages/client/abi.c",
        "-I", folder / "libparkade-dev/usr/include", "-o", folder / "abi")


def clients(folder):
    """A program in C by pkg-config, and one in C++ by CMake that asks a daemon, from the package alone."""
    root = folder / "libparkade-dev/usr"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(root / "share/pkgconfig")}
    flags = run("pkg-config", "--cflags", "parkade", env=environment).split()
    holds(run("pkg-config", "--modversion", "parkade", env=environment).strip() == VERSION, "version of parkade.pc")
    for compiler in ("gcc", "g++"):
        run(compiler, "-Wall", "-Wextra", "-Werror", "-x", "c" if compiler == "gcc" else "c++", TREE / "tests/packages/client/tags.c",
            *flags, "-o", folder / "tags")
        run(folder / "tags")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    # The same folder each time, so that a compiler's cache helps.
    work = BUILD / "package-client"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(root, work / "usr")
    run("cmake", "-G", "Ninja", "-S", TREE / "tests/packages/client", "-B", work / "build", f"-DCMAKE_PREFIX_PATH={work}/usr", *launcher)
    run("cmake", "--build", work / "build")
    runtime = pathlib.Path(tempfile.mkdtemp(prefix="parkade-"))
    daemon = subprocess.Popen([BUILD / "bin/parkaded", "--runtime-dir", runtime, "--state-dir", folder / "state"], stderr=subprocess.DEVNULL)
    try:
        said = run(work / "build/client", runtime / "control.sock", timeout=60)
        holds(said == "0 processes\n", f"the client says {said!r}")
    finally:
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(runtime)
        shutil.rmtree(work)


def main(packages):
    for tool in ("dpkg-deb", "lintian", "mandoc", "man", "pkg-config"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is missing: run scripts/setup")
            sys.exit(77)
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        folder = pathlib.Path(name)
        debs = unpack(packages, folder)
        lintian(debs)
        manuals(folder)
        contents_list(debs)
        unit(folder)
        interface(folder)
        clients(folder)


main(pathlib.Path(sys.argv[1]))
