# SPDX-License-Identifier: Apache-2.0
"""The ways in which something is saved again and again: each of them

    save(generation)     saves it where it was saved before, as its next generation
    restart(where)       brings back what lies in the directory `where`; the generation that came back
    end()                of what saves; restart() may be called afterwards
"""
import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "system", "programs"))
import processes  # noqa: E402

RANKS = 2
PATIENCE = 60


class Program:
    """Under cr_run, without descriptors of the file system's."""

    def __init__(self, commands, generations):
        self.process = subprocess.Popen([commands("cr_run"), generations], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd="/")
        assert self.process.stdout.readline() == "ready\n"

    def advance(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1])

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


class Goes:
    """A program that goes on."""

    def __init__(self, commands, generations, where, *words):
        self.commands, self.generations, self.words = commands, generations, words
        self.where = where
        self.program = Program(commands, generations)

    def checkpoint(self, *words):
        subprocess.run([self.commands("cr_checkpoint"), "-q", *words, *self.words, self.where,
                        str(self.program.process.pid)], check=True)

    def save(self, generation):
        assert self.program.advance() == generation
        self.checkpoint()

    def restart(self, where):
        done = subprocess.run([self.commands("cr_restart"), "-q", "--no-restore-pid", where],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd="/",
                              check=True)
        word, generation = done.stdout.split()
        assert word == "whole", done.stdout
        return int(generation)

    def end(self):
        self.program.end()


class Ends(Goes):
    """A program that is killed when it has been saved: the image is all that there is."""

    def save(self, generation):
        for _ in range(generation):
            self.program.advance()
        self.checkpoint("--kill")
        self.program.process.wait()
        self.program = Program(self.commands, self.generations)


class Job:
    """Ranks without MPI (tests/system/coord), of which two snapshots are kept."""

    def __init__(self, commands, mpirun, rank, where):
        self.commands, self.mpirun = commands, mpirun
        self.where = where
        self.top, self.reference = os.path.split(where)
        os.makedirs("/tmp/job")
        self.environment = {**os.environ, "CRYO_RUNTIME_DIR": "/tmp/job/run",
                            "CRYO_LISTEN": "127.0.0.1"}
        self.job = subprocess.Popen(
            [commands("cr_run"), "--mpi", mpirun, "-n", str(RANKS), rank, str(10 ** 9), "/tmp/job"],
            cwd="/", env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def save(self, _generation):
        subprocess.run([self.commands("ompi-checkpoint"), "--name", self.reference, "--keep", "2",
                        "--where", self.top, str(self.job.pid)],
                       check=True, env=self.environment, stdout=subprocess.DEVNULL)

    @staticmethod
    def give_up():
        print(f"a job that is brought back says nothing for {PATIENCE} s:", file=sys.stderr)
        print(processes.describe(os.getpid()), file=sys.stderr)
        processes.kill_family(os.getpid())

    def restart(self, where):
        top, reference = os.path.split(where)
        words = [self.commands("ompi-restart"), "--where", top]
        told = subprocess.run([*words, "--info", "--json", reference], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        newest = max(snapshot["seq"] for snapshot in json.loads(told))
        again = subprocess.Popen([*words, "--mpirun", self.mpirun, reference], cwd="/", text=True,
                                 env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE)
        overdue = threading.Timer(PATIENCE, self.give_up)
        overdue.start()
        back = set()
        while len(back) < RANKS and (line := again.stdout.readline()):
            if ": restarted at step" in line:
                back.add(line.split(":")[0])
        overdue.cancel()
        processes.kill_family(os.getpid())
        again.stdout.close()
        assert len(back) == RANKS, f"ranks that came back: {sorted(back)}"
        return newest + 1  # the first one is 0

    def end(self):
        self.job.terminate()
        self.job.wait()
        processes.kill_family(os.getpid())
