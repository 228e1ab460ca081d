#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_status and cr_top: what they show of jobs of fake ranks, and of their snapshots.

    test_job_status.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import json
import os
import signal
from pathlib import Path

import jobs


class JobStatus(jobs.Case):
    def said(self, job, **more):
        lines = self.tool("cr_status", "--json", code=None, **more).stdout.splitlines()
        mine = [json.loads(line) for line in lines if json.loads(line)["pid"] == job.pid]
        self.assertLessEqual(len(mine), 1, mine)
        return mine[0] if mine else {}

    def await_ready(self, job):
        def ready():
            said = self.said(job)
            return said if said.get("savable") else None
        return jobs.wait_until("the job", ready)

    def test_job(self):
        job = self.start(3, 100000)
        said = self.await_ready(job)
        self.assertEqual((said["kind"], said["state"], said["processes"], said["checkpoint"]),
                         ("job", "ready", 3, None))
        self.assertEqual(said["directory"], self.store)
        reference, seq = self.save(job)
        said = self.said(job)
        self.assertEqual(said["checkpoint"], f"{self.store}/{reference}/{seq}")
        self.assertEqual(said["level"], None)
        sizes = sum(one.stat().st_size for one in Path(said["checkpoint"]).glob("*/cryo_context.*"))
        self.assertEqual(said["bytes"], sizes)
        one = self.tool("cr_status", job.pid).stdout
        self.assertRegex(one, rf"\nlauncher +{job.pid}\n")
        self.assertRegex(one, r"\nranks +3\n")
        top = self.tool("cr_top", "--once", "--batch").stdout
        self.assertRegex(top, rf"\n *{job.pid} +ready, job +[\d.]+ \S+ ago ")
        pids = {json.loads(line)["pid"] for line in
                self.tool("cr_status", "--json", code=None).stdout.splitlines()}
        self.assertEqual(pids & set(job.status()["ranks"]), set(), "ranks are no programs of their own")

    def test_local_images(self):
        near = Path(self.scratch, "near")
        near.mkdir()
        job = self.start(2, 100000, FAKE_NODES="2")
        self.await_ready(job)
        self.save(job, "--local", near)
        self.assertEqual(self.said(job)["level"], "local")

    def test_snapshots_as_images(self):
        job = self.start(2, 100000)
        for _ in range(2):
            reference, _ = self.save(job)
        done = self.tool("cr_status", "--images", self.store, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one["name"] for one in found], [f"{reference}/0", f"{reference}/1"])
        for one in found:
            self.assertEqual((one["kind"], one["pid"], one["processes"], one["whole"]),
                             ("job", job.pid, 2, True))
        text = self.tool("cr_status", "--images", self.store).stdout
        self.assertIn("snapshot of a job", text)
        before = sorted(Path(self.store).rglob("*"))
        self.tool("cr_status", "--images", self.store, "--prune", "1", code=1)
        self.assertEqual(sorted(Path(self.store).rglob("*")), before, "ompi-checkpoint --keep does that")
        done = self.tool("cr_status", "--images", f"{self.store}/{reference}", code=None)
        self.assertIn("name the directory in which it is", done.stderr)
        next(Path(self.store, reference, "0").glob("*/cryo_context.*")).unlink()
        done = self.tool("cr_status", "--images", self.store, code=1)
        self.assertIn("not whole", done.stdout)

    def test_daemon_that_does_not_answer(self):
        """Others are shown all the same, and soon."""
        job = self.start(2, 100000)
        self.await_ready(job)
        daemons = job.status()["daemons"]
        for pid in daemons:
            os.kill(pid, signal.SIGSTOP)
        jobs.wait_for(lambda: self.said(job)["savable"] is False, "that it is seen")
        self.assertEqual(self.said(job)["state"], "unready")
        for pid in daemons:
            os.kill(pid, signal.SIGCONT)
        self.await_ready(job)


jobs.main()
