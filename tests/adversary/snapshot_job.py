#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of an MPI job in a directory in which everybody may make directories, as /tmp is.

    snapshot_job.py DIRECTORY_OF_COMMANDS FAKE_RANK
"""
import errno
import fcntl
import os
import shutil
import subprocess
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "coord"))
import jobs  # noqa: E402

STEPS = 3000


class Job(jobs.Case):
    identity = attack.user(attack.VICTIM)

    def setUp(self):
        super().setUp()
        os.chown(self.scratch, attack.VICTIM, attack.VICTIM)
        os.chmod(self.scratch, 0o755)
        os.mkdir(self.store)
        os.chmod(self.store, 0o1777)

    def at(self, *names):
        return os.path.join(self.store, *names)

    def owner(self, *names):
        return os.lstat(self.at(*names)).st_uid

    def give(self, path, uid):
        """The whole of it."""
        for folder, _, files in os.walk(path):
            for name in (".", *files):
                os.lchown(os.path.join(folder, name), uid, uid)

    def make(self, name):
        """By the attacker."""
        os.mkdir(self.at(name))
        os.chown(self.at(name), attack.ATTACKER, attack.ATTACKER)
        os.chmod(self.at(name), 0o777)

    def check_restart(self, reference):
        self.check_result(self.restart(reference).end(), 2, STEPS)

    def test_name_that_is_taken(self):
        """The checkpoint is made beside it, and nothing goes to the attacker."""
        job = self.start(2, STEPS)
        taken = f"ompi_global_snapshot_{job.pid}.ckpt"
        for prepare in (lambda: self.make(taken),
                        lambda: os.symlink(self.scratch, self.at(taken))):
            prepare()
            if os.path.islink(self.at(taken)):
                os.lchown(self.at(taken), attack.ATTACKER, attack.ATTACKER)
            reference, _ = self.save(job)
            self.assertNotEqual(reference, taken)
            self.assertEqual(self.owner(reference), attack.VICTIM)
            self.assertEqual(os.lstat(self.at(reference)).st_mode & 0o777, 0o700)
            if os.path.islink(self.at(taken)):
                os.unlink(self.at(taken))
            else:
                self.assertEqual(os.listdir(self.at(taken)), [])
                os.rmdir(self.at(taken))
        self.assertEqual(self.save(job), (taken, 0))
        job.kill()
        self.check_restart(reference)

    def test_name_that_was_asked_for(self):
        job = self.start(2, STEPS)
        self.make("mine")
        done = self.tool("ompi-checkpoint", "--name", "mine", job.pid, code=errno.EACCES)
        self.assertIn("mine: belongs to user", done.stderr)
        self.assertIn("choose another --where or --name", done.stderr)
        self.assertEqual(os.listdir(self.at("mine")), [])
        os.rmdir(self.at("mine"))
        os.mkdir(self.at("case"))
        os.makedirs(self.at("case", "0"))
        self.give(self.at("case"), attack.VICTIM)
        os.symlink("case", self.at("mine"))
        done = self.tool("ompi-checkpoint", "--name", "mine", job.pid, code=errno.ELOOP)
        self.assertEqual(os.listdir(self.at("case")), ["0"])
        os.unlink(self.at("mine"))
        self.assertEqual(self.save(job, "--name", "mine"), ("mine", 0))
        os.chmod(self.at("mine"), 0o777)
        done = self.tool("ompi-checkpoint", "--name", "mine", job.pid, code=errno.EACCES)
        self.assertIn("chmod go-w", done.stderr)
        job.kill()

    def test_lock(self):
        """Of a directory that others may read, which is all that it takes to lock it."""
        job = self.start(2, STEPS)
        self.save(job, "--name", "mine")
        os.chmod(self.at("mine"), 0o755)
        locked = os.open(self.at("mine"), os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, locked)
        fcntl.flock(locked, fcntl.LOCK_EX)
        self.assertEqual(self.save(job, "--name", "mine"), ("mine", 1))
        self.check_store()
        job.kill()

    def refuse_restart(self, uid, reference, said):
        self.identity = attack.user(uid)
        try:
            done = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, reference,
                             code=errno.EACCES)
        finally:
            self.identity = attack.user(attack.VICTIM)
        self.assertIn(said, done.stderr)
        self.assertNotIn("restarted", done.stdout)

    def test_snapshot_of_another_user(self):
        """It says that it is the victim's; root asks nobody either."""
        job = self.start(2, STEPS)
        reference, _ = self.save(job)
        job.kill()
        self.give(self.at(reference), attack.ATTACKER)
        subprocess.run(["chmod", "-R", "a+rX", self.at(reference)], check=True)
        for uid in (attack.VICTIM, 0):
            self.refuse_restart(uid, reference, "--owner 65534")
        back = jobs.Job(self, [jobs.OPTIONS.bin + "/ompi-restart", "--owner", "nobody", "--mpirun",
                               jobs.MPIRUN, reference], self.settings())
        self.check_result(back.end(), 2, STEPS)

    def test_part_of_another_user(self):
        job = self.start(2, STEPS)
        reference, _ = self.save(job)
        job.kill()
        part = ("0", "opal_snapshot_1.ckpt")
        image = next(name for name in os.listdir(self.at(reference, *part))
                     if name.startswith("cryo_context."))
        for names in ((), ("global_snapshot_meta.data",), part[:1], part,
                      (*part, "snapshot_meta.data"), (*part, image)):
            path = self.at(reference, *names)
            before = os.stat(path).st_mode & 0o777
            os.chown(path, attack.ATTACKER, attack.ATTACKER)
            os.chmod(path, before | (before & 0o500) >> 6)
            with self.subTest(names=names):
                self.refuse_restart(attack.VICTIM, reference, "belongs to user")
            os.chown(path, attack.VICTIM, attack.VICTIM)
            os.chmod(path, before | 0o020)
            with self.subTest(names=names, written=True):
                self.refuse_restart(attack.VICTIM, reference, "chmod go-w")
            os.chmod(path, before)
        # A rank looks for itself, whatever was there when the job was started.
        self.give(self.at(reference, "0", "opal_snapshot_0.ckpt"), attack.ATTACKER)
        subprocess.run(["chmod", "-R", "a+rX", self.at(reference, "0")], check=True)
        done = self.tool("opal-restart", "-l", self.at(reference, "0"), "-r",
                         "opal_snapshot_0.ckpt", code=errno.EACCES)
        self.assertIn("belongs to user", done.stderr)
        shutil.rmtree(self.at(reference, "0", "opal_snapshot_0.ckpt"))
        os.symlink("opal_snapshot_1.ckpt", self.at(reference, "0", "opal_snapshot_0.ckpt"))
        done = self.tool("opal-restart", "-l", self.at(reference, "0"), "-r",
                         "opal_snapshot_0.ckpt", code=errno.ELOOP)


if __name__ == "__main__":
    attack.main_of_jobs(jobs)
