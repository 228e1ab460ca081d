#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks whose images are on their nodes first (ompi-checkpoint --local).

    test_levels.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import contextlib
import errno
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import jobs


class Levels(jobs.Case):
    def setUp(self):
        super().setUp()
        self.near = Path(self.scratch, "near") # of all "nodes", which are on this host
        self.near.mkdir()

    def listed(self):
        return json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)

    def images(self, reference, seq=-1):
        """What the metadata say of a snapshot's images."""
        info = json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)
        return info[seq]["images"]

    def levels(self):
        """Names of the levels on the nodes."""
        top = self.near / f"cryo-{os.geteuid()}"
        return {one.name for one in top.iterdir()} if top.exists() else set()

    def spoil_shared(self, reference):
        """Only the sizes of the images in the snapshot's directory stay as they were."""
        for image in self.images(reference):
            file = Path(image["file"])
            self.assertEqual(file.stat().st_mode & 0o777, 0o400)
            file.chmod(0o600)
            file.write_bytes(b"\0" * file.stat().st_size)

    @staticmethod
    def near_file(image):
        return Path(image["local"]) / Path(image["file"]).name

    def test_restart_takes_the_nearest(self):
        for options in ((), ("--snapshot", "stop"), ("--term",)):
            with self.subTest(options=options):
                job = self.start(3, 5000, FAKE_NODES="2")
                reference, _ = self.save(job, "--local", self.near, *options)
                if "--term" in options:
                    job.end(143)
                job.kill()
                images = self.images(reference)
                self.assertEqual(len(images), 3)
                for image in images:
                    near = self.near_file(image)
                    self.assertTrue(near.is_relative_to(self.near))
                    self.assertEqual(near.stat().st_size, image["bytes"])
                    self.assertEqual(near.read_bytes(), Path(image["file"]).read_bytes())
                    self.assertTrue(re.fullmatch("[0-9a-f]{32}", image["checksum"]))
                top = self.near / f"cryo-{os.geteuid()}"
                self.assertEqual(top.stat().st_mode & 0o777, 0o700)
                self.check_store()
                self.spoil_shared(reference)
                self.check_result(self.restart(reference).end(), 3, 5000)

    def test_damaged_and_missing_ones_are_not_taken(self):
        job = self.start(2, 5000)
        reference, _ = self.save(job, "--local", self.near)
        job.kill()
        self.assertEqual(self.listed()[0]["local"], 2)
        first, second = map(self.near_file, self.images(reference))
        whole = bytearray(first.read_bytes())
        whole[len(whole) // 2] ^= 1
        first.chmod(0o600)
        first.write_bytes(whole)
        shutil.rmtree(second.parent)
        text = self.restart(reference).end()
        self.check_result(text, 2, 5000)
        self.assertEqual(text.count("is not what was saved"), 1, text)
        self.assertIn(f"{first}: is not what was saved", text)
        self.assertNotIn(str(second), text) # not every node has one

    def test_retention(self):
        job = self.start(2, 200000)
        for _ in range(2):
            reference, _ = self.save(job, "--local", self.near)
            last = self.near_file(self.images(reference)[0]).parent.parent.name
            jobs.wait_for(lambda name=last: self.levels() == {name}, "the removal of older levels")
        for _ in range(2):
            self.save(job, "--local", self.near, "--keep-local", "2")
        names = {self.near_file(self.images(reference, seq)[0]).parent.parent.name
                 for seq in (-1, -2)}
        jobs.wait_for(lambda: self.levels() == names, "the two last ones")
        self.assertEqual([one["seq"] for one in self.listed()], [0, 1, 2, 3])
        newest = self.near_file(self.images(reference)[0]).parent.parent.name
        job.kill()
        other = self.start(2, 200000)
        reference, _ = self.save(other, "--local", self.near)
        own = self.near_file(self.images(reference)[0]).parent.parent.name
        jobs.wait_for(lambda: self.levels() == {newest, own}, "one of the job that has ended")

    def test_removal_that_takes_long(self):
        """A daemon answers while it removes levels, which a lock holds up here; the next checkpoint
        waits for that."""
        job = self.start(1, 200000)
        for _ in range(2):
            reference, _ = self.save(job, "--local", self.near)
        last = self.near_file(self.images(reference)[0]).parent.parent.name
        jobs.wait_for(lambda: self.levels() == {last}, "a removal that is over")
        top = os.open(self.near / f"cryo-{os.geteuid()}", os.O_RDONLY)
        fcntl.flock(top, fcntl.LOCK_SH)
        self.save(job, "--local", self.near)
        # pylint: disable=consider-using-with
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", "--local",
                                 str(self.near), str(job.pid)], env=self.settings(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        for line in tool.stdout:
            if json.loads(line).get("state") == "requested":
                break
        self.tool("ompi-checkpoint", "--cont", job.pid) # of no effect
        os.close(top)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors)
        newest = self.near_file(self.images(reference)[0]).parent.parent.name
        jobs.wait_for(lambda: self.levels() == {newest}, "the removal of older levels")

    def test_parameter_of_the_job(self):
        job = self.start(1, 200000, OMPI_MCA_hook_cryo_local=str(self.near))
        self.save(job)
        self.assertEqual(self.listed()[0]["local"], 1)

    def test_nothing_without_it(self):
        job = self.start(1, 200000)
        reference, _ = self.save(job)
        self.assertNotIn("local", self.listed()[0])
        self.assertNotIn("local", self.images(reference)[0])
        self.assertNotIn("Cryo Local", Path(self.store, reference, "global_snapshot_meta.data").read_text())
        for option in (("--until", "local"), ("--keep-local", "2"), ("--copy-rate", "1")):
            refused = self.tool("ompi-checkpoint", *option, job.pid, code=errno.EINVAL)
            self.assertIn(option[0], refused.stderr)
            self.assertIn("(--local)", refused.stderr)

    def test_missing_directory(self):
        job = self.start(3, 5000, FAKE_NODES="2")
        nowhere = self.near / "nowhere"
        done = self.tool("ompi-checkpoint", "--local", nowhere, job.pid)
        for node in ("node0", "node1"):
            self.assertEqual(done.stderr.count(f"the images of node {node} went straight to the "
                                               f"snapshot: {nowhere}/"), 1, done.stderr)
        self.assertNotIn("local", self.listed()[0])
        self.check_store()
        job.kill()
        self.check_result(self.restart(f"ompi_global_snapshot_{job.pid}.ckpt").end(), 3, 5000)

    def test_full_disk(self):
        """A limit on the size of files does what a full disk does, and needs no privilege."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, hard))
        job = self.start(2, 200000, limit=limit, FAKE_MEGABYTES="16")
        local = ("--local", self.near, job.pid)
        done = self.tool("ompi-checkpoint", *local, code=errno.EFBIG)
        self.assertRegex(done.stderr, r"rank \d on node .*File too large")
        self.check_store()
        jobs.wait_for(lambda: not self.levels(), "the removal of what was begun")
        for pid in job.everything():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        done = self.tool("ompi-checkpoint", *local) # with certainty
        self.assertRegex(done.stderr, "went straight to the snapshot: in an earlier checkpoint, "
                                      ".*File too large")
        self.assertNotIn("local", self.listed()[-1])

    def test_return_after_the_first_level(self):
        job = self.start(2, 200000)
        said = self.tool("ompi-checkpoint", "--json", "--until", "local", "--local", self.near,
                         job.pid).stdout
        lines = [json.loads(line) for line in said.splitlines()]
        self.assertEqual(lines[-1].get("state"), "local", said)
        jobs.wait_for(self.listed, "the other level")
        self.assertEqual(self.listed()[0]["local"], 2)

    def test_interrupt_before_the_first_level(self):
        job = self.start(2, 200000)
        os.kill(job.status()["ranks"][0], signal.SIGSTOP) # and so the cut never comes
        # pylint: disable=consider-using-with
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", "--until", "local",
                                 "--local", str(self.near), str(job.pid)], env=self.settings(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        for line in tool.stdout:
            if json.loads(line).get("state") == "pending":
                break
        tool.send_signal(signal.SIGINT)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, errno.ECANCELED, errors)
        self.assertIn("it was called off", errors)
        self.check_store()

    def test_limit_of_the_copies(self):
        job = self.start(1, 200000, FAKE_MEGABYTES="2")
        said = self.tool("ompi-checkpoint", "--json", "--local", self.near, "--copy-rate", "1",
                         job.pid).stdout
        end = json.loads(said.splitlines()[-1])
        self.assertGreaterEqual(end["bytes"], 2 << 20)
        self.assertGreaterEqual(end["seconds"], end["bytes"] / (1 << 20))

    def test_daemon_dies_while_it_copies(self):
        job = self.start(3, 200000, FAKE_NODES="2", FAKE_MEGABYTES="32")
        reference, _ = self.save(job, "--local", self.near)
        good = self.near_file(self.images(reference)[0]).parent.parent.name
        # pylint: disable=consider-using-with
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", "--local",
                                 str(self.near), "--copy-rate", "1", str(job.pid)],
                                env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        for line in tool.stdout:
            if json.loads(line).get("state") == "local":
                break
        daemon = next(pid for pid in job.status()["daemons"]
                      if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(daemon, signal.SIGKILL)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, errno.ECONNRESET, errors)
        self.assertRegex(errors, r"the daemon of node node\d has ended")
        self.assertEqual([one["seq"] for one in self.listed()], [0])
        self.assertIn(good, self.levels())
        job.kill()
        self.spoil_shared(reference)
        back = self.restart(reference)
        jobs.wait_for(lambda: back.text().count("restarted at") == 3, "the restarted ranks")
        reference, _ = self.save(back, "--local", self.near)
        own = self.near_file(self.images(reference)[0]).parent.parent.name
        jobs.wait_for(lambda: self.levels() == {good, own}, "the removal of what the daemon left")


if __name__ == "__main__":
    jobs.main()
