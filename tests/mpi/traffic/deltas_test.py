#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a job whose images are deltas of those of earlier snapshots: what they are based on,
what stays for them, and that a job comes back from them as it was.

    deltas_test.py --bin DIRECTORY --ranks 2 -- ./deltas 100 8

The program verifies its memory all the time, and goes on until it may end.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import job_test

REFERENCE = "context.ckpt"
MOST_IMAGES = 16 # that one needs, itself included


class DeltaJobs(job_test.Jobs):
    def __init__(self, options, directory):
        super().__init__(options, directory)
        self.store = self.directory / "snapshots" / REFERENCE

    def await_(self, what, condition):
        end = time.monotonic() + self.options.patience
        while not condition():
            if self.job.poll() is not None:
                self.fail(f"the job ended before {what}")
            if time.monotonic() > end:
                self.fail(f"{what}: not within {self.options.patience} s")
            time.sleep(0.005)

    def expect(self, condition, what):
        if not condition:
            self.fail(f"not so: {what}\n{self.listed()}")

    def round(self):
        """How far the program has come."""
        try:
            return int((self.directory / "report").read_text().split()[0])
        except (OSError, IndexError):
            return 0

    def goes_on(self, rounds=3):
        """Each round verifies the memory."""
        before = self.round()
        self.await_("more rounds", lambda: self.round() >= before + rounds)

    def ask(self, *how):
        return subprocess.run([self.asking, "--json", "--name", REFERENCE, *how, str(self.job.pid)],
                              env=self.settings, text=True, capture_output=True, check=False,
                              timeout=self.options.patience, stdin=subprocess.DEVNULL)

    def made(self, *how):
        """What the command says of the snapshot that it has made."""
        done = self.ask(*how)
        if done.returncode != 0:
            self.fail(f"ompi-checkpoint {how}: {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def refused(self, *how):
        done = self.ask(*how)
        self.expect(done.returncode != 0, f"ompi-checkpoint {how} is refused: {done.stdout}")
        return done.stdout + done.stderr

    def listed(self):
        told = subprocess.run([self.asking, "--list", "--json"], env=self.settings, text=True,
                              capture_output=True, check=True).stdout
        return {one["seq"]: one.get("needs", []) for one in json.loads(told)}

    def come_back(self, seq):
        """The job is back from this snapshot, and verifies its memory."""
        self.kill()
        (self.directory / "report").unlink()
        self.start([*self.command("ompi-restart"), "--seq", str(seq), REFERENCE])
        self.await_("it is back", lambda: self.round() > 0)
        self.goes_on()

    def refused_restart(self, seq):
        """What is said when no job comes back."""
        self.start([*self.command("ompi-restart"), "--seq", str(seq), REFERENCE])
        self.expect(self.wait() != 0, f"ompi-restart --seq {seq} is refused")
        return self.text()

    def image(self, seq, rank=0):
        return next((self.store / str(seq) / f"opal_snapshot_{rank}.ckpt").glob("cryo_context.*"))


def chains(jobs):
    """The first image is complete, others need what is between."""
    first = jobs.made("--delta")
    jobs.expect("needs" not in first, "the first one is complete")
    jobs.goes_on()
    second = jobs.made("--delta=incremental")
    jobs.expect(second["needs"] == [0], "the second one needs the first")
    jobs.expect(second["bytes"] < first["bytes"] / 2, f"{second['bytes']} of {first['bytes']}")
    jobs.goes_on()
    third = jobs.made("--delta=incremental")
    jobs.expect(third["needs"] == [0, 1], "the third one needs both")
    jobs.goes_on()
    jobs.expect(jobs.made("--delta=differential")["needs"] == [0], "a differential one needs the first")
    jobs.goes_on()
    jobs.expect("needs" not in jobs.made(), "without --delta it is complete")
    jobs.expect(jobs.listed() == {0: [], 1: [0], 2: [0, 1], 3: [0], 4: []}, "--list tells the chains")
    info = subprocess.run([f"{jobs.options.bin}/ompi-restart", "--info", "--json", REFERENCE],
                          env=jobs.settings, text=True, capture_output=True, check=True).stdout
    needs = [[image.get("needs") for image in one["images"]] for one in json.loads(info)]
    jobs.expect(needs[2] == [[1, 0]] * jobs.options.ranks, f"--info tells the chains of ranks: {needs}")
    looked = subprocess.run([f"{jobs.options.bin}/cr_inspect", str(jobs.image(2))], env=jobs.settings,
                            text=True, capture_output=True, check=True).stdout
    chain = re.search(r"^ *chain +needs 2 images: (\S+), (\S+)$", looked, re.M)
    jobs.expect(chain and [chain[1], chain[2]] == [str(jobs.image(1)), str(jobs.image(0))],
                f"cr_inspect tells the chain: {looked}")
    # One process's whole chain is verified, wherever its images are.
    done = subprocess.run([f"{jobs.options.bin}/cr_inspect", "--verify", str(jobs.image(2))],
                          env=jobs.settings, text=True, capture_output=True, check=False)
    jobs.expect(done.returncode == 0, f"cr_inspect --verify: {done.stdout}{done.stderr}")


def restarts(jobs):
    """From the end of a chain, and from its midst; what comes after is complete at first."""
    for seq in (2, 1, 3):
        jobs.come_back(seq)
    after = jobs.made("--delta")
    jobs.expect("needs" not in after, "after a restart, the first one is complete")
    jobs.goes_on()
    jobs.expect(jobs.made("--delta")["needs"] == [after["seq"]], "and a base of the next one")


def is_of_second_rank(pid):
    """The copy from which its last image was written may be about to end."""
    try:
        environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return b"\0OMPI_COMM_WORLD_RANK=1\0" in environment or b"\0PMI_RANK=1\0" in environment


def called_off(jobs):
    """All images of a checkpoint are made, and it is not committed: nothing is based on them, and
    what has changed since the last finished one is in the next one."""
    base = jobs.made("--delta=incremental")["seq"]
    jobs.goes_on()
    seq = base + 1
    unfinished = jobs.store / f".{seq}.tmp"
    stopped = [pid for pid in job_test.run_mpi.descendants(jobs.job.pid) if is_of_second_rank(pid)]
    jobs.expect(stopped, "a process of rank 1 is there")
    for pid in stopped: # so that no image is made before the obstacle is there
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    words = [jobs.asking, "--json", "--name", REFERENCE, "--delta=incremental", str(jobs.job.pid)]
    with subprocess.Popen(words, env=jobs.settings, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as asking:
        jobs.await_("the checkpoint begins", unfinished.is_dir)
        (jobs.store / str(seq) / "obstacle").mkdir(parents=True)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        said = asking.communicate(timeout=jobs.options.patience)[0]
    jobs.expect(asking.returncode != 0 and "finished locally" in said, f"it fails at its end: {said}")
    shutil.rmtree(jobs.store / str(seq))
    jobs.goes_on()
    after = jobs.made("--delta=incremental")
    jobs.expect(max(after["needs"]) == base, "the next one is based on the last that was finished")
    jobs.expect(after["bytes"] < 8 << 20, "and is small")
    jobs.goes_on()
    jobs.come_back(jobs.made("--delta=incremental")["seq"])


def retention(jobs):
    """What the newest ones need stays; the rest goes."""
    first = jobs.made("--delta", "--keep", "1")["seq"]
    for _ in range(2):
        jobs.goes_on()
        last = jobs.made("--delta=incremental", "--keep", "1")
    ours = {seq: needs for seq, needs in jobs.listed().items() if seq >= first}
    jobs.expect(ours == {first: [], first + 1: [first], first + 2: [first, first + 1]},
                "all that the newest one needs is there")
    jobs.expect((jobs.store / str(first)).is_dir(), "and so are the files")
    jobs.expect(jobs.made("--keep", "1").get("needs") is None, "a complete one")
    ours = [seq for seq in jobs.listed() if seq >= first]
    jobs.expect(ours == [last["seq"] + 1], "needs nothing of what was there")


def bounds(jobs):
    """No chain has more than so many images."""
    lengths = []
    for _ in range(MOST_IMAGES + 1):
        jobs.goes_on(1)
        lengths.append(len(jobs.made("--delta=incremental").get("needs", [])) + 1)
    jobs.expect(max(lengths) == MOST_IMAGES and lengths.count(1) >= 1, f"lengths of chains: {lengths}")
    jobs.come_back(max(jobs.listed()))


def refusals(jobs):
    """What is missing, or is another one, is named, and nothing comes back."""
    base = jobs.made("--delta")["seq"]
    jobs.goes_on()
    seq = jobs.made("--delta=incremental")["seq"]
    said = jobs.refused("--delta=incremental", "--local", str(jobs.directory / "near"))
    jobs.expect("--delta=incremental: an image in a node's directory (--local)" in said, said)
    local = jobs.made("--delta", "--local", str(jobs.directory / "near"))
    jobs.expect("needs" not in local and any("--local" in text for text in local["notices"]),
                "with --local images are complete, and that is said")
    jobs.kill()
    there = jobs.store / str(base)
    away = jobs.directory / "away"
    there.rename(away)
    said = jobs.refused_restart(seq)
    jobs.expect(f"snapshot {seq} has deltas that need snapshot {base}: {there}" in said and
                "--seq" in said, f"a missing base is named: {said}")
    away.rename(there)
    image = jobs.image(base)
    whole = image.read_bytes()
    image.write_bytes(whole[:-4096])
    said = jobs.refused_restart(seq)
    jobs.expect(str(image) in said, f"a base that was cut off is named: {said}")
    image.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    said = jobs.refused_restart(seq)
    jobs.expect(str(image) in said, f"a damaged base is named: {said}")
    # Another snapshot's image of the rank is not taken in its place, though it is whole.
    image.write_bytes(jobs.image(local["seq"]).read_bytes())
    done = subprocess.run([f"{jobs.options.bin}/cr_inspect", "--verify", str(jobs.image(seq))],
                          env=jobs.settings, text=True, capture_output=True, check=False)
    jobs.expect(done.returncode != 0 and "not found in the other snapshots" in
                done.stdout + done.stderr, f"another image is no base: {done.stdout}{done.stderr}")
    image.write_bytes(whole)
    (jobs.directory / "report").touch()
    jobs.come_back(seq)


def automatic(jobs, mpirun):
    """cr_run --interval makes deltas by itself."""
    jobs.kill()
    jobs.start([*jobs.command("cr_run"), "--interval", "200ms", "--into",
                str(jobs.directory / "kept"), *mpirun, *jobs.options.command])
    jobs.store = jobs.directory / "kept" / REFERENCE
    jobs.settings["OMPI_MCA_snapc_base_global_snapshot_dir"] = str(jobs.directory / "kept")
    def has_delta():
        try:
            return any(jobs.listed().values())
        except subprocess.CalledProcessError: # there is no directory yet
            return False
    jobs.await_("a delta", has_delta)
    jobs.come_back(-1)


def main():
    parser = job_test.options_of_jobs(__doc__, patience=150, generations=1)
    parser.add_argument("--build", help="with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("--short", action="store_true", help="only what depends on the MPI library")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    mpirun = [*options.mpirun.split(), "-n", str(options.ranks)]
    with tempfile.TemporaryDirectory(prefix="cryo-d-", dir="/tmp") as directory:
        jobs = DeltaJobs(options, directory)
        try:
            jobs.hold()
            jobs.start([*jobs.command("cr_run"), *mpirun, *options.command])
            jobs.goes_on()
            chains(jobs)
            restarts(jobs)
            if not options.short:
                called_off(jobs)
                retention(jobs)
                bounds(jobs)
                refusals(jobs)
                automatic(jobs, mpirun)
            jobs.let_end()
            if jobs.wait() != 0 or len(job_test.result(jobs.text())) != options.ranks:
                jobs.fail("the job fails")
        finally:
            jobs.kill()
    print("deltas: all as it should be")


if __name__ == "__main__":
    main()
