#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TLS costs a job on four nodes: how long it takes to start, and each checkpoint, beside the same
job whose daemons have no TLS, and its start beside the launcher alone. The three are taken in turns.

    job_bench [--full]

Nodes are names on this machine, and ranks are no MPI programs: all of their time is Cryo's. Four nodes
share its processors here. So the processor time of all is told, too, which other work on the machine
changes least; it has no waits in it, and does not replace the time by the clock.
"""
import argparse
import contextlib
import os
import resource
import select
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.join("@PROJECT_SOURCE_DIR@", "tests", "system", "coord"))
import jobs  # noqa: E402 (needs the path above)

NODES = 4
STEPS = 10_000_000 # longer than any round
LIBRARIES = Path("@PROJECT_BINARY_DIR@/@CMAKE_INSTALL_LIBDIR@")
UNSEALED = "@CMAKE_CURRENT_BINARY_DIR@/mpi-daemon"
WAYS = ("native", "TCP", "TLS")
MOST_ADDED = 20 # ms of the start
MOST_RATIO = 1.1 # of a checkpoint


class Run(jobs.Case):
    """One job; used without unittest's runner."""

    def libraries(self, way):
        """Where commands look for the daemon and all else: as built, or with the other daemon."""
        if way != "TCP":
            return str(LIBRARIES)
        place = Path(self.scratch, "lib")
        (place / "cryo").mkdir(parents=True)
        for file in LIBRARIES.iterdir():
            if file.name != "cryo":
                (place / file.name).symlink_to(file)
        for file in (LIBRARIES / "cryo").iterdir():
            (place / "cryo" / file.name).symlink_to(UNSEALED if file.name == "mpi-daemon" else file)
        return str(place)

    def words(self, way, steps):
        words = [jobs.MPIRUN, "-n", str(NODES), jobs.OPTIONS.rank, str(steps), self.scratch]
        return words if way == "native" else [jobs.OPTIONS.bin + "/cr_run", "--mpi", *words]

    def settings_of(self, way):
        return self.settings(FAKE_NODES=str(NODES), FAKE_EVEN="1", CRYO_LIBDIR=self.libraries(way),
                             CRYO_NODE="node0") # the launcher's, as of the first rank

    def work(self, way):
        """Processor time, in ms, of a job that does nothing, daemons and all, which end with it."""
        await_all() # of an earlier job
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = jobs.Job(self, self.words(way, 0), self.settings_of(way))
        job.end()
        await_all()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def begun(self, way, settings):
        """The job, and after how many ms all ranks had their daemons: each opens a FIFO then."""
        look, missing = select.poll(), set()
        for rank in range(NODES):
            os.mkfifo(f"{self.scratch}/started.{rank}")
            fifo = os.open(f"{self.scratch}/started.{rank}", os.O_RDONLY | os.O_NONBLOCK)
            self.addCleanup(os.close, fifo)
            look.register(fifo, 0) # POLLHUP comes all the same: somebody has opened and closed it
            missing.add(fifo)
        begin = time.monotonic()
        job = jobs.Job(self, self.words(way, STEPS), settings)
        while missing:
            found = {fifo for fifo, _ in look.poll(1000)}
            self.assertIsNone(job.process.poll(), f"{way}: {job.text()}")
            for fifo in found:
                look.unregister(fifo)
            missing -= found
        return job, (time.monotonic() - begin) * 1000

    def measure(self, way, rounds):
        job, start = self.begun(way, self.settings_of(way))
        if way == "native":
            return start, []
        daemons = [os.readlink(f"/proc/{pid}/exe") for pid in job.status()["daemons"]]
        self.assertEqual(daemons, NODES * [UNSEALED if way == "TCP" else str(LIBRARIES / "cryo/mpi-daemon")])
        saved = []
        for _ in range(rounds + 1):
            begin = time.monotonic()
            self.tool("ompi-checkpoint", "--keep", "1", job.pid)
            saved.append((time.monotonic() - begin) * 1000)
        return start, saved[1:] # the first one makes directories


def await_all():
    """Until no child is left, and no orphan."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


@contextlib.contextmanager
def fresh():
    run = Run("measure")
    run.setUp()
    try:
        yield run
    finally:
        run.doCleanups()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it runs")
    full = parser.parse_args().full
    jobs.OPTIONS = argparse.Namespace(bin="@PROJECT_BINARY_DIR@/bin",
                                      rank="@PROJECT_BINARY_DIR@/tests/system/coord/fake_rank")
    jobs.processes.adopt_orphans() # whose processor time counts, too
    starts, work, saved = ({way: [] for way in WAYS} for _ in range(3))
    for turn in range(30 if full else 1):
        for place in range(len(WAYS)):
            way = WAYS[(turn + place) % len(WAYS)]
            with fresh() as run:
                work[way].append(run.work(way))
            with fresh() as run:
                start, rounds = run.measure(way, 12 if full else 1)
            starts[way].append(start)
            saved[way] += rounds
    start = {way: statistics.median(starts[way]) for way in WAYS}
    used = {way: statistics.median(work[way]) for way in WAYS}
    save = {way: statistics.median(saved[way]) for way in WAYS[1:]}

    def line(what, value, target=None):
        verdict = "" if target is None else f"target ≤ {target:g}"
        if full and target is not None:
            verdict += "  met" if value <= target else "  MISSED"
        print(f"{what:60} {value:8.3f} {verdict}")

    for way in WAYS:
        print(f"{way}: start {start[way]:.1f} ms, processors {used[way]:.1f} ms" +
              (f", checkpoint {save[way]:.1f} ms" if way in save else ""))
    line("start on four nodes, TLS beside TCP: adds ms", start["TLS"] - start["TCP"], MOST_ADDED)
    line("the same and its end, of all processors: adds ms", used["TLS"] - used["TCP"])
    line("checkpoint, TLS beside TCP: time", save["TLS"] / save["TCP"], MOST_RATIO)
    line("start on four nodes, under cr_run beside natively: time", start["TLS"] / start["native"])


if __name__ == "__main__":
    main()
