# SPDX-License-Identifier: Apache-2.0
"""MPI programs of other people's: what they are given, and what they have computed.

    subject = SUBJECTS["melt"]()
    directory = make_directory(top, "name", subject.prepare(options))
    # mpirun ... subject.command in the directory, and then
    subject.result(directory)
"""
import re
from pathlib import Path

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
        return {"input": MELT.format(size=getattr(options, "size", 0) or 6) + ENDING.format(steps=options.steps or 1500)}

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

    def seconds_of_tests(self, directory):
        """In its random access, each rank asks for each word of the other's whether anything has come."""
        text = (directory / "hpccoutf.txt").read_text()
        return sum(map(float, re.findall(r"(?m)^MPIRandomAccess(?:_LCG)?_(?:time|CheckTime)=(\S+)$", text)))


SUBJECTS = {"melt": Melt, "peptide": Peptide, "hpcc": Hpcc}


def make_directory(top, name, files):
    directory = Path(top) / name
    directory.mkdir()
    for file, contents in files.items():
        (directory / file).write_bytes(contents if isinstance(contents, bytes)
                                       else contents.encode())
    return directory
