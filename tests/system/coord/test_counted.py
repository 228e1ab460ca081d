#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots whose metadata count ranks, as those of jobs of thousands: commands read them as others.

    test_counted.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import errno
import json
import os
import re
from pathlib import Path

import jobs

RANKS = 3
STEPS = 5000


class Counted(jobs.Case):
    def saved(self, times, *options, nodes=RANKS, listed=RANKS - 1):
        job = self.start(RANKS, STEPS, FAKE_NODES=str(nodes), CRYO_LISTED_RANKS=str(listed))
        for _ in range(times):
            reference, _ = self.save(job, *options)
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

    def test_directories_of_ranks_that_lie_alone(self):
        """As they were made at first."""
        reference, top = self.saved(1)
        for number in range(RANKS):
            self.rank(top, 0, number).rename(top / "0" / f"opal_snapshot_{number}.ckpt")
        (top / "0" / "ranks_0").rmdir()
        self.tool("ompi-restart", "--heal", reference)
        self.check_restart(reference)

    def test_a_rank_without_metadata_is_named(self):
        reference, top = self.saved(2)
        (self.rank(top, 1, 2) / "snapshot_meta.data").unlink()
        self.assertIn("the image of rank 2", self.tool("ompi-restart", reference, code=2).stderr)
        self.check_restart(reference, "-s", "0")

    @staticmethod
    def rank(top, seq, number):
        group = top / str(seq) / "ranks_0"
        return (group if group.exists() else group.parent) / f"opal_snapshot_{number}.ckpt"

    def image(self, top, seq, number):
        return next(self.rank(top, seq, number).glob("cryo_context.*"))

    def test_damage_is_named(self):
        """Without a checksum of the file, those in the image show it."""
        for listed in (RANKS - 1, RANKS):
            with self.subTest(listed=listed):
                reference, top = self.saved(1, listed=listed)
                self.assertEqual(self.tool("ompi-restart", "--heal", reference).stderr, "")
                rotten = [self.image(top, 0, number) for number in (1, 2)]
                for image in rotten:
                    image.chmod(0o600)
                    data = bytearray(image.read_bytes())
                    data[len(data) // 2] ^= 1
                    image.write_bytes(data)
                refused = self.tool("ompi-restart", "--heal", reference, code=errno.ENODATA)
                for image in rotten:
                    self.assertIn(str(image), refused.stderr)
                self.assertIn("no node has a copy of it", refused.stderr)

    def test_lost_metadata_of_ranks_are_written_again(self):
        reference, top = self.saved(1, nodes=1)
        texts = [self.rank(top, 0, number) / "snapshot_meta.data" for number in range(RANKS)]
        saved = [text.read_bytes() for text in texts]
        texts[0].unlink()
        texts[2].write_bytes(b"")
        refused = self.tool("ompi-restart", reference, code=errno.ENOENT)
        self.assertIn(f"{texts[0]}: names no image; `ompi-restart --heal`", refused.stderr)
        healed = self.tool("ompi-restart", "--heal", reference)
        for number in (0, 2):
            self.assertIn(str(texts[number]), healed.stderr)
        self.assertEqual([text.read_bytes() for text in texts], saved)
        self.check_restart(reference)
        # What is there must be the images that were saved.
        texts[1].unlink()
        image = self.image(top, 0, 1)
        image.chmod(0o600)
        image.write_bytes(image.read_bytes() + b"\0")
        refused = self.tool("ompi-restart", "--heal", reference, code=errno.ENODATA)
        self.assertIn(str(texts[1]), refused.stderr)
        self.assertFalse(texts[1].exists())

    def test_deltas_of_them(self):
        """They name each rank, and need the images of ranks that are counted."""
        job = self.start(RANKS, STEPS, FAKE_NODES=str(RANKS), CRYO_LISTED_RANKS=str(RANKS - 1))
        for _ in range(2):
            reference, _ = self.save(job, "--delta", "--keep", "1")
        self.check_result(job.end(), RANKS, STEPS)
        top = Path(self.store, reference)
        text = self.metadata(top)
        self.assertEqual(text.count("# Cryo Ranks:"), 1, text)
        self.assertEqual(text.count("# Process"), RANKS, text)
        listed = json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)
        self.assertEqual([one["ranks"] for one in listed], [RANKS] * 2)
        self.tool("ompi-restart", "--heal", reference)
        self.check_restart(reference)
        image = self.image(top, 0, 1)
        image.rename(Path(self.scratch, "away"))
        refused = self.tool("ompi-restart", reference, code=errno.ENOENT)
        self.assertIn("snapshot 1 has deltas that need snapshot 0: the image of rank 1", refused.stderr)

    def test_only_the_one_that_is_asked_for_is_read(self):
        """Others may have lost all of their ranks."""
        reference, top = self.saved(3)
        for number in range(RANKS):
            for file in self.rank(top, 1, number).iterdir():
                file.unlink()
            self.rank(top, 1, number).rmdir()
        for seq in (0, 2):
            self.tool("ompi-restart", "--heal", "-s", seq, reference)
        refused = self.tool("ompi-restart", "--heal", "-s", 1, reference, code=errno.ENODATA)
        for number in range(RANKS):
            self.assertIn(str(self.rank(top, 1, number)), refused.stderr)
        listed = json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)
        self.assertEqual([one["ranks"] for one in listed], [RANKS] * 3)
        page = self.tool("cr_inspect", "--html", top).stdout
        self.assertIn("Rank 0: ", page)
        self.check_restart(reference)

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
