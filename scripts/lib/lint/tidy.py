# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the library and the commands, remembering what was clean.

A translation unit's verdict depends on the checks, its compile command, and the contents of its
source and of every header it reads, but for comments. A hash over all of these is kept once it was
found clean, so a second run only looks at what changed. Tests are left out: they are compiled with
all warnings and run under sanitizers, and GoogleTest's macros alone would take longer than the
library.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess

from .tree import ROOT, Unusable, in_parallel, run, tool

CACHE = os.path.join(
    os.environ.get("CRYO_CACHE")
    or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cryo"),
    "tidy")
# How far the analyzer follows the paths through one function. The default, 225000, takes five
# times as long.
ANALYZER_DEPTH = "max-nodes=30000"
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"] + [
    f"--extra-arg={argument}"
    for argument in ("-Xclang", "-analyzer-config", "-Xclang", ANALYZER_DEPTH)]
# clang has _Float16 on x86 since 15, and the headers of Open MPI 5.0 make a type of it.
OF_COMPONENTS = ["--extra-arg=-D_Float16=short"]
KEPT_VERDICTS = 16  # per source: enough to go back and forth between a few versions


class Unit:
    """One translation unit: how it is compiled, and what its verdict depends on."""

    def __init__(self, name, command, directory, salt):
        self.name = name
        self.arguments = shlex.split(command)
        self.directory = directory
        self.options = OF_COMPONENTS if name.startswith("ompi-crs-component/") else []
        self.salt = salt + " ".join(self.options)
        self._inputs = None
        self.record = os.path.join(CACHE, hashlib.sha256(name.encode()).hexdigest())
        try:
            with open(self.record, encoding="utf-8") as file:
                self.remembered = json.load(file)
        except (OSError, ValueError):
            self.remembered = {"inputs": [], "clean": []}

    def inputs(self):
        """The files it reads, relative to the tree where they lie in it."""
        if self._inputs is None:
            self._inputs = self._ask_compiler()
        return self._inputs

    def _ask_compiler(self):
        arguments = list(self.arguments)
        if "-o" in arguments:
            at = arguments.index("-o")
            del arguments[at:at + 2]
        made = subprocess.run(arguments + ["-M"], cwd=self.directory, capture_output=True,
                              text=True)
        if made.returncode:
            raise Unusable(f"{self.name} does not compile: {made.stderr}")
        paths = made.stdout.replace("\\\n", " ").split(":", 1)[1].split()
        return sorted({_portable(os.path.join(self.directory, path)) for path in paths})

    def key(self, inputs, hashes):
        command = " ".join(self.arguments).replace(self.directory, "BUILD").replace(ROOT, "ROOT")
        whole = [self.salt, command] + [f"{path} {hashes.of(path)}" for path in inputs]
        return hashlib.sha256("\n".join(whole).encode()).hexdigest()

    def known_clean(self, hashes):
        inputs = self.remembered["inputs"]
        return bool(inputs) and self.key(inputs, hashes) in self.remembered["clean"]

    def remember_clean(self, hashes):
        inputs = self.inputs()
        clean = [self.key(inputs, hashes)] + self.remembered["clean"]
        os.makedirs(CACHE, exist_ok=True)
        new = f"{self.record}.{os.getpid()}"
        with open(new, "w", encoding="utf-8") as file:
            json.dump({"inputs": inputs, "clean": clean[:KEPT_VERDICTS]}, file)
        os.replace(new, self.record)


class Hashes:
    """Contents of inputs by hash; of the system's headers size and time are enough."""

    def __init__(self):
        self._known = {}

    def of(self, path):
        if path not in self._known:
            self._known[path] = self._make(path)
        return self._known[path]

    @staticmethod
    def _make(path):
        try:
            if os.path.isabs(path):
                status = os.stat(path)
                return f"{status.st_size} {status.st_mtime_ns}"
            with open(os.path.join(ROOT, path), "rb") as file:
                return hashlib.sha256(without_comments(file.read())).hexdigest()
        except OSError:
            return "gone"


def without_comments(text):
    """But with those that silence a check."""
    stripped = subprocess.run([tool("gcc"), "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-"],
                              input=text, capture_output=True)
    if stripped.returncode:
        return text
    silencing = [line for line in text.splitlines() if b"NOLINT" in line]
    return b"\n".join([stripped.stdout, *silencing])


def _portable(path):
    path = os.path.realpath(path)
    return os.path.relpath(path, ROOT) if path.startswith(ROOT + os.sep) else path


def _units(tree, salt):
    database = os.path.join(tree.build, "compile_commands.json")
    try:
        with open(database, encoding="utf-8") as file:
            entries = json.load(file)
    except OSError as error:
        raise Unusable(f"{database}: {error.strerror}; configure first: cmake --preset release")
    wanted = set(tree.matching(r"^(userlib|cr_\w+|(ompi|opal)-[\w-]+)/.*\.(c|cpp)$"))
    units = {}
    for entry in entries:
        name = _portable(entry["file"])
        if name in wanted:
            units.setdefault(name, Unit(name, entry["command"], entry["directory"], salt))
    if not units:
        raise Unusable(f"{database} names none of the sources to check; configure it again")
    for name in sorted(wanted - set(units)):
        print(f"lint tidy: {name} is not built in {tree.build}, so it is left out")
    return list(units.values())


def _salt(program):
    with open(os.path.join(ROOT, ".clang-tidy"), encoding="utf-8") as file:
        return run([program, "--version"]).stdout + " ".join(OPTIONS) + file.read()


def tidy(tree):
    program = tool("clang-tidy")
    hashes = Hashes()
    units = _units(tree, _salt(program))
    changed = tree.changed() if tree.since else None
    if changed is not None and ".clang-tidy" not in changed:
        units = [unit for unit in units if unit.name in changed or changed & set(unit.inputs())]
    stale = [unit for unit in units if not unit.known_clean(hashes)]
    print(f"lint tidy: {len(units)} sources, {len(stale)} to look at", flush=True)
    if tree.most and len(stale) > tree.most:
        stale.sort(key=lambda unit: (-tree.last_change(unit.name), unit.name))
        print(f"lint tidy: the {tree.most} that changed last are looked at; without --most, all",
              flush=True)
        del stale[tree.most:]

    def check(unit):
        result = run([program, *OPTIONS, *unit.options, "-p", tree.build, unit.name])
        if result.returncode == 0:
            unit.remember_clean(hashes)
            return []
        complaints = [line.replace(ROOT + os.sep, "") for line in result.stdout.splitlines()
                      if re.search(r": (error|warning): ", line)]
        return complaints or [f"{unit.name}: {result.stdout}"]

    return in_parallel(check, stale)
