#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of MPI jobs in an object store: put there beside the running job, and restarted from there."""
import errno
import json
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "coord"))
import jobs  # noqa: E402  pylint: disable=wrong-import-position
import objects  # noqa: E402  pylint: disable=wrong-import-position

PLACE = f"s3://{objects.BUCKET}/jobs/run7"


class Stored(jobs.Case):
    def setUp(self):
        super().setUp()
        self.server = objects.Server(self)

    def settings(self, **more):
        server = self.server.environment()
        return super().settings(**{**{name: server[name] for name in server if name.startswith("AWS_")}, **more})

    def store_tool(self, verb, *words, code=0):
        done = self.tool("cr_store", verb, "--json", *words, code=code)
        return json.loads(done.stdout)

    @staticmethod
    def files_in(directory):
        return {str(path.relative_to(directory)): path.read_bytes() for path in Path(directory).rglob("*")
                if path.is_file() and not path.relative_to(directory).parts[0].startswith(".")}

    def test_job(self):
        job = self.start(3, 1000)
        reference, first = self.save(job)
        directory = os.path.join(self.store, reference)
        said = self.store_tool("push", directory, PLACE)
        self.assertEqual("snapshot", said["kind"])
        self.assertEqual(said["bytes"], said["sent"])
        # Another one, to the same place: of the first nothing is sent again.
        _, second = self.save(job)
        more = self.store_tool("push", directory, PLACE)
        self.assertGreater(more["bytes"], said["bytes"])
        self.assertLessEqual(more["sent"], more["bytes"] - said["bytes"] + 65536)
        job.kill()
        saved = self.files_in(directory)
        shutil.rmtree(directory)

        said = self.tool("ompi-restart", "--info", PLACE, code=22)
        self.assertIn("`cr_store list`", said.stderr)
        restarted = self.restart(PLACE)
        brought = Path(self.store, "run7")
        text = restarted.end()
        self.check_result(text, 3, 1000)
        self.assertIn(f"{PLACE}: is in {brought} now", text)
        self.assertEqual(saved, self.files_in(brought))
        self.assertNotEqual(first, second)
        # Nothing is brought over what is there, and the message says so.
        again = self.tool("ompi-restart", PLACE, code=17)
        self.assertIn(f"`ompi-restart {brought}` starts it", again.stderr)

    def test_ranks_that_are_counted(self):
        """The metadata do not list them, but all that they have goes there and comes back."""
        job = self.start(3, 1000, CRYO_LISTED_RANKS="2")
        for _ in range(2):
            reference, _ = self.save(job)
        job.kill()
        directory = Path(self.store, reference)
        self.assertEqual(2, (directory / "global_snapshot_meta.data").read_text().count("# Cryo Ranks: 3\n"))
        saved = self.files_in(directory)
        said = self.store_tool("push", directory, PLACE)
        self.assertEqual((len(saved), sum(map(len, saved.values()))), (said["files"], said["bytes"]))
        listed = self.store_tool("list", f"s3://{objects.BUCKET}")["places"]
        self.assertEqual([(PLACE, True, "snapshot", said["bytes"])],
                         [(one["place"], one["complete"], one["kind"], one["bytes"]) for one in listed])
        self.store_tool("verify", PLACE)
        back = Path(self.scratch, "back")
        self.store_tool("pull", PLACE, back)
        self.assertEqual(saved, self.files_in(back))
        text = next(directory.glob("0/ranks_0/opal_snapshot_1.ckpt/snapshot_meta.data"))
        text.unlink()
        said = self.store_tool("push", directory, PLACE, code=errno.ENOENT)
        self.assertIn(f"the image of rank 1: {text}", said["error"]["text"])
        shutil.rmtree(directory)
        self.check_result(self.restart(PLACE).end(), 3, 1000)
        self.store_tool("remove", PLACE)
        self.assertEqual([], self.store_tool("list", f"s3://{objects.BUCKET}")["places"])

    def test_sent_when_saved(self):
        """By ompi-checkpoint; the server dies midway, and has the last complete snapshot."""
        job = self.start(2, 1000)
        reference, first = self.save(job, "--delta", "--second", PLACE)
        with objects.Way(self.server) as way:
            way.cut(after=1 << 17, then=self.server.kill)
            done = self.tool("ompi-checkpoint", "--json", "--second", PLACE, job.pid, code=errno.ECONNRESET,
                             AWS_ENDPOINT_URL=f"http://127.0.0.1:{way.port}", CRYO_STORE_PATIENCE="0")
        end = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((True, PLACE, errno.ECONNRESET),
                         (end["ok"], end["second"]["place"], end["second"]["error"]["code"]))
        self.assertIn(f"{reference} {end['seq']} is complete, but not its copy at {PLACE}: ", done.stderr)
        self.server.start()
        os.rename(os.path.join(self.store, reference), os.path.join(self.scratch, "aside"))
        job.kill()
        restarted = self.restart(PLACE)
        self.check_result(restarted.end(), 2, 1000)
        self.assertEqual([str(first)], [path.name for path in Path(self.store, "run7").iterdir() if path.name.isdigit()])

    def test_unfinished(self):
        """A snapshot of which an image is missing is none."""
        job = self.start(2, 1000)
        reference, _ = self.save(job)
        job.kill()
        image = next(Path(self.store, reference).glob("*/opal_snapshot_1.ckpt/*context*"))
        image.unlink()
        said = self.store_tool("push", os.path.join(self.store, reference), PLACE, code=2)
        self.assertIn(str(image), said["error"]["text"])
        self.assertEqual([], self.store_tool("list", f"s3://{objects.BUCKET}")["places"])


if __name__ == "__main__":
    jobs.main()
