#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks, saved and brought back by ompi-checkpoint and ompi-restart.

    test_coord.py --bin DIRECTORY --rank FAKE_RANK [--open-mpi MPIRUN] [unittest arguments]
"""
import contextlib
import errno
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import jobs

SOAK = bool(os.environ.get("CRYO_SOAK"))


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack("<IBxxx", len(body), 7) + body


class Whole(jobs.Case):
    def restarted_steps(self, text, ranks):
        steps = re.findall(r"restarted at step (\d+)", text)
        self.assertEqual(len(steps), ranks, text)
        self.assertEqual(set(steps), {steps[0]}, text) # the cut
        return int(steps[0])

    def test_generations(self):
        job = self.start(2, 5000)
        reference, seq = self.save(job)
        self.assertEqual((reference, seq), (f"ompi_global_snapshot_{job.pid}.ckpt", 0))
        job.kill()
        second = self.restart(reference)
        jobs.wait_for(lambda: second.text().count("restarted at") == 2, "the restarted ranks")
        again, seq = self.save(second)
        self.assertEqual((again, seq), (f"ompi_global_snapshot_{second.pid}.ckpt", 0))
        second.kill()
        self.restarted_steps(second.text(), 2)
        text = self.restart(again).end()
        self.check_result(text, 2, 5000)
        self.restarted_steps(text, 2)
        self.check_store()

    def test_undisturbed_and_numbers(self):
        job = self.start(3, 5000)
        for number in range(3):
            self.assertEqual(self.save(job)[1], number)
        reference, number = self.save(job, "--keep", "2", "-v")
        self.assertEqual(number, 3)
        listed = json.loads(self.tool("ompi-checkpoint", "--list", "--json").stdout)
        self.assertEqual([one["seq"] for one in listed], [2, 3])
        self.assertEqual({entry.name for entry in Path(self.store, reference).iterdir()},
                         {"2", "3", "global_snapshot_meta.data"})
        self.check_result(job.end(), 3, 5000)
        jobs.wait_for(lambda: not job.status()["daemons"], "the end of the daemon")
        self.assertEqual(os.listdir(self.runtime), [])
        info = json.loads(self.tool("ompi-restart", "-info", "--json", reference).stdout)
        self.assertEqual([one["seq"] for one in info], [2, 3])
        self.assertEqual([image["rank"] for image in info[0]["images"]], [0, 1, 2])
        early = self.restart(reference, "-s", "2")
        late = self.restart(reference) # both at once
        early, late = early.end(), late.end()
        self.check_result(early, 3, 5000)
        self.check_result(late, 3, 5000)
        self.assertLessEqual(self.restarted_steps(early, 3),
                             self.restarted_steps(late, 3))
        refused = self.tool("ompi-restart", "-s", "0", reference, code=2).stderr
        self.assertIn("no finished snapshot 0", refused)

    def test_layout(self):
        job = self.start(2, 3000)
        reference, _ = self.save(job, "--name", "mine.ckpt", "-mca", "any", "thing")
        job.kill()
        self.assertEqual(reference, "mine.ckpt")
        top = Path(self.store, reference)
        lines = (top / "global_snapshot_meta.data").read_text().splitlines()
        for line in ("# Seq: 0", "# Local Snapshot Format Reference: opal_snapshot_%d.ckpt",
                     "# OPAL CRS Component: cryo", f"# Process: {job.pid}.1", "# Finished Seq: 0"):
            self.assertIn(line, lines)
        for rank in range(2):
            local = top / "0" / f"opal_snapshot_{rank}.ckpt"
            meta = (local / "snapshot_meta.data").read_text()
            pid = re.search(r"^# PID: (\d+)$", meta, re.M)[1]
            self.assertIn("# OPAL CRS Component: cryo\n", meta)
            self.assertIn(f"# CONTEXT: cryo_context.{pid}\n", meta)
            self.assertTrue((local / f"cryo_context.{pid}").is_file())
        shown = self.tool("mpi-restart", "-showme", "--mpirun_opts", "-x 'A B'", "--hostfile", "h",
                          "-mca", "btl", "self", reference).stdout
        for part in ("mpirun -x A B --mca btl self --hostfile h", " -n 2 ", "/opal-restart -l "):
            self.assertIn(part, shown)
        file = self.tool("ompi-restart", "--apponly", reference).stdout.strip()
        self.assertEqual(len(Path(file).read_text().splitlines()), 2)
        # A damaged snapshot is seen before anything is started.
        image = next((top / "0" / "opal_snapshot_1.ckpt").glob("cryo_context.*"))
        os.truncate(image, 100)
        self.assertIn("has 100 bytes", self.tool("ompi-restart", reference, code=22).stderr)
        image.unlink()
        self.assertIn("the image of rank 1", self.tool("ompi-restart", reference, code=2).stderr)

    def test_command_line_as_it_was_written(self):
        """With what cr_run gives Open MPI's launcher in front of it."""
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-x", "CRYO_JOB",
                              "-x", "LD_PRELOAD", "-n", "1", jobs.OPTIONS.rank, "4000",
                              self.scratch], self.settings(FAKE_HELD="1"))
        reference, _ = self.save(job)
        said = self.tool("ompi-restart", "-i", reference).stdout
        self.assertIn(": 1 rank, ", said)
        self.assertIn(f" {jobs.MPIRUN} -n 1 {jobs.OPTIONS.rank} 4000 ", said)
        info = json.loads(self.tool("ompi-restart", "-i", "--json", reference).stdout)
        self.assertIn("LD_PRELOAD", Path(f"/proc/{job.pid}/cmdline").read_text())
        self.assertNotIn("LD_PRELOAD", info[0]["command"])

    def test_term(self):
        job = self.start(2, 5000)
        reference, _ = self.save(job, "--term")
        job.end(143)
        text = self.restart(reference).end()
        self.check_result(text, 2, 5000)

    def test_stop(self):
        job = self.start(2, 5000)
        reference, _ = self.save(job, "-stop")
        ranks = job.status()["ranks"]
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            jobs.wait_for(lambda pid=rank: " T " in Path(f"/proc/{pid}/stat").read_text(), "the stop")
        self.assertIn("--cont", self.tool("ompi-checkpoint", job.pid, code=16).stderr)
        self.tool("ompi-checkpoint", "--cont", job.pid)
        self.save(job)
        self.check_result(job.end(), 2, 5000)
        self.check_result(self.restart(reference, "-s", "0").end(), 2, 5000)

    def test_nodes(self):
        """A chain of daemons; back on another number of nodes."""
        job = self.start(5, 20000, FAKE_NODES="5", CRYO_FANOUT="1")
        self.assertEqual(len(job.status()["daemons"]), 6)
        reference, _ = self.save(job)
        daemons = job.status()["daemons"]
        job.kill()
        jobs.wait_for(lambda: not any(jobs.is_alive(pid) for pid in daemons), "the end of the daemons")
        back = self.restart(reference, FAKE_NODES="2")
        jobs.wait_for(lambda: back.text().count("restarted at") == 5, "the restarted ranks")
        self.save(back, "--term")
        text = back.end(143)
        self.restarted_steps(text, 5)

    def test_jobs_side_by_side(self):
        # The first must still run when the third has come up, on a busy machine as well.
        steps = (9000, 7000, 5000)
        several = [self.start(2, count) for count in steps]
        tools = [subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", str(job.pid)],
                                  env=self.settings(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for job in several]
        for job, tool, count in zip(several, tools, steps):
            output, errors = tool.communicate(timeout=jobs.PATIENCE)
            self.assertEqual(tool.returncode, 0, errors)
            self.assertIn(f"ompi_global_snapshot_{job.pid}.ckpt", output)
            self.check_result(job.end(), 2, count)

    def test_opal_commands(self):
        alone = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", jobs.OPTIONS.rank, "1500",
                                self.scratch], self.settings(OMPI_COMM_WORLD_SIZE="1", FAKE_HELD="1"))
        jobs.wait_for(lambda: Path(self.scratch, "started.0").exists(), "the program")
        said = self.tool("opal-checkpoint", "-term", "-w", self.store, "-n", "one",
                         alone.pid).stdout
        self.assertEqual(said, "Local Snapshot Reference = one\n")
        alone.end(-signal.SIGTERM)
        self.assertIn("is there", self.tool("opal-checkpoint", "-w", self.store, "-n", "one",
                                            os.getpid(), code=17).stderr)
        self.tool("opal-restart", "-l", self.store, "-r", "one")
        self.check_result(alone.text(), 1, 1500)


class OpenMpi(jobs.Case):
    """The stock launcher, with the same ranks; "other nodes" are names and bare environments."""

    def setUp(self):
        super().setUp()
        if jobs.OPTIONS.open_mpi is None:
            self.fail("no --open-mpi was given")
        # Sessions of mpirun's own, whose paths must be short. Its daemon sometimes crashes while it
        # copies what it knows of the processors to where it finds no mappings (rtc/hwloc).
        self.mpi = dict(TMPDIR=self.scratch, OMPI_MCA_rtc="^hwloc", OMPI_ALLOW_RUN_AS_ROOT="1",
                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                        OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_oob_tcp_if_include="lo",
                        OMPI_MCA_plm_rsh_agent=str(jobs.HERE / "fake_ssh"), FAKE_HELD="1")

    def run_and_back(self, ranks, options, daemons, within=False, again=None):
        """Within: not mpirun is under cr_run, but each rank. Again: the options of the restart."""
        cr_run = [jobs.OPTIONS.bin + "/cr_run"]
        job = jobs.Job(self, [*([] if within else cr_run), jobs.OPTIONS.open_mpi, *options,
                              "-x", "FAKE_HELD", "-n", str(ranks), *(cr_run if within else []), jobs.OPTIONS.rank,
                              "4000", self.scratch],
                       self.settings(**self.mpi))
        jobs.wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == ranks or
                 job.process.poll() is not None, "the ranks")
        reference, _ = self.save(job)
        self.assertEqual(len(job.status()["daemons"]), daemons)
        job.kill()
        if again is None:
            again = ["--mpirun_opts", " ".join(options)]
        back = jobs.Job(self, [jobs.OPTIONS.bin + "/ompi-restart", *again, reference],
                        self.settings(**self.mpi))
        text = back.end()
        self.check_result(text.replace("\r\n", "\n"), ranks, 4000)
        self.assertEqual(text.count("restarted at step"), ranks, text)

    def test_one_node(self):
        self.run_and_back(3, [], 1)

    def test_three_nodes(self):
        self.run_and_back(4, ["--host", "one:2,two:2"], 3)

    def test_options_are_given_again(self):
        """More ranks than processors, on two nodes, as the job was started."""
        del self.mpi["OMPI_MCA_rmaps_base_oversubscribe"]
        options = ["--oversubscribe", "--host", "one:1,two:1", "--bind-to", "none"]
        self.run_and_back(4, options, 3, again=[])
        reference = next(Path(self.store).iterdir()).name
        for more in ([], ["--fresh-options"]):
            shown = self.tool("ompi-restart", "--showme", *more, reference, **self.mpi).stdout
            self.assertEqual(" ".join(options) in shown, not more)

    def test_one_node_from_within(self):
        self.run_and_back(3, [], 1, within=True)

    def test_settings_of_other_nodes(self):
        names = ["CRYO_DEADLINE", "CRYO_SIGNAL", "CRYO_CPU", "GLIBC_TUNABLES"]
        done = self.tool("cr_run", "--signal", "40", "--cpu=baseline", jobs.OPTIONS.open_mpi,
                         "--host", "one:2,two:2", "-n", "4", "printenv", *names,
                         CRYO_DEADLINE="7", **self.mpi)
        lines = done.stdout.splitlines()
        for value in "7", "40", "baseline":
            self.assertEqual(lines.count(value), 4, done.stdout)
        self.assertEqual(done.stdout.count("glibc.cpu.hwcaps="), 4, done.stdout)


class Refused(jobs.Case):
    def test_who_is_no_job(self):
        said = self.tool("ompi-checkpoint", os.getpid(), code=2).stderr
        self.assertIn("start the job as `cr_run mpirun", said)
        self.assertIn("is this the PID of mpirun", self.tool("ompi-checkpoint", 2**22 + 1,
                                                             code=3).stderr)
        self.assertIn("is no global snapshot", self.tool("ompi-restart", "nothing", code=2).stderr)
        self.tool("ompi-checkpoint", code=255)

    def test_ranks_of_a_launcher_elsewhere(self):
        """They run without Cryo's daemons, and the first on a node says so."""
        for local, times in (0, 1), (1, 0):
            done = self.tool("cr_run", "/bin/echo", "ran", OMPI_COMM_WORLD_RANK="7",
                             OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_RANK=str(local))
            self.assertEqual(done.stdout, "ran\n")
            self.assertEqual(done.stderr.count(
                "the launcher is not on this node: the job cannot be saved; start it as "
                "`cr_run mpirun ...`"), times, done.stderr)

    def test_ranks_that_are_late(self):
        go = Path(self.scratch, "go")
        late = 'until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                              "/bin/sh", "-c", late, str(go), jobs.OPTIONS.rank, "300",
                              self.scratch], self.settings(FAKE_HELD="1"), None)
        done = self.tool("ompi-checkpoint", "--time", "1", job.pid, code=errno.EAGAIN)
        self.assertIn("after 1 s no rank has called MPI_Init yet", done.stderr)
        with subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", str(job.pid)],
                              env=self.settings(), stdout=subprocess.PIPE, text=True) as tool:
            self.assertEqual(json.loads(tool.stdout.readline())["type"], "missing")
            go.touch()
            output, _ = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, output)
        self.check_result(job.end(), 2, 300)

    def test_a_rank_that_does_not_come(self):
        job = self.start(2, 4000)
        self.save(job)
        deaf = job.status()["ranks"][1]
        os.kill(deaf, signal.SIGSTOP)
        done = self.tool("ompi-checkpoint", "--status", "--time", "3", job.pid, code=110)
        self.assertRegex(done.stdout, r"not stopped yet: rank \d: .*\(node ")
        self.assertIn("not all ranks could stop within 3 s", done.stderr)
        os.kill(deaf, signal.SIGCONT)
        self.check_result(job.end(), 2, 4000)
        self.check_store()

    def test_called_off(self):
        job = self.start(2, 4000)
        self.save(job)
        deaf = job.status()["ranks"][0]
        os.kill(deaf, signal.SIGSTOP)
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", str(job.pid)],
                                env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        while json.loads(tool.stdout.readline())["state"] != "pending":
            pass
        self.assertIn("is under way", self.tool("ompi-checkpoint", job.pid, code=16).stderr)
        tool.send_signal(signal.SIGINT)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 125, errors)
        self.assertIn("called off", errors)
        os.kill(deaf, signal.SIGCONT)
        self.check_result(job.end(), 2, 4000)
        self.check_store()

    def test_full_disk(self):
        """A limit on the size of files does what a full disk does, and needs no privilege."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        job = self.start(2, 5000, limit=limit, FAKE_MEGABYTES="16")
        for _ in range(2):
            done = self.tool("ompi-checkpoint", job.pid, code=errno.EFBIG)
            self.assertRegex(done.stderr, r"rank \d on node .*File too large")
            self.check_store()
        self.check_result(job.end(), 2, 5000)

    def test_metadata_that_cannot_be_read(self):
        """They are not taken for none: nothing is removed."""
        job = self.start(2, 5000)
        reference, _ = self.save(job)
        meta = Path(self.store, reference, "global_snapshot_meta.data")
        whole = meta.read_bytes()
        meta.write_bytes(whole[:-10])
        done = self.tool("ompi-checkpoint", job.pid, code=errno.EBADMSG)
        self.assertIn("nothing was removed", done.stderr)
        self.assertIn("choose another --name", done.stderr)
        self.assertIn("cut short", self.tool("ompi-restart", reference, code=errno.EBADMSG).stderr)
        self.assertIn("cut short", self.tool("ompi-checkpoint", "--list").stderr)
        meta.write_bytes(whole)
        self.assertEqual(self.save(job), (reference, 1))
        job.kill()
        self.check_result(self.restart(reference, "-s", "0").end(), 2, 5000)

    def test_name_of_a_foreign_directory(self):
        job = self.start(2, 5000)
        case = [Path(self.store, "case", name, "U") for name in ("0", "100", "200")]
        for file in case:
            file.parent.mkdir(parents=True)
            file.write_text("velocity")
        done = self.tool("ompi-checkpoint", "--name", "case", job.pid, code=errno.ENOTEMPTY)
        self.assertIn("choose another --name", done.stderr)
        self.assertEqual([file.read_text() for file in case], ["velocity"] * 3)
        self.assertEqual(len(list(Path(self.store, "case").iterdir())), 3)
        self.save(job)
        self.check_result(job.end(), 2, 5000)

    def test_strangers(self):
        """Who does not know the secret gets nothing, and does no harm."""
        job = self.start(2, 5000, FAKE_NODES="1")
        port = int(jobs.variable(job, "CRYO_JOB").split(":")[2])
        for said in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096,
                     frame({"nonce": "00", "proof": "00"}), frame({"type": "join"})):
            with socket.create_connection(("127.0.0.1", port), jobs.PATIENCE) as stranger:
                stranger.settimeout(jobs.PATIENCE)
                try:
                    stranger.sendall(said)
                    stranger.shutdown(socket.SHUT_WR)
                    heard = b""
                    while data := stranger.recv(4096):
                        heard += data
                except ConnectionError:
                    continue
                self.assertNotIn(b"proof", heard)
        self.save(job)
        for path in (self.runtime, Path(self.runtime, os.listdir(self.runtime)[0]), self.store):
            if path != self.store:
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)
        self.check_result(job.end(), 2, 5000)


class Deaths(jobs.Case):
    """Whoever dies, the job runs as without Cryo, and the last snapshot stays good."""

    ROUNDS = 100 if SOAK else 1

    def one(self, kill):
        for turn in range(self.ROUNDS):
            if turn > 0: # what the last one has left is not in its way
                self.doCleanups()
                jobs.Case.setUp(self)
            self.once(kill)

    def once(self, kill):
        """A snapshot; then `kill` at a random moment of the next checkpoint."""
        job = self.start(3, 4000, FAKE_NODES="2", FAKE_MEGABYTES="8")
        reference, _ = self.save(job)
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json",
                                 str(job.pid)], env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        time.sleep(self.random.random() * 0.15)
        survives = kill(job, tool)
        output, errors = tool.communicate(timeout=jobs.PATIENCE)
        committed = [json.loads(line) for line in output.splitlines() if '"end"' in line]
        if survives:
            self.check_result(job.end(), 3, 4000)
        else:
            job.end(None)
            job.kill()
        jobs.wait_for(lambda: not job.status()["daemons"], "the end of the daemons")
        listed = json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)
        self.assertEqual(listed[0]["seq"], 0)
        if tool.returncode == 0:
            self.assertEqual(listed[-1]["seq"], committed[0]["seq"], errors)
        text = self.restart(reference).end()
        self.check_result(text, 3, 4000)

    def test_rank(self):
        def kill(job, _):
            os.kill(self.random.choice(job.status()["ranks"]), signal.SIGKILL)
            return False
        self.one(kill)

    def test_node_daemon(self):
        def kill(job, _):
            daemons = [pid for pid in job.status()["daemons"]
                       if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(self.random.choice(daemons), signal.SIGKILL)
            return True
        self.one(kill)

    def test_first_daemon(self):
        def kill(job, _):
            first = [pid for pid in job.status()["daemons"]
                     if b"--root" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(first[0], signal.SIGKILL)
            return True
        self.one(kill)

    def test_command(self):
        def kill(_, tool):
            tool.kill()
            return True
        self.one(kill)

    def test_launcher(self):
        def kill(job, _):
            os.kill(job.pid, signal.SIGKILL)
            for rank in job.status()["ranks"]:
                os.kill(rank, signal.SIGKILL)
            return False
        self.one(kill)


class Restarts(jobs.Case):
    """Whoever of a restart is killed, or stopped for a while: the snapshot is whole, and comes back."""

    STEPS = 4000
    ROUNDS = 100 if SOAK else 5
    STOPPED = 30 if SOAK else 3

    def setUp(self):
        super().setUp()
        job = self.start(3, self.STEPS, FAKE_NODES="2", FAKE_MEGABYTES="8")
        self.reference, _ = self.save(job)
        job.kill()

    def disturbed(self, number):
        """A restart of which anybody gets a signal at a random moment."""
        again = self.restart(self.reference)
        Path(self.scratch, "end").touch()
        time.sleep(self.random.random() * 0.5)
        victim = self.random.choice(again.everything())
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, number)
        return again, victim

    def test_killed(self):
        for _ in range(self.ROUNDS):
            again, _ = self.disturbed(signal.SIGKILL)
            if again.process.wait(jobs.PATIENCE) == 0:
                self.check_result(again.text(), 3, self.STEPS)
            again.kill()
            jobs.wait_for(lambda job=again: not job.status()["daemons"], "the end of the daemons")
            self.check_store()
        self.check_result(self.restart(self.reference).end(), 3, self.STEPS)

    def test_stopped(self):
        for _ in range(self.ROUNDS):
            again, victim = self.disturbed(signal.SIGSTOP)
            # Time is what this is about, and nothing tells that nothing happens.
            time.sleep(self.STOPPED)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
            self.check_result(again.end(), 3, self.STEPS)


if __name__ == "__main__":
    jobs.main("open-mpi")
