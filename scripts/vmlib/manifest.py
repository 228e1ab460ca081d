# SPDX-License-Identifier: Apache-2.0
"""What a cache entry holds, so that damage is noticed and the entry made again.

    manifest.seal(directory, kernel="6.12", release=…)     when it is complete
    facts = manifest.read(directory)                        None: absent, unfinished or damaged
"""

import hashlib
import json
import os

NAME = "manifest.json"


def _files(directory):
    for base, dirs, files in os.walk(directory):
        for name in files + [d for d in dirs if os.path.islink(os.path.join(base, d))]:
            path = os.path.join(base, name)
            relative = os.path.relpath(path, directory)
            if relative != NAME:
                yield relative, path


def _digest(path):
    if os.path.islink(path):
        return "link:" + os.readlink(path)
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seal(directory, **facts):
    """Writes the manifest; from now on the entry counts."""
    files = {name: [os.lstat(path).st_size, _digest(path)] for name, path in _files(directory)}
    text = json.dumps({"facts": facts, "files": files}, indent=0)
    (directory / NAME).write_text(text)


def read(directory, every_byte=False):
    """The facts of a sound entry, else None. Sizes are always checked, contents when asked."""
    try:
        whole = json.loads((directory / NAME).read_text())
        for name, (size, digest) in whole["files"].items():
            path = os.path.join(directory, name)
            if os.lstat(path).st_size != size or (every_byte and _digest(path) != digest):
                return None
        return whole["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def intact(directory, name):
    """Whether one file of the entry still has the contents it had when sealed."""
    files = json.loads((directory / NAME).read_text())["files"]
    return files[name][1] == _digest(os.path.join(directory, name))
