#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints and restarts of whole processes cost, beside what they are made of.

    process_bench [--full] [--backend NAME] [PART]...
    process_bench [--full] --report FILE.html [--picture FILE.svg]

Parts: idle tiny stop descriptors delta planner write restart lazy tree; and criu, where that works (Debian's on
Linux 6.1; for root).
Images are written to the current directory.
"""
import argparse
import functools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = ["@CMAKE_CURRENT_SOURCE_DIR@", "@PROJECT_SOURCE_DIR@/tests/system/delta"]
import report  # noqa: E402 (needs the path above)
from patients import Copy, Cryo, Wrong, forget, reap, remove  # noqa: E402
from planner import SINGLE, Planner  # noqa: E402
from sweep import Sweep  # noqa: E402
from table import Samples, Table  # noqa: E402

BIN = "@PROJECT_BINARY_DIR@/bin"
LIBRARY = "@PROJECT_BINARY_DIR@/@CMAKE_INSTALL_LIBDIR@/libcr_run.so"
PROGRAM = "@CMAKE_CURRENT_BINARY_DIR@/patient"
PYTHON = "@CRYO_PYTHON@"
MIB = 1 << 20
IMAGE = "process.image"
# Has so many files open, and says of how many its descriptors are right.
OPENS = """
import os, resource, sys
count = int(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 1000, most), most))
open_files = [(os.open(f"file.{i}", os.O_RDWR | os.O_CREAT), f"file.{i}") for i in range(count)]
print("ready", flush=True)
for _ in sys.stdin:
    print(sum(os.fstat(fd).st_ino == os.stat(name).st_ino for fd, name in open_files), flush=True)
"""


class Bench:
    """One run of all parts."""

    def __init__(self, full, backend, criu):
        self.full = full
        self.criu_command = criu
        self.cryo = Cryo(BIN, PROGRAM, ["--backend", backend] if backend else [])
        self.table = Table(full)

    def rounds(self, number):
        return range(number if self.full else 1)

    def size(self, mib):
        """What the machine can bear: the program, its copy, and a file of that size."""
        with open("/proc/meminfo", encoding="ascii") as text:
            free = next(int(line.split()[1]) for line in text if line.startswith("MemAvailable"))
        most = min(free // 1024 // 4, shutil.disk_usage(".").free // MIB // 4)
        return max(4, min(mib if self.full else 8, most))

    # Between checkpoints

    def idle(self):
        def state_of(under_cryo):
            with self.cryo.start(0, under_cryo=under_cryo) as program:
                await_sleep(program.pid)
                before = ticks(program.pid), switches(program.pid)
                time.sleep(1 if self.full else 0.1)
                return (len(os.listdir(f"/proc/{program.pid}/task")), ticks(program.pid) - before[0],
                        switches(program.pid) - before[1])

        plain, saved = state_of(False), state_of(True)
        for what, one, other in zip(("threads", "CPU ticks", "context switches"), plain, saved):
            self.table.line(f"idle: {what} that cr_run adds", other - one, at_most=0)
            if other > one:
                raise Wrong(f"a program that does nothing has {other} {what} under cr_run, {one} without")

    # A process of no size

    def tiny(self):
        samples = Samples()
        for _ in self.rounds(15):
            samples.add("true", seconds(lambda: subprocess.run(["/bin/true"], check=True)))
            with self.cryo.start(0) as program:
                done = self.cryo.checkpoint(program, IMAGE)
            samples.add("checkpoint", done["wall_ns"] / 1e9)
            samples.add("size", os.stat(IMAGE).st_size)
            reap()
            before = time.monotonic()
            program = self.cryo.restart(IMAGE)
            program.check()
            samples.add("restart", time.monotonic() - before)
            if program.end() != 0:
                raise Wrong("the program that was brought back did not end well")
        true = samples.median("true")
        for what in ("checkpoint", "restart"):
            self.table.line(f"tiny process: {what}, milliseconds", samples.median(what) * 1e3, at_most=30,
                            remark=f"{samples.median(what) / true:.1f} × running /bin/true")
        self.table.line("tiny process: image, MiB", samples.median("size") / MIB, at_most=2)

    # How long the program stands still

    def stop(self):
        for pages in ("huge", "small"):
            samples = Samples()
            mib = self.size(512)
            with self.cryo.start(mib, pages) as program:
                for _ in self.rounds(9):
                    samples.add("fork", program.ask("f") / 1e6)
                    program.ask("s")
                    done = self.cryo.checkpoint(program, IMAGE)
                    samples.add("felt", program.ask("g") / 1e6)
                    samples.add("told", done["stopped_ns"] / 1e6)
                program.check()
            fork = samples.median("fork")
            allowed = 1.5 * fork + 1
            name = f"{mib} MiB of {pages} pages"
            self.table.line(f"{name}: fork(), milliseconds", fork, remark=samples.spread("fork"))
            for what in ("felt", "told"):
                self.table.line(f"{name}: stop as {'the program felt it' if what == 'felt' else 'reported'}",
                                samples.median(what), at_most=round(allowed, 2),
                                remark=samples.spread(what))

    # Each descriptor is looked at while the program stands still.
    def descriptors(self):
        # A restart has each twice for a moment.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2 - 100
        count = min(most, 10_000 if self.full else 600)
        samples = Samples()

        def right(program):
            program.stdin.write("?\n")
            program.stdin.flush()
            if program.stdout.readline() != f"{count}\n":
                raise Wrong("the program has not all of its descriptors")

        def started(*words):
            return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        with started(self.cryo.command("cr_run"), PYTHON, "-S", "-c", OPENS, str(count)) as program:
            program.stdout.readline()
            for _ in self.rounds(9):
                done = self.cryo.checkpoint(program, IMAGE, "--nosync")
                samples.add("told", done["stopped_ns"] / 1e6)
            right(program)
            program.stdin.close()
        reap()
        with started(self.cryo.command("cr_restart"), "-q", IMAGE) as back:
            right(back)
            back.stdin.close()
        told = samples.median("told")
        self.table.line(f"{count} descriptors of files: stop, milliseconds", told,
                        at_most=100 if self.full else None,
                        remark=f"{told / count * 1e3:.1f} µs each, {samples.spread('told')}")

    # An image of what has changed since the one before

    def delta(self):
        programs = ((self.size(512), "small"), (self.size(2048), "small"), (self.size(512), "huge"))
        for mib, pages in dict.fromkeys(programs):  # at smoke size all are as small
            for every, share, target in ((1000, 0.1, 0.05), (100, 1, 0.1), (20, 5, 0.4)):
                self.delta_of(mib, pages, every, share, target if pages == "small" else None)

    def delta_of(self, mib, pages, every, share, target):
        samples = Samples()
        images = [f"delta.{number}" for number in range(len(self.rounds(9)) + 2)]
        with self.cryo.start(mib, pages) as program, self.cryo.start(mib, pages) as other:
            for number, image in enumerate(images):
                base = ["--base", images[number - 1]] if number else []
                samples.add("all", self.cryo.checkpoint(other, IMAGE)["wall_ns"] / 1e6)
                samples.add("fork", program.ask("f") / 1e6)
                program.change(every)
                program.ask("s")
                done = self.cryo.checkpoint(program, image, "--delta=incremental", *base)
                felt = program.ask("g") / 1e6
                if number < 2:
                    continue  # complete, and the first that the kernel's watching is paid for
                samples.add("felt", felt)
                samples.add("told", done["stopped_ns"] / 1e6)
                samples.add("durable", done["wall_ns"] / 1e6)
                samples.add("size", os.stat(image).st_size)
            program.change(every)
            self.cryo.checkpoint(program, "raw", "--delta=incremental", "--compress=none", "--base", images[-1])
            raw = os.stat("raw").st_size
            remove("raw")
            program.check()
        reap()
        back = self.cryo.restart(images[-1])
        back.check()
        back.end()
        for image in images:
            remove(image)
        name = f"{mib} MiB, {pages} pages, {share} % changed"
        fork = samples.median("fork")
        for what in ("felt", "told"):
            self.table.line(f"{name}: stop {what} / fork()", samples.median(what) / fork,
                            at_most=target, remark=f"{samples.median(what):.2f} ms")
        self.table.line(f"{name}: durable, beside all", samples.median("durable") / samples.median("all"),
                        at_most=0.12 if share == 5 else None,
                        remark=f"{samples.median('durable'):.0f} of {samples.median('all'):.0f} ms, "
                               f"{samples.median('size') / MIB:.1f} MiB")
        if share == 5:
            self.table.line(f"{name}: bytes beside those of the pages", raw * every / (mib * MIB),
                            at_most=1.02, remark="not compressed")

    # The method that Cryo plans, beside each single one

    def planner(self):
        planner = Planner(self.cryo, PYTHON, len(self.rounds(9)))
        try:
            for name, samples, chosen in planner.programs(None if self.full else 2):
                self.planned(name, samples, chosen)
        except planner.failed as why:
            raise Wrong(str(why)) from why
        mib = self.size(256)
        for pages in ("small", "huge"):
            for every in (1000, 20, 4, 1) if self.full else (2,):
                with self.cryo.start(mib, pages) as program:
                    samples, chosen = planner.measure(program, functools.partial(program.change, every),
                                                      but={program.pid})
                    program.check()
                self.planned(f"{mib} MiB, {pages} pages, {100 / every:g} % changed", samples, chosen)

    def planned(self, name, samples, chosen):
        single = {method: samples.median(method) for method in SINGLE}
        best = min(single, key=single.get)
        self.table.line(f"{name}: stop as planned beside the best", samples.median("planned") / single[best],
                        at_most=1.1, remark=f"{samples.median('planned'):.2f} ms by "
                        f"{', '.join(sorted(set(chosen), key=chosen.count, reverse=True))}; "
                        + ", ".join(f"{method} {took:.2f}" for method, took in single.items()))

    # The whole image, the program standing still

    def write(self):
        samples = Samples()
        mib = self.size(512)
        with self.cryo.start(mib) as program:
            self.cryo.checkpoint(program, IMAGE, "--snapshot=stop")
            with Copy(IMAGE) as source:
                for _ in self.rounds(7):
                    done = self.cryo.checkpoint(program, IMAGE, "--snapshot=stop")
                    samples.add("image", done["wall_ns"] / 1e9)
                    for name, flags in (("direct", ["oflag=direct", "conv=fsync"]), ("cached", ["conv=fsync"])):
                        remove("process.dd")
                        samples.add(name, seconds(lambda: subprocess.run(
                            ["dd", f"if={source}", "of=process.dd", "bs=4M", "status=none", *flags], check=True)))
            remove("process.dd")
            program.check()
        for name, words in (("direct", "oflag=direct conv=fsync"), ("cached", "conv=fsync")):
            self.table.line(f"--snapshot=stop, {mib} MiB beside dd {words}",
                            samples.median("image") / samples.median(name),
                            at_most=1.15 if name == "direct" else None,
                            remark=f"{mib / samples.median('image'):.0f} MiB/s")

    # Bringing it back

    def restart(self):
        samples = Samples()
        mib = self.size(512)
        with self.cryo.start(mib) as program:
            self.cryo.checkpoint(program, IMAGE)
        for _ in self.rounds(7):
            for cached in (False, True):
                for name in ("read", "eager"):
                    if not cached:
                        forget(IMAGE)
                    if name == "read":
                        took = seconds(lambda: subprocess.run(
                            ["dd", f"if={IMAGE}", "of=/dev/null", "bs=4M", "status=none"], check=True))
                    else:
                        took = self.time_restart()
                    samples.add((name, cached), took)
        for cached in (False, True):
            where = "the kernel's cache" if cached else "the disk"
            self.table.line(f"eager restart, {mib} MiB from {where}: beside reading",
                            samples.median(("read", cached)) / samples.median(("eager", cached)),
                            at_least=None if cached else 0.8,
                            remark=f"{mib / samples.median(('eager', cached)):.0f} MiB/s")

    def time_restart(self, *options, check=True):
        """Until the program answers."""
        reap()
        before = time.monotonic()
        program = self.cryo.restart(IMAGE, *options)
        program.ask("p")
        took = time.monotonic() - before
        if check:
            program.check()
        if program.end() != 0:
            raise Wrong("the program that was brought back did not end well")
        return took

    def lazy(self):
        large = self.size(4096)
        small = max(1, large // 16)
        samples = Samples()
        for mib in (small, large):
            with self.cryo.start(mib) as program:
                self.cryo.checkpoint(program, IMAGE)
            for i in self.rounds(9):
                samples.add(mib, self.time_restart("--lazy", check=i == 0))
        self.table.line(f"lazy restart until it answers: {large} MiB beside {small}",
                        samples.median(large) / samples.median(small), at_most=1.3,
                        remark=f"{samples.median(large) * 1e3:.1f} ms")

    # Beside criu

    def criu(self):
        samples = Samples()
        mib = self.size(512)
        # criu knows no O_PATH descriptor of a socket, by which a program under cr_run is found.
        with self.cryo.start(mib) as program, self.cryo.start(mib, under_cryo=False) as plain:
            for _ in self.rounds(5):
                for snapshot in ("stop", "fork"):
                    program.ask("s")
                    self.cryo.checkpoint(program, IMAGE, f"--snapshot={snapshot}")
                    samples.add(snapshot, program.ask("g") / 1e6)
                os.mkdir("criu")
                plain.ask("s")
                subprocess.run([self.criu_command, "dump", "-t", str(plain.pid), "-D", "criu", "--shell-job",
                                "--leave-running", "-o", "log"], check=True,
                               stderr=subprocess.DEVNULL)
                samples.add("criu", plain.ask("g") / 1e6)
                shutil.rmtree("criu")
            program.check()
            plain.check()
        for snapshot, target in (("stop", 0.6), ("fork", 0.05)):
            self.table.line(f"{mib} MiB, --snapshot={snapshot}: stop felt, beside criu's",
                            samples.median(snapshot) / samples.median("criu"), at_most=target,
                            remark=f"{samples.median(snapshot):.1f} ms, {samples.median('criu'):.1f} ms")

    # Trees

    # All stand still at once: what they wait for is waited for once, and what is worked is shared
    # among the CPUs. The limit is what they take to make a fork each, all at the same time.
    def tree(self):
        samples = Samples()
        counts = (1, 10, 30, 100) if self.full else (1, 3)
        large = self.size(512)
        for _ in self.rounds(7):
            for count in counts:
                self.forks_at_once(samples, count)
                self.stop_of_tree(samples, count, 8)
            samples.add("fork of large", self.fork_of(large))
            self.stop_of_tree(samples, counts[-1], large)
        one = samples.median(("told", 1, 8))
        for count in counts:
            told, forks = samples.median(("told", count, 8)), samples.median(("forks", count))
            self.table.line(f"{count} processes of 8 MiB in a row of pipes: stop, ms", told,
                            remark=f"{told / one / count:.2f} × the sum of so many alone, {told / forks:.1f} × their "
                                   f"forks at once ({forks:.1f} ms), felt "
                                   f"{samples.median(('felt', count, 8)):.1f}")
        small, mixed = (samples.median(("told", counts[-1], mib)) for mib in (8, large))
        fork = samples.median("fork of large")
        self.table.line(f"the same {counts[-1]}, the first of {large} MiB: stop, ms", mixed,
                        remark=f"{(mixed - small) / fork:.1f} × its own fork more ({fork:.1f} ms)")
        with self.cryo.start(8, children=1, of_children=8) as program:
            self.cryo.checkpoint(program, IMAGE, "--tree")
        reap()
        back = self.cryo.restart(IMAGE)
        back.check()
        back.end()

    def fork_of(self, mib):
        with self.cryo.start(mib, under_cryo=False) as program:
            return program.ask("f") / 1e6

    def forks_at_once(self, samples, count):
        with self.cryo.start(8, children=count - 1, of_children=8, under_cryo=False,
                             more=["at-once"]) as program:
            program.check()  # all of them have their memory
            program.ask("a")
            samples.add(("forks", count), program.ask("a") / 1e6)

    def stop_of_tree(self, samples, count, mib):
        with self.cryo.start(mib, children=count - 1, of_children=8) as program:
            program.check()
            program.ask("s")
            done = self.cryo.checkpoint(program, IMAGE, "--tree")
            samples.add(("felt", count, mib), program.ask("g") / 1e6)
            samples.add(("told", count, mib), done["stopped_ns"] / 1e6)
            program.check()
            if done["processes"] != count:
                raise Wrong(f"{done['processes']} processes were saved, not {count}")

    # The page

    def show(self, page, picture):
        mib = self.size(512)
        sweep = Sweep(self.cryo, self.full)
        results = report.measure(sweep, mib)
        report.write_page(results, page, mib, self.full, sweep.restarts)
        if picture:
            report.write_picture(results, picture, mib)
        for what, ratio, most in report.targets(results):
            self.table.line(what, ratio, at_most=most)
        with open(page, encoding="utf-8") as text:
            lacks = report.complaints(text.read())
        if lacks:
            raise Wrong("; ".join(lacks))


def seconds(work):
    before = time.monotonic()
    work()
    return time.monotonic() - before


def await_sleep(pid):
    """Until it waits for the next question, and has not done anything else for a while."""
    last = None
    while last != (last := (state(pid), switches(pid))) or last[0] != "S":
        time.sleep(0.02)


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as text:
        return text.read().rpartition(")")[2].split()[0]


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as text:
        words = text.read().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def switches(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as text:
        return sum(int(line.split()[1]) for line in text if "ctxt_switches" in line)


PARTS = ("idle", "tiny", "stop", "descriptors", "delta", "planner", "write", "restart", "lazy", "tree")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it is right")
    parser.add_argument("--backend", help="as cr_checkpoint's")
    parser.add_argument("--criu", default="criu", metavar="COMMAND", help="of the part criu")
    parser.add_argument("--report", metavar="FILE", help="measure what that page shows, and write it")
    parser.add_argument("--picture", metavar="FILE", help="with --report: an SVG with some of it")
    parser.add_argument("part", nargs="*", help=" ".join(PARTS) + " criu")
    words = parser.parse_args()
    bench = Bench(words.full, words.backend, words.criu)
    page, picture = (path and os.path.abspath(path) for path in (words.report, words.picture))
    with tempfile.TemporaryDirectory(prefix="cryo-process-", dir=".") as directory:
        os.chdir(directory)
        try:
            if page:
                bench.show(page, picture)
            for part in words.part or ([] if page else PARTS):
                getattr(bench, part)()
            bench.table.finish()
        except Wrong as wrong:
            sys.exit(f"process_bench: {wrong}")
        finally:
            os.chdir("..")


if __name__ == "__main__":
    main()
