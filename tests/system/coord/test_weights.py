#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks that come back on fewer nodes, or with unequal shares of them.

    test_weights.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]

A "node" is a name, and a directory of its own, which is hidden (FAKE_HIDDEN) where nothing runs on it.
"""
import errno
import json
import os
import shutil
from pathlib import Path

import jobs

RANKS = 6
STEPS = 12000 # some seconds: a job that has come back is saved again


class Weights(jobs.Case):
    def saved(self, *options, nodes=2):
        """The reference of a snapshot of six ranks on so many nodes, in turn."""
        job = self.start(RANKS, STEPS, FAKE_NODES=str(nodes))
        reference, _ = self.save(job, *options)
        job.kill()
        return reference

    def setUp(self):
        super().setUp()
        # The name of Open MPI's launcher before 5.0, which takes a host for each rank.
        self.orterun = Path(self.scratch, "orterun")
        shutil.copy(jobs.MPIRUN, self.orterun)

    def dry_run(self, reference, weights):
        said = self.tool("ompi-restart", "--mpirun", self.orterun, "--dry-run", "--json", "--weights",
                         weights, reference).stdout
        return json.loads(said)

    def command_line(self, reference, *options, launcher=None):
        return self.tool("ompi-restart", "--mpirun", launcher or self.orterun, "--showme", *options,
                         reference).stdout.split()

    def nodes_now(self, back):
        """Of each rank, as a snapshot of the restarted job has it."""
        jobs.wait_for(lambda: back.text().count("restarted at") == RANKS or
                      back.process.poll() is not None, "the restarted ranks")
        reference, _ = self.save(back)
        info = json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)[-1]
        return [image["node"] for image in sorted(info["images"], key=lambda one: one["rank"])]

    def test_placement_is_shown(self):
        reference = self.saved()
        found = self.dry_run(reference, "node0=2,node1=1")
        self.assertEqual(found["nodes"], [{"node": "node0", "weight": 2, "ranks": [0, 2, 4, 5]},
                                          {"node": "node1", "weight": 1, "ranks": [1, 3]}])
        self.assertEqual([(one["rank"], one["from"], one["to"]) for one in found["moves"]],
                         [(5, "node1", "node0")])
        self.assertGreater(found["moves"][0]["bytes"], 0)
        text = self.tool("ompi-restart", "--mpirun", self.orterun, "--dry-run", "--weights",
                         "node0=2,node1=1", reference).stdout
        self.assertIn("node0: 4 ranks, 1 of them new there: 0, 2, 4-5\n"
                      "node1: 2 ranks: 1, 3\nimages that move: 1 of 6, ", text)

    def test_command_lines(self):
        reference = self.saved()
        line = self.command_line(reference, "--weights", "node0=2,node1=1")
        self.assertEqual(line[1:5], ["--host", "node0,node1,node0,node1,node0,node0", "--map-by",
                                     "seq"])
        line = self.command_line(reference, "--weights", "a=2,b=1")
        self.assertEqual(line[1:5], ["--host", "a:4,b:2", "--map-by", "slot"])
        file = Path(self.scratch, "shares")
        file.write_text("# slow\na = 1\nb=2\n")
        line = self.command_line(reference, "--weights-file", str(file))
        self.assertEqual(line[1:5], ["--host", "a:2,b:4", "--map-by", "slot"])
        hydra = Path(self.scratch, "mpiexec.hydra")
        hydra.write_text("#!/bin/sh\n")
        hydra.chmod(0o755)
        line = self.command_line(reference, "--weights", "node0=2,node1=1", launcher=hydra)
        self.assertEqual(line[1:3], ["-hosts", "node0:4,node1:2"])
        self.assertNotIn("--map-by", line)
        line = self.command_line(reference, "--weights", "node0=2,node1=1", launcher=jobs.MPIRUN)
        self.assertEqual(line[1:5], ["--host", "node0:4,node1:2", "--map-by", "slot"])

    def test_refusals(self):
        reference = self.saved()
        for weights, said in (
                ("", "--weights: names no node"), ("node0=0", "the weight of node node0 is '0'"),
                ("node0=-1", "is '-1'"),
                ("node0", "'node0' names no weight"), ("node0=1,node0=2", "names node node0 twice"),
                ("a=100,b=1", "node b gets none of 6 ranks by its weight, 1 of 101")):
            refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, "--weights", weights,
                                reference, code=errno.EINVAL)
            self.assertIn(said, refused.stderr)
        refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, "--mpirun_opts", "--host x",
                            "--weights", "a=1", reference, code=errno.EINVAL)
        self.assertIn("and so does --host; leave that out of --mpirun_opts", refused.stderr)
        for more in (("--hostfile", "x"), ("--apponly",), ("--weights-file", "x")):
            self.tool("ompi-restart", "--weights", "a=1", *more, reference, code=255)
        self.tool("ompi-restart", "--dry-run", reference, code=255)
        self.tool("ompi-restart", "--weights-file", "/nowhere", reference, code=errno.ENOENT)
        srun = Path(self.scratch, "srun")
        srun.write_text("#!/bin/sh\n")
        srun.chmod(0o755)
        for option, value in (("--weights", "a=1"), ("--hosts", "a:6")):
            refused = self.tool("ompi-restart", "--mpirun", srun, option, value, "--showme", reference,
                                code=errno.EOPNOTSUPP)
            self.assertIn(f"{option}: srun places ranks by its allocation", refused.stderr)
            self.assertIn("SLURM_HOSTFILE", refused.stderr)

    def test_ranks_get_their_nodes(self):
        reference = self.saved()
        for weights, nodes in (("node0=2,node1=1", "010100"), ("node1=1", "111111")):
            with self.subTest(weights=weights):
                Path(self.scratch, "end").unlink(missing_ok=True) # not before it has been saved again
                back = jobs.Job(self, [jobs.OPTIONS.bin + "/ompi-restart", "--mpirun", self.orterun,
                                       "--weights", weights, reference], self.settings())
                self.assertEqual(self.nodes_now(back), [f"node{node}" for node in nodes])
                self.check_result(back.end(), RANKS, STEPS)

    def near(self, nodes):
        """Hidden directories of nodes."""
        near = Path(self.scratch, "near")
        for node in range(nodes):
            (near / f"node{node}").mkdir(parents=True)
        return near

    def lose(self, reference, *ranks):
        """Their images in the snapshot's directory."""
        info = json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)[-1]
        for image in info["images"]:
            if image["rank"] in ranks:
                shutil.rmtree(Path(image["file"]).parent)

    def test_images_come_first_where_they_are_missing(self):
        near = self.near(3)
        for options, lost in (((), None), (("--redundancy", "xor"), "node2")):
            with self.subTest(lost=lost):
                reference = self.saved("--local", near / "%N", *options, nodes=3)
                self.lose(reference, 2, 5)
                for node in near.iterdir():
                    node.rename(near / f".{node.name}")
                refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, reference,
                                    code=errno.ENODATA)
                self.assertIn("node2", refused.stderr)
                if lost:
                    shutil.rmtree(near / f".{lost}")
                back = self.restart(reference, "--weights", "node0=1,node1=1", FAKE_HIDDEN=str(near))
                self.check_result(back.end(), RANKS, STEPS)
                self.assertIn("node node2 is asked for its images", back.text())
                self.assertEqual(lost is not None, "node node2 has not brought all" in back.text())
                self.assertFalse(list(Path(self.store).glob("*/*/.brought")))
                for node in near.iterdir():
                    node.rename(near / node.name.lstrip("."))

    def test_images_that_nobody_has_are_refused(self):
        near = self.near(2)
        reference = self.saved("--local", near / "%N")
        self.lose(reference, 1)
        shutil.rmtree(near / "node1")
        refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, "--fetch", reference,
                            code=errno.ENODATA)
        self.assertIn("node node1 has no good copy of it", refused.stderr)
        self.assertNotIn("restarted", refused.stdout)


if __name__ == "__main__":
    os.umask(0o022)
    jobs.main()
