#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots whose metadata count ranks, as those of jobs of thousands: commands read them as others.

    test_counted.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import json
import os
import re
from pathlib import Path

import jobs

RANKS = 3
STEPS = 5000


class Counted(jobs.Case):
    def saved(self, times):
        job = self.start(RANKS, STEPS, FAKE_NODES=str(RANKS), CRYO_LISTED_RANKS=str(RANKS - 1))
        for _ in range(times):
            reference, _ = self.save(job)
        self.check_result(job.end(), RANKS, STEPS)
        return reference, Path(self.store, reference)

    def metadata(self, top):
        return (top / "global_snapshot_meta.data").read_text()

    def check_restart(self, reference, *arguments):
        text = self.restart(reference, *arguments, FAKE_NODES="2").end()
        self.check_result(text, RANKS, STEPS)
        steps = re.findall(r"restarted at step (\d+)", text)
        self.assertEqual((len(steps), len(set(steps))), (RANKS, 1), text) # the cut

    def test_commands_read_them(self):
        reference, top = self.saved(2)
        text = self.metadata(top)
        self.assertEqual(text.count(f"\n# Cryo Ranks: {RANKS}\n"), 2, text)
        self.assertNotIn("# Process", text)
        listed = json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)
        self.assertEqual([one["ranks"] for one in listed], [RANKS] * 2)
        shown = json.loads(self.tool("ompi-restart", "-info", "--json", reference).stdout)
        self.assertEqual([one["seq"] for one in shown], [0, 1])
        for snapshot, one in zip(shown, listed):
            images = snapshot["images"]
            self.assertEqual([image["rank"] for image in images], list(range(RANKS)))
            self.assertEqual(len({image["node"] for image in images}), RANKS, images)
            for image in images:
                self.assertEqual(os.path.getsize(image["file"]), image["bytes"])
            self.assertEqual(one["bytes"], sum(image["bytes"] for image in images))
        page = self.tool("cr_inspect", "--html", top).stdout
        for rank in range(RANKS):
            self.assertIn(f"Rank {rank}: ", page)
        self.check_restart(reference)
        self.check_restart(reference, "-s", "0")

    def test_a_rank_without_metadata_is_named(self):
        reference, top = self.saved(2)
        (top / "1" / "opal_snapshot_2.ckpt" / "snapshot_meta.data").unlink()
        self.assertIn("the image of rank 2", self.tool("ompi-restart", reference, code=2).stderr)
        self.check_restart(reference, "-s", "0")

    def test_smaller_jobs_are_listed(self):
        job = self.start(RANKS, STEPS, CRYO_LISTED_RANKS=str(RANKS))
        reference, _ = self.save(job)
        self.check_result(job.end(), RANKS, STEPS)
        top = Path(self.store, reference)
        self.assertEqual(self.metadata(top).count("# Process"), RANKS)
        self.assertNotIn("# Cryo Ranks", self.metadata(top))
        for rank in range(RANKS):
            local = (top / "0" / f"opal_snapshot_{rank}.ckpt" / "snapshot_meta.data").read_text()
            self.assertNotIn("# Cryo Node", local)

    def test_old_ones_are_removed(self):
        job = self.start(RANKS, STEPS, FAKE_NODES=str(RANKS), CRYO_LISTED_RANKS="0")
        for _ in range(3):
            reference, _ = self.save(job, "--keep", "1")
        top = Path(self.store, reference)
        self.assertEqual({entry.name for entry in top.iterdir()}, {"2", "global_snapshot_meta.data"})
        self.check_result(job.end(), RANKS, STEPS)
        self.check_restart(reference)


if __name__ == "__main__":
    os.umask(0o022)
    jobs.main()
