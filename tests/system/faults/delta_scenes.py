# SPDX-License-Identifier: Apache-2.0
"""A series of versions of a file, and a command of cr_delta that is disturbed."""
import json
import os
import random
import shutil

import scene
from scene import Fault

VERSIONS = 3
SERIES = "series"  # the directory in which the command runs
PRISTINE = "pristine"


class Scene(scene.Scene):
    """Versions that were there give their file; an output is whole, or is not there."""

    sample = 8
    words = ()
    output = None  # a file that the command makes
    gives = None   # the version whose file that is

    def prepare(self):
        os.mkdir(self.path(SERIES))
        self.contents = {}
        self.program = self.bin("cr_delta")
        content = random.Random(1).randbytes(300000)
        for number in range(1, VERSIONS + 1):
            changed = bytearray(content)
            changed[number * 4096] ^= 1
            content = bytes(changed)
            self.contents[number] = content
            self.write(content)
            self.run(self.program, "add", "--service", "service", "file", "-o", f"d{number}")
        self.run(self.program, "sign", "file", "-o", "signature")
        os.rename(self.path(f"{SERIES}/file"), self.path(f"{SERIES}/base"))
        self.write(self.contents[1])
        self.run(self.program, "make", "--signature", "signature", "file", "-o", "delta")
        shutil.copytree(self.path(SERIES), self.path(PRISTINE))
        self.known = set(os.listdir(self.path(SERIES)))

    def where(self):
        return self.path(SERIES)

    def write(self, content):
        with open(self.path(f"{SERIES}/file"), "wb") as file:
            file.write(content)

    def command(self):
        return [self.program, *self.words]

    def made(self, name):
        with open(self.path(f"{SERIES}/{name}"), "rb") as file:
            return file.read()

    def listing(self):
        return json.loads(self.run(self.program, "list", "--service", "service", "--json"))["versions"]

    def kept(self):
        return {version["number"] for version in self.listing() if version["state"] == "kept"}

    def check_version(self, number, contents=None):
        self.run(self.program, "restore", "--service", "service", str(number), "-o", "restored")
        if self.made("restored") != (contents or self.contents)[number]:
            raise Fault(f"version {number} gives another file")
        os.unlink(self.path(f"{SERIES}/restored"))

    def verify(self, status):
        new = set(os.listdir(self.path(SERIES))) - self.known
        if new - {self.output}:
            raise Fault(f"left over: {sorted(new - {self.output})}")
        if self.output in new:
            self.check_output()
        elif status == 0 and self.output:
            raise Fault(f"it said that it was done, and there is no {self.output}")
        self.run(self.program, "verify", "--service", "service")
        self.check_versions(status)
        shutil.rmtree(self.path(SERIES))
        shutil.copytree(self.path(PRISTINE), self.path(SERIES))

    def check_versions(self, _status):
        if self.kept() != set(self.contents):
            raise Fault(f"the versions {sorted(self.kept())} are left")
        for number in self.contents:
            self.check_version(number)

    def check_output(self):
        """It is whole."""
        if self.gives and self.made(self.output) != self.contents[self.gives]:
            raise Fault("it made another file")


class Add(Scene):
    words = ("add", "--service", "service", "file", "-o", "d4")
    output = "d4"

    def check_versions(self, _status):
        added = os.path.exists(self.path(f"{SERIES}/d4"))
        wanted = {**self.contents, **({4: self.contents[1]} if added else {})}
        if self.kept() != set(wanted):
            raise Fault(f"the versions {sorted(self.kept())} are listed, of {sorted(wanted)}")
        for number in wanted:
            self.check_version(number, wanted)


class Merge(Scene):
    """A version's own image is replaced."""
    words = ("merge", "--service", "service", str(VERSIONS))

    def check_versions(self, status):
        super().check_versions(status)
        last = self.listing()[-1]
        if status == 0 and last["base"]:
            raise Fault("it said that it was done, and the version still has a base")


class Prune(Scene):
    words = ("prune", "--service", "service", "--keep", "1")

    def check_versions(self, status):
        kept = self.kept()
        if VERSIONS not in kept:
            raise Fault("the newest version is gone")
        if status == 0 and kept == set(self.contents):
            raise Fault("it said that it was done, and no version is gone")
        for number in kept:
            self.check_version(number)


class Restore(Scene):
    words = ("restore", "--service", "service", "2", "-o", "back")
    output = "back"
    gives = 2


class List(Scene):
    words = ("list", "--service", "service")


class Verify(Scene):
    words = ("verify", "--service", "service")


class Sign(Scene):
    words = ("sign", "base", "-o", "signature.again")
    output = "signature.again"

    def check_output(self):
        self.run(self.program, "make", "--signature", self.output, "file", "-o", "with.it")
        self.run(self.program, "apply", "--base", "base", "with.it", "-o", "applied.again")
        if self.made("applied.again") != self.contents[1]:
            raise Fault("what is made with the signature gives another file")


class Make(Scene):
    words = ("make", "--signature", "signature", "file", "-o", "delta.again")
    output = "delta.again"

    def check_output(self):
        self.run(self.program, "apply", "--base", "base", self.output, "-o", "applied.again")
        if self.made("applied.again") != self.contents[1]:
            raise Fault("the delta gives another file")


class Apply(Scene):
    words = ("apply", "--base", "base", "delta", "-o", "applied")
    output = "applied"
    gives = 1


SCENES = {f"delta_{kind.__name__.lower()}": kind
          for kind in (Add, Merge, Prune, Restore, List, Verify, Sign, Make, Apply)}
