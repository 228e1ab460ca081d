# SPDX-License-Identifier: Apache-2.0
"""Checks of files as text, whatever they are for: licences, hygiene, scripts, manual pages."""
import os
import re
from fnmatch import fnmatch

from .tree import ROOT, in_parallel, run, tool

# The first pattern that a path matches says which licence it is under.
LICENCES = (
    ("kmod/*uapi/*.h", "GPL-2.0-only WITH Linux-syscall-note"),
    ("kmod/*", "GPL-2.0-only"),
    ("Kbuild", "GPL-2.0-only"),
    ("*", "Apache-2.0"),
)
# Files that cannot hold a comment, or are the licences themselves.
WITHOUT_COMMENTS = ("LICENSES/*", "*.json", "tests/*/corpus/*", "debian/changelog",
                    "debian/copyright", "debian/source/format")

MAX_LINES = 500
# path: why it is one file
LONG_FILES = {
    "docs/image-format.md": "every byte of the format, to be searched and not read",
    "userlib/mpi/wrap/functions.txt": "the one table of MPI's functions",
    "tests/costs.txt": "a line a test, written by scripts/test --measure",
    "userlib/include/libcr.h": "a public header that one file includes, and each function's contract",
}

# What must not stand in a file, and why. Written so that none matches itself.
FORBIDDEN = (
    (r"(?<![\w.])/(wor[k]|roo[t])/", "a path of one machine"),
    (r"(?<![\w.])/hom[e]/(?!user\b|\$)\w", "a path of one machine"),
    (r"\b[\w-]+\.(debia[n]|ubunt[u])\.(org|net|com)\b",
     "a package archive's address: take it from apt's configuration"),
    (r"\b(TOD[O]|FIXM[E]|XX[X])\b", "unfinished work: finish it, or say in words what is not done"),
    (r"^(<{7}|={7}|>{7})( |$)", "a conflict marker"),
)


def spdx(tree):
    complaints = []
    for name in tree.files:
        if any(fnmatch(name, pattern) for pattern in WITHOUT_COMMENTS) or tree.is_binary(name):
            continue
        expected = next(licence for pattern, licence in LICENCES if fnmatch(name, pattern))
        found = re.search(r"SPDX-License-Identifier: (.*?)\s*(?:\*/|-->)?$",
                          "\n".join(tree.lines(name)[:2]), re.MULTILINE)
        if not found:
            complaints.append(f"{name}:1: no 'SPDX-License-Identifier: {expected}' in the first two"
                              " lines")
        elif found.group(1) != expected:
            complaints.append(f"{name}:1: licence is '{found.group(1)}', here it is '{expected}'")
    return complaints


def hygiene(tree):
    complaints = []
    for name in tree.files:
        if tree.is_binary(name) or fnmatch(name, "LICENSES/*") or fnmatch(name, "tests/*/corpus/*"):
            continue
        complaints += _form(tree, name)
        for number, line in enumerate(tree.lines(name), 1):
            complaints += [f"{name}:{number}: {why}" for why in _line_faults(name, line)]
    return complaints


def _form(tree, name):
    """What is wrong with a file as a whole."""
    content = tree.content(name)
    if not content:
        yield f"{name}: empty"
        return
    if not content.endswith(b"\n") or content.endswith(b"\n\n"):
        yield f"{name}: must end with exactly one newline"
    if tree.is_executable(name) != bool(tree.shebang(name)):
        yield f"{name}: a file is executable if, and only if, it begins with #!"
    count = content.count(b"\n")
    if count > MAX_LINES and name not in LONG_FILES:
        yield f"{name}: {count} lines; split it, or list it with a reason in LONG_FILES"
    if count <= MAX_LINES and name in LONG_FILES:
        yield f"{name}: no longer long: remove it from LONG_FILES"
    third = "".join(tree.lines(name)[2:3])
    if name.endswith((".h", ".hpp")) and not re.match(r" ?\*|/\*|// \w", third):
        yield f"{name}:3: a header opens with a paragraph on what it owns, below its licence"
    if name.endswith(".md"):
        yield from _dead_links(tree, name)


def _line_faults(name, line):
    if line != line.rstrip():
        yield "blanks at the end of the line"
    if "\t" in line and re.search(r"\.(cpp|hpp|py|sh|cmake|md|json)$|CMakeLists\.txt$", name):
        yield "a tab, where blanks are used"
    for pattern, why in FORBIDDEN:
        if re.search(pattern, line):
            yield why


def _dead_links(tree, name):
    """Relative links of a Markdown file whose target does not exist."""
    for number, line in enumerate(tree.lines(name), 1):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(name), target)):
                yield f"{name}:{number}: links to {target}, which does not exist"


def shell(tree):
    program = tool("shellcheck")
    return in_parallel(
        lambda name: run([program, "--format=gcc", "--external-sources", name]).stdout.splitlines(),
        tree.shell_scripts())


def python(tree):
    names = tree.python_files()
    return run([tool("pyflakes3"), *names]).stdout.splitlines() if names else []


def man(tree):
    program = tool("mandoc")
    complaints = []
    for name in tree.manual_pages():
        complaints += run([program, "-T", "lint", "-W", "warning", name]).stdout.splitlines()
    return complaints
