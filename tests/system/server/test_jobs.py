#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of MPI jobs at a server of images (--second cryo://...), sent beside the running job, and restarted
from there."""
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "coord"))
import jobs  # noqa: E402  pylint: disable=wrong-import-position
import ports  # noqa: E402  pylint: disable=wrong-import-position
import serving  # noqa: E402  pylint: disable=wrong-import-position
from jobs import PATIENCE, wait_for  # noqa: E402  pylint: disable=wrong-import-position


class Jobs(jobs.Case):
    def setUp(self):
        super().setUp()
        self.server = None
        held = ports.hold() # also while there is no server
        self.addCleanup(held.close)
        self.port = ports.number(held)
        self.key = os.path.join(self.scratch, "key")
        self.tool("cr_server", "--new-key")

    def settings(self, **more):
        return super().settings(**{"CRYO_SERVER_KEY": self.key, **more})

    def serve(self):
        with open(os.path.join(self.scratch, "said"), "a", encoding="utf-8") as errors:
            self.server = subprocess.Popen(
                [jobs.OPTIONS.bin + "/cr_server", "--directory", "images", "--listen", f"127.0.0.1:{self.port}"],
                env=self.settings(), cwd=self.scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True)
        self.addCleanup(self.end_server)
        self.assertIn(f"127.0.0.1:{self.port}/", self.server.stdout.readline())

    def end_server(self):
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server.stdout.close()
            self.server = None

    def url(self, port=None):
        return f"cryo://127.0.0.1:{port or self.port}/job9"

    def stored(self):
        return sorted(name.split("~")[0] for name in os.listdir(os.path.join(self.scratch, "images"))
                      if name.startswith("job9,"))

    def numbers(self, directory):
        """Of the snapshots there."""
        return sorted(int(entry.name) for entry in Path(directory).iterdir() if entry.name.isdigit())

    def restart_from(self, url, ranks, steps):
        """From the server alone. Where the snapshots are now."""
        self.check_result(self.restart(url).end(), ranks, steps)
        return Path(self.store, "job9")

    def refuse(self, code, text, job, *words, **more):
        done = self.tool("ompi-checkpoint", *words, job.pid, code=code, **more)
        self.assertIn(text, done.stderr)
        return done.stdout

    def test_there_and_back(self):
        job = self.start(3, 1000)
        self.serve()
        reference, first = self.save(job, "--second", self.url())
        self.assertIn("job9,cryo.json", self.stored())
        done = self.tool("ompi-checkpoint", "--json", "--second", self.url() + "/", job.pid)
        end = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(("end", {"place": self.url()}), (end["type"], end["second"]))
        job.kill()
        directory = Path(self.store, reference)
        saved = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*")
                 if path.is_file() and not path.relative_to(directory).parts[0].startswith(".")}
        shutil.rmtree(self.store)

        self.refuse_info()
        brought = self.restart_from(self.url(), 3, 1000)
        self.assertEqual([first, end["seq"]], self.numbers(brought))
        for name, contents in saved.items():
            self.assertEqual(contents, (brought / name).read_bytes(), name)
        again = self.tool("ompi-restart", self.url(), code=errno.EEXIST)
        self.assertIn(f"`ompi-restart {brought}` starts it", again.stderr)

    def refuse_info(self):
        said = self.tool("ompi-restart", "--info", self.url(), code=errno.EINVAL)
        self.assertIn("`cr_server --list`", said.stderr)

    def test_what_goes_here_goes_there(self):
        job = self.start(2, 1000)
        self.serve()
        for _ in range(3):
            reference, _ = self.save(job, "--keep", "1", "--second", self.url())
        job.kill()
        here = self.numbers(Path(self.store, reference))
        self.assertEqual(1, len(here))
        shutil.rmtree(Path(self.store, reference))
        self.assertEqual(here, self.numbers(self.restart_from(self.url(), 2, 1000)))

    def test_ranks_that_are_counted(self):
        """The metadata do not list them, but all that they have goes there, comes back, and goes away."""
        job = self.start(3, 1000, CRYO_LISTED_RANKS="2")
        self.serve()
        for _ in range(3):
            reference, last = self.save(job, "--keep", "1", "--second", self.url())
        job.kill()
        directory = Path(self.store, reference)
        self.assertEqual([last], self.numbers(directory))
        saved = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*")
                 if path.is_file()}
        self.assertEqual(3, sum(name.endswith("/snapshot_meta.data") for name in saved), saved.keys())
        shutil.rmtree(directory)
        brought = self.restart_from(self.url(), 3, 1000)
        self.assertEqual([last], self.numbers(brought))
        for name, contents in saved.items():
            self.assertEqual(contents, (brought / name).read_bytes(), name)

    def test_server_that_is_killed_midway(self):
        """It has the last complete snapshot, and the message names what failed."""
        job = self.start(2, 1000)
        self.serve()
        reference, first = self.save(job, "--second", self.url())
        # One to see whether the place may be used, and one to send.
        middle = serving.Middle(self.port, most=1 << 18, then=self.server.kill, connections=2)
        done = self.tool("ompi-checkpoint", "--json", "--second", self.url(middle.port), job.pid,
                         code=errno.ECONNRESET)
        middle.end()
        self.end_server()
        end = json.loads(done.stdout.splitlines()[-1])
        self.assertTrue(end["ok"])
        self.assertEqual(errno.ECONNRESET, end["second"]["error"]["code"])
        self.assertIn(f"{reference} {end['seq']} is complete, but not its copy at {self.url(middle.port)}: ",
                      done.stderr)
        listed = json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)
        self.assertEqual([first, end["seq"]], [one["seq"] for one in listed])
        self.serve()
        kept = Path(self.store, reference)
        kept.rename(Path(self.scratch, "aside"))
        job.kill()
        brought = self.restart_from(self.url(), 2, 1000)
        self.assertEqual([first], self.numbers(brought))

    def test_refused_before(self):
        """Nothing is saved, and no job ended, if it is known that there will be no copy."""
        job = self.start(2, 1000)
        for code, text, *words in (
                (errno.EINVAL, "wants a place at a server", "--second", "/elsewhere"),
                (errno.ENOTSUP, "are sent to cryo:// and s3://", "--second", "gopher://n7/a"),
                (errno.EINVAL, "wants a series", "--second", "cryo://n7/"),
                (errno.EINVAL, "is a bucket", "--second", "s3://bucket"),
                (errno.EINVAL, "has to wait", "--second", self.url(), "--nowait"),
                (errno.ECONNREFUSED, "there is no server of images", "--term", "--second", self.url())):
            self.refuse(code, text, job, *words)
        self.refuse(errno.ENOENT, "'cr_server --new-key' makes one", job, "--second", self.url(),
                    CRYO_SERVER_KEY=self.key + ".none")
        self.assertEqual([], list(Path(self.store).glob("*/[0-9]*")))
        self.check_result(job.end(), 2, 1000)

    def test_job_that_is_ended(self):
        job = self.start(2, 1000)
        self.serve()
        reference, _ = self.save(job, "--term", "--second", self.url())
        job.process.wait(PATIENCE)
        shutil.rmtree(Path(self.store, reference))
        self.restart_from(self.url(), 2, 1000)

    def test_series_of_programs(self):
        job = self.start(2, 1000)
        self.serve()
        program = subprocess.Popen([jobs.OPTIONS.bin + "/cr_run", "sleep", "1000"], env=self.settings())
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        wait_for(lambda: Path(f"/proc/{program.pid}/comm").read_text() == "sleep\n", "the program")
        self.tool("cr_checkpoint", "-f", os.path.join(self.scratch, "image"), "--second", self.url() + "/monday",
                  program.pid)
        self.refuse(errno.EEXIST, "name another series", job, "--second", self.url())
        self.assertEqual(["job9,monday"], self.stored())

    def keep(self):
        """A job with automatic checkpoints. Its keeper has ended when its directory is removed."""
        into = os.path.join(self.scratch, "into")
        for old in Path(self.scratch).glob("started.*"):
            old.unlink()
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", "--interval", "300ms", "--into", into, "--second",
                              self.url(), jobs.MPIRUN, "-n", "2", jobs.OPTIONS.rank, "1000", self.scratch],
                       self.settings(FAKE_HELD="1"))
        wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == 2, "the ranks")
        return job, into

    def log(self, into):
        try:
            return Path(into, "keeper.log").read_text()
        except FileNotFoundError:
            return ""

    def end_with_keeper(self, job, into):
        keeper = json.loads(Path(into, "keeper.json").read_text())["keeper"]
        job.kill()
        wait_for(lambda: not jobs.is_alive(keeper), "the end of the keeper")

    def test_automatic(self):
        self.serve()
        job, into = self.keep()
        wait_for(lambda: self.log(into).count(f"{self.url()}: context.ckpt is complete after") >= 3, "three copies")
        self.end_with_keeper(job, into)
        shutil.rmtree(into)
        self.restart_from(self.url(), 2, 1000)

    def test_automatic_without_server_for_a_while(self):
        self.serve()
        job, into = self.keep()
        wait_for(lambda: "is complete after" in self.log(into), "the first copy")
        self.server.send_signal(signal.SIGKILL)
        self.end_server()
        wait_for(lambda: f"copying to {self.url()}: " in job.text(), "the message")
        self.serve()
        copied = self.log(into).count("is complete after")
        wait_for(lambda: self.log(into).count("is complete after") > copied, "another copy")
        self.end_with_keeper(job, into)
        # Another run does not take the place.
        done = self.tool("cr_run", "--mpi", "--interval", "1h", "--into", os.path.join(self.scratch, "other"),
                         "--second", self.url(), jobs.MPIRUN, "-n", "1", "true", code=None)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("job9: has snapshots of another run", done.stderr)

    def test_restart_while_the_server_is_away(self):
        """A failure may have taken both: the job comes back, and its snapshots are sent when the server is back."""
        self.serve()
        job, into = self.keep()
        wait_for(lambda: "is complete after" in self.log(into), "the first copy")
        self.end_with_keeper(job, into)
        self.end_server()
        copied = self.log(into).count("is complete after")
        again = self.restart(os.path.join(into, "context.ckpt"), "--interval", "300ms", "--second", self.url())
        wait_for(lambda: f"copying to {self.url()}: " in again.text(), "the message")
        self.serve()
        wait_for(lambda: self.log(into).count("is complete after") > copied, "another copy")
        self.end_with_keeper(again, into)


if __name__ == "__main__":
    jobs.main()
