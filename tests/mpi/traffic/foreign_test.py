#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MPI program of somebody else's is saved at random moments, killed, and brought back, with
another transport each time; what it has computed in the end is what it computes undisturbed.

    foreign_test.py --bin DIRECTORY --ranks 4 hpcc | melt | peptide
"""
import argparse
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from job_test import Jobs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import run_mpi  # noqa: E402

TRANSPORTS = ("vader", "tcp", "both")

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {size} 0 {size} 0 {size}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
"""

# Every digit of every atom, however many ranks have written it.
ENDING = """
thermo_style custom step temp pe ke etotal press
thermo_modify format float %20.15g norm no
thermo 50
run {steps}
write_dump all custom final.dump id x y z vx vy vz modify sort id format float %20.15g
"""

HPCC = """HPLinpack benchmark input file
of a test
HPL.out
8
1
{size}
1
40
0
1
2
{columns}
16.0
1
2
1
4
1
2
1
1
1
1
1
0
2
64
0
0
1
8
#
0
1200
0
40
"""


class Melt:
    """LAMMPS: a Lennard-Jones liquid. Neighbours, halo exchange, reductions."""
    command = ["lmp", "-in", "input", "-log", "log"]

    def prepare(self, options):
        return {"input": MELT.format(size=6) + ENDING.format(steps=options.steps or 1500)}

    def result(self, directory):
        steps = re.findall(r"^ +\d+(?: +-?[\d.e+-]+){5} *$", (directory / "log").read_text(), re.M)
        return [steps, (directory / "final.dump").read_text()]


class Peptide(Melt):
    """LAMMPS: a molecule in water. Long-range forces by Fourier transforms, constraints."""
    examples = Path("/usr/share/lammps/examples/peptide")

    def prepare(self, options):
        data = self.examples / "data.peptide"
        text = (self.examples / "in.peptide").read_text()
        text = re.sub(r"(?m)^(thermo|run|dump|undump|#).*$", "", text)
        return {"input": text + ENDING.format(steps=options.steps or 200),
                "data.peptide": data.read_bytes()}


class Hpcc:
    """The HPC Challenge: matrices, random access, transforms, bandwidth; it checks its results."""
    command = ["hpcc"]

    def prepare(self, options):
        return {"hpccinf.txt": HPCC.format(size=options.steps or 500, columns=options.ranks // 2)}

    def result(self, directory):
        text = (directory / "hpccoutf.txt").read_text()
        found = re.findall(r"^(\w*(?:Success|Errors|Failures|Residual_failed)\w*=\S+)$", text, re.M)
        assert "Success=1" in found, text[-4000:]
        assert "FAILED" not in text, text
        return found


SUBJECTS = {"melt": Melt, "peptide": Peptide, "hpcc": Hpcc}


def make_directory(top, name, files):
    directory = Path(top) / name
    directory.mkdir()
    for file, contents in files.items():
        (directory / file).write_bytes(contents if isinstance(contents, bytes)
                                       else contents.encode())
    return directory


def compute(options, subject, directory, natively):
    """The result, and how often it was saved and brought back."""
    jobs = Jobs(options, directory)
    jobs.settings["OMP_NUM_THREADS"] = "1"
    mpirun = [options.mpirun, "-n", str(options.ranks), *subject.command]
    started = time.monotonic()
    saved = 0
    try:
        os.chdir(directory)
        if natively:
            jobs.start(mpirun)
            options.duration = None
        else:
            jobs.start([*jobs.command("cr_run"), *mpirun])
            for number in range(options.generations):
                time.sleep(random.uniform(0, options.duration / options.generations))
                reference = jobs.save("--term")
                if reference is None:
                    break
                saved += 1
                jobs.settings.update(
                    run_mpi.TRANSPORTS[TRANSPORTS[number % len(TRANSPORTS)]])
                jobs.start([*jobs.command("ompi-restart"), reference])
        if jobs.wait() != 0:
            jobs.fail("natively, the job fails" if natively else "the job fails")
        if natively:
            options.duration = time.monotonic() - started
        return subject.result(directory), saved
    finally:
        jobs.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=run_mpi.TRANSPORTS, default="vader")
    parser.add_argument("--patience", type=int, default=100)
    parser.add_argument("--generations", type=int, default=3, help="times it is saved, at most")
    parser.add_argument("--steps", type=int, default=0, help="how much it computes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("subject", choices=SUBJECTS)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    random.seed(options.seed)
    subject = SUBJECTS[options.subject]()
    files = subject.prepare(options)
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as top:
        expected, _ = compute(options, subject, make_directory(top, "n", files), True)
        found, saved = compute(options, subject, make_directory(top, "c", files), False)
        os.chdir("/")
    if found != expected:
        sys.exit(f"seed {options.seed}: saved {saved} times, and another result\n"
                 f"natively: {str(expected)[:2000]}\nfound: {str(found)[:2000]}")
    if saved == 0:
        sys.exit("the job came to its end before it was saved")
    print(f"saved and restarted {saved} times: the same result")


if __name__ == "__main__":
    main()
