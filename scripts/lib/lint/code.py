# SPDX-License-Identifier: Apache-2.0
"""Checks of C and C++ that need no build: formatting, and public headers on their own."""
import re

from .tree import Unusable, in_parallel, run, tool

# Releases of clang-format differ in what they print; one is the measure.
CLANG_FORMAT = "14"


def _clang_format():
    program = tool("clang-format")
    version = re.search(r"version (\d+)", run([program, "--version"]).stdout)
    if not version or version.group(1) != CLANG_FORMAT:
        raise Unusable(f"clang-format {CLANG_FORMAT} is needed, {program} is another")
    return program


def style(tree):
    names = tree.c_family()
    if not names:
        return []
    result = run([_clang_format(), "--dry-run", "-Werror", *names])
    if result.returncode == 0:
        return []
    # Each complaint is followed by the line and a caret; the place is enough.
    lines = result.stdout.splitlines()
    return [re.sub(r"code should be .*", "not formatted: scripts/lint --fix", line)
            for line in lines if "code should be clang-formatted" in line] or lines


def reformat(tree):
    names = tree.c_family()
    if names:
        result = run([_clang_format(), "-i", *names])
        if result.returncode:
            raise Unusable(f"clang-format failed: {result.stdout}")


def variables(tree):
    """Cryo's variables are not obeyed where rights are gained: one function sees to it. Any other
    way to read the environment says by a literal that it is about somebody else's variable."""
    complaints = []
    for name in tree.matching(r"^(userlib|cr_\w+|(ompi|opal)-[\w-]+)/.*\.(c|h|cpp|hpp|inc)$"):
        for number, line in enumerate(tree.lines(name), 1):
            complaints += [f"{name}:{number}: getenv({argument}): read it by sys::own_variable"
                           for argument in re.findall(r"\bgetenv\(([^)]*)", line)
                           if not re.match(r'"(?!CRYO_)', argument)]
    return complaints


LANGUAGES = (
    ("gcc", "-std=c99", "c"),
    ("g++", "-std=c++20", "c++"),
)


def headers(tree):
    def compiles(job):
        name, (compiler, standard, language) = job
        result = run([tool(compiler), standard, "-x", language, "-fsyntax-only", "-Wall", "-Wextra",
                      "-pedantic", "-Werror", "-include", name, "/dev/null"])
        return result.stdout.splitlines() if result.returncode else []

    return in_parallel(compiles, [(name, language) for name in tree.public_headers()
                                  for language in LANGUAGES])
