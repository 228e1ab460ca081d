#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of cr_delta add, merge, prune and restore.

After each, every version that was there before gives its file, byte by byte, the service directory
verifies, and the series goes on. A model beside it knows what each version must give.

    kill_delta.py --command build/release/bin/cr_delta [--rounds N] [--seed S]
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

BLOCK = 4096
BLOCKS = 1500
KEPT = 5


class Failed(Exception):
    pass


class Series:
    def __init__(self, options, directory):
        self.command = options.command
        self.random = random.Random(options.seed)
        self.directory = directory
        self.service = self.path("service")
        self.file = self.path("file")
        self.contents = {}  # version: what it must give
        self.now = bytearray(self.random.randbytes(BLOCK * BLOCKS))
        self.images = 0
        self.killed = 0
        self.took = 0.05

    def path(self, name):
        return os.path.join(self.directory, name)

    def arguments(self, verb, *more):
        return [self.command, verb, "--service", self.service, *more]

    def run(self, verb, *more, status=(0,)):
        done = subprocess.run(self.arguments(verb, *more), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, timeout=120)
        if done.returncode not in status:
            raise Failed(f"{verb} {' '.join(more)}: exit status {done.returncode}: "
                         f"{done.stdout}{done.stderr}")
        return done

    def kill(self, verb, *more):
        """Runs a command and kills it, mostly before it has ended. True if it had ended well."""
        started = time.monotonic()
        victim = subprocess.Popen(self.arguments(verb, *more), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # The random moment, not a wait for anything.
        try:
            victim.wait(self.random.random() * self.took * 1.3)
        except subprocess.TimeoutExpired:
            victim.kill()
        _, errors = victim.communicate()
        if victim.returncode == 0:
            self.took = 0.7 * self.took + 0.3 * (time.monotonic() - started)
            return True
        if victim.returncode != -9:
            raise Failed(f"{verb}: exit status {victim.returncode}: {errors.decode()}")
        self.killed += 1
        return False

    def listing(self):
        return json.loads(self.run("list", "--json").stdout)

    def kept(self):
        """A superseded image that others are based on stays listed; its version need not be there."""
        return {v["number"] for v in self.listing()["versions"] if v["state"] == "kept"}

    def change(self):
        for _ in range(self.random.randrange(60)):
            at = self.random.randrange(len(self.now) // BLOCK) * BLOCK
            self.now[at:at + BLOCK] = self.random.randbytes(BLOCK)
        with open(self.file, "wb") as file:
            file.write(self.now)

    def new_image(self):
        self.images += 1
        return self.path(f"image-{self.images}")

    # What may be killed.

    def add(self):
        self.change()
        before = self.listing()["next"] if self.contents else 1
        image = self.new_image()
        ended = self.kill("add", self.file, "-o", image)
        if not os.path.exists(os.path.join(self.service, "state")):
            return
        after = self.listing()["next"]
        if after == before + 1:
            self.contents[before] = bytes(self.now)
        elif ended or after != before:
            raise Failed(f"version {before} is lost: the next one would be {after}")
        elif os.path.exists(image):
            raise Failed(f"{image}: is there, and the service directory does not know it")

    def merge(self):
        number = self.random.choice(list(self.contents))
        based = [v for v in self.listing()["versions"] if v["base"] == number]
        where = ["-o", self.new_image()] if based or self.random.random() < 0.5 else []
        self.kill("merge", str(number), *where)

    def prune(self):
        keep = self.random.randrange(1, KEPT + 1)
        self.kill("prune", "--keep", str(keep))
        for number in set(self.contents) - self.kept():
            if number > max(self.contents) - keep:
                raise Failed(f"version {number} is gone and should have been kept")
            del self.contents[number]

    def restore(self):
        number = self.random.choice(list(self.contents))
        target = self.path("restored")
        ended = self.kill("restore", str(number), "-o", target)
        if os.path.exists(target):
            self.check_contents(number, target)
            os.unlink(target)
        elif ended:
            raise Failed(f"restore {number} wrote nothing")

    def check_contents(self, number, path):
        with open(path, "rb") as file:
            if file.read() != self.contents[number]:
                raise Failed(f"version {number} gives another file")

    def check(self):
        """Everything that should be there gives what it should."""
        if not self.contents:
            return
        self.run("verify", "-q")
        numbers = self.kept()
        if numbers != set(self.contents):
            raise Failed(f"there are versions {sorted(numbers)}, not {sorted(self.contents)}")
        for number in numbers:
            target = self.path("checked")
            self.run("restore", str(number), "-o", target, "-f", "-q")
            self.check_contents(number, target)

    def round(self):
        verb = self.random.choice([self.add, self.add, self.merge, self.prune, self.restore])
        if not self.contents:
            verb = self.add
        try:
            verb()
            self.check()
            if len(self.contents) > 2 * KEPT:
                self.run("prune", "--keep", str(KEPT))
                kept = self.kept()
                self.contents = {n: c for n, c in self.contents.items() if n in kept}
        except Failed as failure:
            raise Failed(f"{verb.__name__}: {failure}") from failure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True)
    parser.add_argument("--rounds", type=int,
                        default=1000 if os.environ.get("CRYO_SOAK") else 60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    directory = tempfile.mkdtemp(prefix="cryo-delta-kills.")
    series = Series(options, directory)
    number = 0
    try:
        for number in range(options.rounds):
            series.round()
    except Failed as failure:
        print(f"FAILED in round {number} with seed {options.seed}: {failure} (files: {directory})")
        return 1
    shutil.rmtree(directory)
    print(f"{options.rounds} rounds, {series.killed} killed before they had ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
