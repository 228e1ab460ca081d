# SPDX-License-Identifier: Apache-2.0
"""Which files there are, what kind each is, and how tools are run on them."""
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
WORKERS = 2


class Unusable(Exception):
    """What keeps a check from being made at all; says what to do."""


def tool(name, package=None):
    """The path of a program, or a sentence about which package has it."""
    path = shutil.which(name)
    if not path:
        raise Unusable(f"no {name} here; install it: apt-get install {package or name}")
    return path


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", **options)


def in_parallel(function, items):
    """All complaints of function(item), which returns a list, in the order of the items."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return [complaint for found in pool.map(function, items) for complaint in found]


class Tree:
    def __init__(self, tracked_only=False, build=None, since=None, most=None):
        self.build = os.path.abspath(build) if build else os.path.join(ROOT, "build", "release")
        listing = run([tool("git"), "ls-files", "-z", "--cached"]
                      + ([] if tracked_only else ["--others", "--exclude-standard"]))
        if listing.returncode:
            raise Unusable(f"{ROOT} is no git checkout, so its files are unknown: {listing.stdout}")
        names = sorted(set(listing.stdout.split("\0")) - {""})
        # A file may be gone from the disk and not yet from the index.
        self.files = [name for name in names if os.path.isfile(os.path.join(ROOT, name))]
        self._bytes = {}
        self.since = since
        self.most = most

    @staticmethod
    def last_change(name):
        """When it was committed last, in seconds; of what is not committed: later than all."""
        if run([tool("git"), "status", "--porcelain", "--", name]).stdout.strip():
            return float("inf")
        when = run([tool("git"), "log", "-1", "--format=%ct", "--", name]).stdout.strip()
        return int(when) if when else float("inf")

    def changed(self):
        """The files that are not as they were at the commit `since`; None: it is not known."""
        since = self.since
        if since == "full-run":
            rows = re.findall(r"^\| ([0-9a-f]{7,40}) \| \d{4}-",
                              self.content("docs/soak.md").decode(), re.MULTILINE)
            since = rows[-1] if rows else None
        if not since:
            return None
        listing = run([tool("git"), "diff", "--name-only", "-z", since, "--"])
        if listing.returncode:
            return None  # a shallow clone does not have it
        return set(listing.stdout.split("\0")) | set(self.files).difference(self._tracked())

    @staticmethod
    def _tracked():
        return run([tool("git"), "ls-files", "-z", "--cached"]).stdout.split("\0")

    def content(self, name):
        if name not in self._bytes:
            with open(os.path.join(ROOT, name), "rb") as file:
                self._bytes[name] = file.read()
        return self._bytes[name]

    def is_binary(self, name):
        return b"\0" in self.content(name)

    def lines(self, name):
        return self.content(name).decode("utf-8", errors="replace").split("\n")

    def shebang(self, name):
        first = self.lines(name)[0]
        return first if first.startswith("#!") else ""

    def is_executable(self, name):
        return os.access(os.path.join(ROOT, name), os.X_OK)

    def matching(self, pattern):
        return [name for name in self.files if re.search(pattern, name)]

    def c_family(self):
        """C and C++ outside the kernel module, which follows the kernel's style."""
        return [name for name in self.matching(r"\.(c|h|cpp|hpp|cc|hh|inc)$")
                if not name.startswith("kmod/")]

    def public_headers(self):
        return self.matching(r"^userlib/include/.*\.h$|^kmod/.*\buapi/.*\.h$")

    def shell_scripts(self):
        def is_shell(name):
            head = "\n".join(self.lines(name)[:3])
            return (name.endswith(".sh") or re.search(r"^#!.*\b(ba|da|)sh\b", self.shebang(name))
                    or "# shellcheck shell=" in head)
        return [name for name in self.files if not self.is_binary(name) and is_shell(name)]

    def python_files(self):
        return [name for name in self.files
                if name.endswith(".py") or "python" in self.shebang(name)]

    def manual_pages(self):
        return self.matching(r"^man/.*\.[1-9]$")
