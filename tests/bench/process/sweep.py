# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint costs by each method, over sizes and over shares of memory that have changed.

    points = Sweep(cryo, full=True).over_shares("small", 512)
    points[0].x, points[0].samples[("fork", "stop")]

All that stands in one point was measured in turns, in random order, with two programs of the same
size: one whose memory is never watched, and one that has a chain of delta images, for watching
splits huge pages.
"""
import os
import random
import resource
import subprocess
import time

from patients import Copy, Wrong, await_copies, reap, remove

MIB = 1 << 20
PAGE = 4096
# Name, options, whether it is a delta and so of the program that is watched.
METHODS = (
    ("blocking", ("--snapshot=stop",), False),
    ("fork", ("--snapshot=fork",), False),
    ("fork, delta", ("--snapshot=fork", "--delta=incremental"), True),
    ("staged, delta", ("--snapshot=staged", "--delta=incremental"), True),
    ("planned, delta", ("--delta=incremental",), True),
)
LIMITS = ("fork()", "memcpy", "dd direct")
METRICS = ("stop", "durable", "bytes", "cpu")
SHARES = (1000, 300, 100, 20, 10, 4, 1)  # a page of so many has changed
SIZES = (16, 64, 256, 512)


class Point:
    """Samples at one place of the x axis: by (method, metric), lists of seconds or bytes."""

    def __init__(self, x, mib, every):
        self.x, self.mib, self.every = x, mib, every
        self.samples = {}
        self.chosen = {}  # what a method did in the end: stop, fork, staged

    def add(self, method, metric, value):
        self.samples.setdefault((method, metric), []).append(value)


class Sweep:
    """Measures; results that are wrong raise Wrong."""

    def __init__(self, cryo, full):
        self.cryo, self.full = cryo, full
        self.random = random.Random(6)
        self.restarts = 0

    def rounds(self):
        return range(7 if self.full else 1)

    def over_shares(self, pages, mib):
        """Points of one size; x: the share that has changed, in percent."""
        every = SHARES if self.full else (100, 2)
        points = [Point(100 / one, mib, one) for one in every]
        with Pair(self, pages, mib) as pair:
            pair.measure(points)
        return points

    def over_sizes(self, pages, sizes, every=100):
        """Points of one share; x: MiB."""
        points = [Point(mib, mib, every) for mib in sizes]
        for point in points:
            with Pair(self, pages, point.mib) as pair:
                pair.measure([point])
        return points


class Pair:
    """The two programs of a size."""

    def __init__(self, sweep, pages, mib):
        self.sweep, self.cryo, self.mib = sweep, sweep.cryo, mib
        self.plain, self.watched = (self.cryo.start(mib, pages) for _ in range(2))
        self.chain = []  # images, the newest last
        self.source = None  # of dd: a file of memory

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in (self.plain, self.watched):
            program.end()
        reap()
        for image in self.chain:
            remove(image)

    def measure(self, points):
        """Fills the points: in each round each method once, those without a delta once for all."""
        self.complete()  # the first pays for the watching
        self.cryo.checkpoint(self.plain, "whole.image", "--snapshot=stop")
        with Copy("whole.image") as self.source:
            for _ in self.sweep.rounds():
                turns = [(method, None) for method in METHODS if not method[2]]
                turns += [(limit, None) for limit in LIMITS] + [(None, point) for point in points]
                self.sweep.random.shuffle(turns)
                for what, point in turns:
                    self.take_turn(what, point, points)
        self.bring_back()

    def take_turn(self, what, point, points):
        if what in LIMITS:
            self.limit(what, points)
        elif point is None:
            self.whole(what, points)
        else:
            self.complete()
            deltas = [method for method in METHODS if method[2]]
            self.sweep.random.shuffle(deltas)
            for method in deltas:
                self.delta(method, point)

    def complete(self):
        """Begins a chain."""
        for image in self.chain:
            remove(image)
        self.chain = ["chain.0"]
        self.cryo.checkpoint(self.watched, self.chain[0], "--delta=incremental")
        await_copies([self.plain.pid, self.watched.pid])

    def whole(self, method, points):
        image = "whole.image"
        figures = self.one(self.plain, method, image)
        for point in points:
            self.add(point, method[0], figures)
            point.add(method[0], "faults", figures["faults"])
        remove(image)
        # Pages that a copy unshares are copied, by it or by the program.
        most = 256 + self.mib * MIB // PAGE // 1000
        if figures["faults"] > most:
            raise Wrong(f"a frozen copy had {figures['faults']} page faults, more than {most}")

    def delta(self, method, point):
        self.watched.change(point.every)
        image = f"chain.{len(self.chain)}"
        extra = []
        if method[0] == "staged, delta":  # that is made before the stop, and costs processor time
            extra = [f"--stage-memory={self.mib // point.every + 16}MiB"]
        figures = self.one(self.watched, method, image, "--base", self.chain[-1], *extra)
        self.chain.append(image)
        self.add(point, method[0], figures)

    @staticmethod
    def add(point, name, figures):
        for metric in METRICS:
            point.add(name, metric, figures[metric])
        point.chosen.setdefault(name, []).append(figures["snapshot"])

    def one(self, program, method, image, *options):
        """One checkpoint; "stop" is what a thread of the program felt."""
        others = [self.plain.pid, self.watched.pid]
        program.ask("s")
        used = processor_time(program.pid)
        done = self.cryo.checkpoint(program, image, *method[1], *options)
        felt = program.ask("g")
        faults = await_copies(others)
        return {"faults": faults, "stop": felt / 1e9, "durable": done["wall_ns"] / 1e9,
                "bytes": os.stat(image).st_size, "cpu": processor_time(program.pid) - used,
                "snapshot": done["snapshot"]}

    def limit(self, what, points):
        """What the machine gives, beside: of everything, and of what has changed."""
        if what == "fork()":
            took = self.plain.ask("f") / 1e9
        elif what == "memcpy":
            took = self.plain.ask("m") / 1e9
        else:
            took, used = self.dd()
        for point in points:
            if what == "dd direct":
                point.add(what, "durable", took)
                point.add(what, "cpu", used)
            else:
                point.add(what, "stop", took)
            if what == "memcpy":
                point.add("memcpy of what has changed", "stop", took / point.every)

    def dd(self):
        before = time.monotonic(), processor_time()
        subprocess.run(["dd", f"if={self.source}", "of=dd.out", "bs=4M", "status=none", "oflag=direct",
                        "conv=fsync"], check=True)
        took = time.monotonic() - before[0], processor_time() - before[1]
        remove("dd.out")
        return took

    def bring_back(self):
        """The programs, and what the last images bring back, have what they had."""
        self.cryo.checkpoint(self.plain, "whole.image")
        for program, image in ((self.plain, "whole.image"), (self.watched, self.chain[-1])):
            program.check()
            if program.end() != 0:
                raise Wrong("a program that was saved did not end well")
            await_copies({self.plain.pid, self.watched.pid} & running(self.plain, self.watched))
            back = self.cryo.restart(image)
            back.check()
            if back.end() != 0:
                raise Wrong("a program that was brought back did not end well")
            self.sweep.restarts += 1
        remove("whole.image")


def running(*programs):
    return {program.pid for program in programs if program.process.poll() is None}


def processor_time(pid=None):
    """Seconds that children which have been waited for have used, and a program's first thread,
    which serves its memory while it stands still."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    if pid is not None:
        with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as text:
            seconds += int(text.read().split()[0]) / 1e9
    return seconds
