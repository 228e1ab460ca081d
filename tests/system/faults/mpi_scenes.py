# SPDX-License-Identifier: Apache-2.0
"""A job of two fake ranks (tests/system/coord), and a command of Open MPI's that is disturbed."""
import contextlib
import json
import os
import signal
import subprocess

import scene
from scene import Fault, wait_until

RANKS = 2
LONG = str(10 ** 9)  # steps
GOES_ON = 60  # switches within DEADLINE: one that stands still looks about once a second


class Scene(scene.Scene):
    sample = 4
    reference = "job.ckpt"

    def job_words(self):
        return [self.bin("cr_run"), "--mpi", self.options.mpirun, "-n", str(RANKS), self.options.rank,
                LONG, self.directory]

    def checkpoint_words(self, job, *options):
        return [self.bin("ompi-checkpoint"), "--name", self.reference, *options, str(job)]

    def have_started(self):
        return all(os.path.exists(self.path(f"started.{rank}")) for rank in range(RANKS))

    def start_job(self):
        """Returns the launcher's process and the ranks."""
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("CRYO_", "OMPI_", "PMIX_"))}
        self.environment.update(
            CRYO_RUNTIME_DIR=self.path("run"), CRYO_LISTEN="127.0.0.1",
            OMPI_MCA_snapc_base_global_snapshot_dir=self.path("snapshots"))
        job = subprocess.Popen(self.job_words(), cwd=self.directory, env=self.environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until("the ranks", self.have_started)
        return job, self.ranks()

    def all_go_on(self, ranks):
        for pid in ranks:
            before = scene.processes.waits_of(pid) or 0
            self.wait_for_command(
                f"rank {pid} to go on",
                lambda pid=pid, before=before: (scene.processes.waits_of(pid) or 0) > before + GOES_ON)

    def ranks(self):
        found = []
        for pid in scene.processes.family(os.getpid()):
            try:
                if os.readlink(f"/proc/{pid}/exe") == self.options.rank:
                    found.append(pid)
            except OSError:
                pass
        return found

    def finished(self):
        """Numbers of the snapshots that are there, each of them whole."""
        text = self.run(self.bin("ompi-restart"), "--info", "--json", self.reference)
        numbers = []
        for snapshot in json.loads(text):
            numbers.append(snapshot["seq"])
            for rank in range(RANKS):
                place = self.path(f"snapshots/{self.reference}/{snapshot['seq']}/"
                                  f"opal_snapshot_{rank}.ckpt")
                for name in os.listdir(place):
                    if name.startswith("cryo_context."):
                        self.image_is_whole(os.path.join(place, name))
        return numbers

    def half_done(self):
        top = self.path(f"snapshots/{self.reference}")
        return [name for name in os.listdir(top) if name.startswith(".")] + [
            name for name in os.listdir(self.path("snapshots")) if name.startswith(".")]

    def nothing_half_done(self):
        """The daemon comes to its end after a command that has failed has gone."""
        self.wait_for_command("nothing half done to be left over", lambda: not self.half_done())


class Checkpoint(Scene):
    """The ranks go on, snapshots that were there stay whole, nothing half done is left."""

    def prepare(self):
        self.job, self.of_job = self.start_job()
        self.run(*self.command())
        self.kept = self.finished()

    def command(self):
        return self.checkpoint_words(self.job.pid)

    def verify(self, status):
        if self.job.poll() is not None or len(self.of_job) != RANKS:
            raise Fault("the job has ended")
        self.all_go_on(self.of_job)
        now = self.finished()
        if not set(self.kept) <= set(now):
            raise Fault(f"of the snapshots {self.kept}, {now} are left")
        if status == 0 and len(now) == len(self.kept):
            raise Fault("it said that it was done, and there is no snapshot")
        self.kept = now
        self.nothing_half_done()

    def end(self):
        for pid in [*self.of_job, self.job.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.job.wait()


class Restart(Scene):
    """The ranks come back and go on; or it is said why not, and nobody is left."""

    def prepare(self):
        self.below = self.options.bin + "/"  # the launcher is not ours
        job, _ = self.start_job()
        self.run(*self.checkpoint_words(job.pid, "--term"))
        job.wait()
        self.await_end_of_saved()

    def command(self):
        return [self.bin("ompi-restart"), "--mpirun", self.options.mpirun, self.reference]

    def watch(self, process):
        def all_go_on():
            ranks = [scene.processes.waits_of(pid) for pid in self.ranks()]
            return len(ranks) == RANKS and all((count or 0) > GOES_ON for count in ranks)
        return self.watch_until_decided(process, all_go_on)

    def verify(self, status):
        if status == 0:
            raise Fault("it ended as if the job had")
        if not self.finished():
            raise Fault("the snapshot is gone")
        self.nothing_half_done()


class Daemon(Scene):
    """Of a job that is started, saved and told to end. Ranks that have started go on whatever their
    daemon cannot do; then there is a snapshot, or a word why not."""

    def prepare(self):
        self.below = self.daemon()
        job, _ = self.start_job()
        self.run(*self.checkpoint_words(job.pid, "--term"))
        job.wait()
        self.kept = self.finished()

    def daemon(self):
        return os.path.join(os.path.dirname(self.options.bin), "lib", "cryo", "mpi-daemon")

    def command(self):
        return self.job_words()

    def begin(self):
        for rank in range(RANKS):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(f"started.{rank}"))

    def watch(self, process):
        self.wait_for_command("the ranks to start, or the job to end",
                              lambda: process.poll() is not None or self.have_started())
        launcher = [pid for pid in scene.processes.children(process.pid)
                    if not scene.is_supervisor(pid)]
        if launcher:
            self.save(launcher[0])
            os.kill(launcher[0], signal.SIGTERM)
        status = super().watch(process)
        if not launcher and status == 0:
            raise Fault("it ended as if the job had")
        return 0 if launcher else status

    def save(self, job):
        ranks = self.ranks()
        # Ranks that could not reach their daemon run on without it, and are waited for in vain.
        try:
            done = subprocess.run(self.checkpoint_words(job, "--time", "5"), cwd=self.directory,
                                  env=self.environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False,
                                  timeout=scene.PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Fault(f"ompi-checkpoint does not end: {late.stderr}") from None
        if len(ranks) != RANKS or self.ranks() != ranks:
            raise Fault(f"the job has ended: {done.stderr}")
        self.all_go_on(ranks)
        if done.returncode == 0:
            self.kept = self.kept + [max(self.kept) + 1]
        elif not done.stderr.strip():
            raise Fault(f"ompi-checkpoint: exit status {done.returncode}, and no word why")

    def verify(self, status):
        now = self.finished()
        if not set(self.kept) <= set(now):
            raise Fault(f"of the snapshots {self.kept}, {now} are left")
        self.kept = now
        if self.half_done():  # its removal has failed: the next checkpoint sees to that
            job, _ = self.start_job()
            self.run(*self.checkpoint_words(job.pid, "--term"))
            job.wait()
            self.kept = self.finished()
            self.nothing_half_done()


class DaemonOfRestart(Restart):
    def prepare(self):
        super().prepare()
        self.below = Daemon.daemon(self)


SCENES = {"ompi_checkpoint": Checkpoint, "ompi_restart": Restart, "mpi_daemon": Daemon,
          "mpi_daemon_of_restart": DaemonOfRestart}
