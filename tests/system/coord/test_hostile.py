#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks among names that are no plain text, and beside the directories of other jobs.

    test_hostile.py --bin DIRECTORY --rank FAKE_RANK --member FALSE_MEMBER [unittest arguments]
"""
import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest
from pathlib import Path

import jobs
import test_channel
from jobs import processes

STEPS = 1_000_000 # longer than any test


class Hostile(jobs.Case):
    # Sets a terminal's title, begins a line, and turns it around.
    HOSTILE = "\033]0;mine\a\r\nall is well: \u202e"

    def assert_plain(self, text):
        self.assertFalse([character for character in text if character in "\u202e\x7f" or
                          (character < " " and character != "\n")], text)
        self.assertNotIn("\nall is well", text)

    def test_hostile_names(self):
        """Whatever a job, its directory and its snapshots are called, is plain text on a terminal."""
        self.scratch = os.path.join(self.scratch, self.HOSTILE)
        self.store = os.path.join(self.scratch, "snapshots")
        os.mkdir(self.scratch)
        job = self.start(2, 100000)
        done = self.tool("ompi-checkpoint", "-v", "--name", f"case{self.HOSTILE}", job.pid)
        self.assert_plain(done.stdout + done.stderr)
        self.assertIn("\\x1b]0;mine", done.stdout)
        for name, *words in (("ompi-checkpoint", "--json", job.pid),
                             ("ompi-checkpoint", "--list"),
                             ("ompi-checkpoint", "--list", "--json"),
                             ("ompi-checkpoint", "--name", f"sub/{self.HOSTILE}", job.pid),
                             ("ompi-restart", "--info", f"case{self.HOSTILE}"),
                             ("ompi-restart", "--info", "--json", f"case{self.HOSTILE}"),
                             ("ompi-restart", f"absent{self.HOSTILE}")):
            with self.subTest(name=name, words=words):
                done = self.tool(name, *words, code=None)
                self.assert_plain(done.stdout + done.stderr)
        job.kill()

    def listen(self, name):
        """Outside of the job: what is connected to it cannot be saved."""
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(name)
        listener.listen()
        return listener

    def refused(self, job, name):
        done = self.tool("ompi-checkpoint", job.pid, code=None)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"rank \d on node (?s:.*)descriptor \d+: a socket, UNIX")
        self.assertIn(name, done.stderr)

    def test_refusal_that_is_not_utf8(self):
        """What takes an image reports it, and ends; nothing of the job goes with it."""
        path = os.path.join(self.scratch, os.fsdecode(b"caf\xe9"))
        listener = self.listen(path)
        job = self.start(1, STEPS, FAKE_CONNECT=path)
        self.addCleanup(listener.accept()[0].close)
        for _ in range(2):
            self.refused(job, "/caf\\xe9")
            self.assertEqual(len(list(Path(self.runtime).glob(f"{job.pid}-*/.root"))), 1)
            self.assertEqual(len(job.status()["daemons"]), 1)
        job.kill()

    def test_refusal_with_nuls(self):
        """It costs no node its daemon: without the cause the job can be saved."""
        name = f"@cryo-{os.getpid()}"
        listener = self.listen(b"\0" + name[1:].encode().ljust(107, b"\0"))
        job = self.start(2, STEPS, FAKE_NODES="2", FAKE_CONNECT=name)
        connections = [listener.accept()[0] for _ in range(2)]
        for _ in range(2):
            self.refused(job, name + "\\x00")
        for connection in connections: # then it is saved as one that has ended
            connection.close()
        self.save(job)
        job.kill()

    def test_directory_that_is_not_utf8(self):
        """It is refused by its name, and no other one is made in its place."""
        job = self.start(1, STEPS)
        before = set(os.listdir(self.scratch))
        where = os.path.join(self.scratch, os.fsdecode(b"caf\xe9"))
        done = self.tool("ompi-checkpoint", "--where", where, job.pid, code=errno.EILSEQ)
        self.assertIn("/caf\\xe9: is not UTF-8; choose another --where directory", done.stderr)
        self.assertEqual(set(os.listdir(self.scratch)), before)
        done = self.tool("ompi-checkpoint", "--name", os.fsdecode(b"caf\xe9"), job.pid,
                         code=errno.EILSEQ)
        self.assertIn("caf\\xe9: is not UTF-8", done.stderr)
        self.save(job)
        job.kill()


class Lists(jobs.Case):
    def test_link_without_an_end(self):
        """In a directory where everybody may make some: the others are listed."""
        os.mkdir(self.store)
        job = self.start(1, STEPS)
        self.save(job, "--name", "mine.ckpt")
        job.kill()
        Path(self.store, "loop.ckpt").symlink_to("loop.ckpt")
        self.assertIn("mine.ckpt", self.tool("ompi-checkpoint", "--list").stdout)


class Directories(jobs.Case):
    """Where jobs of one user have their sockets; each new job removes what is left of others."""

    def test_of_a_launcher_elsewhere(self):
        """From here it looks dead, and its first daemon is not there: the node's daemon counts."""
        job = self.start(2, STEPS, FAKE_NODES="2")
        daemons = job.status()["daemons"]
        daemon = next(pid for pid in daemons
                      if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(daemon, signal.SIGSTOP) # else it ends with the first one
        jobs.wait_for(lambda: processes.state(daemon) == "T", "the stop")
        others = [pid for pid in job.everything() if pid != daemon]
        # The first daemon would remove the directory, if it saw the launcher's end.
        for pid in sorted(others, key=lambda pid: pid not in daemons):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.process.wait()
        jobs.wait_for(lambda: not any(map(jobs.is_alive, others)), "the end of the others")
        (directory,) = Path(self.runtime).iterdir()
        held = os.open(directory, os.O_RDONLY)
        self.addCleanup(os.close, held)
        with self.assertRaises(BlockingIOError):  # so systemd-tmpfiles leaves it alone
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.tool("cr_run", "--mpi", "true")
        self.assertTrue(directory.exists())
        os.kill(daemon, signal.SIGKILL)
        jobs.wait_for(lambda: not jobs.is_alive(daemon), "the end of the daemon")
        self.tool("cr_run", "--mpi", "true")
        self.assertFalse(directory.exists())


class Elsewhere(jobs.Case):
    """Where snapshots go, as another user of one of the nodes would like to have it."""

    # The node's own file system at $0, with what others have made in it.
    APART = """[ "$CRYO_NODE" = node1 ] || exec "$@"
        mount -t tmpfs none "$0" && cd "$0" && mkdir -p fifo/.0.tmp link/.0.tmp &&
        mkfifo -m 666 fifo/.0.tmp/token && ln -s /dev/zero link/.0.tmp/token && exec "$@"
    """

    @unittest.skipUnless(os.geteuid() == 0, "it takes root to have a file system of one's own")
    def test_token_that_another_user_has_made(self):
        """It is a directory that this node does not see, and the daemon goes on."""
        os.mkdir(self.store)
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                              "unshare", "--mount", "sh", "-c", self.APART, self.store,
                              jobs.OPTIONS.rank, str(STEPS), self.scratch],
                       self.settings(FAKE_NODES="2"))
        for name in "fifo", "link":
            done = self.tool("ompi-checkpoint", "--name", name, job.pid, code=errno.ENOENT)
            self.assertIn("node node1 does not see", done.stderr)
        self.store = os.path.join(self.scratch, "shared")
        self.save(job, "--where", self.store)
        job.kill()
        self.check_store()

    def test_link_that_leads_elsewhere_later(self):
        """Images go to where the daemon has seen the first one's token."""
        trap = Path(self.scratch, "trap")
        (trap / "case" / ".0.tmp").mkdir(parents=True)
        os.mkdir(self.store)
        link = Path(self.scratch, "link")
        link.symlink_to(self.store)
        job = self.start(2, STEPS, FAKE_NODES="2")
        self.save(job)
        deaf = job.status()["ranks"][0]
        os.kill(deaf, signal.SIGSTOP)
        with subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", "--where", link,
                               "--name", "case", str(job.pid)], env=self.settings(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
            while json.loads(tool.stdout.readline()).get("state") != "pending":
                pass
            link.unlink()
            link.symlink_to(trap)
            os.kill(deaf, signal.SIGCONT)
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors)
        self.assertEqual(list((trap / "case" / ".0.tmp").iterdir()), [])
        self.assertEqual(len(list(Path(self.store, "case", "0").glob("opal_*/cryo_context.*"))), 2)
        job.kill()


class Claims(jobs.Case):
    """Ranks that are said to be there, and are none of the job's: they end no honest daemon."""

    LATE = 'until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'

    LEFT = 10

    def of_node(self, job, node, rank, ranks, more=b""):
        """What such a one on a node hears until its connection ends."""
        (directory,) = Path(self.runtime).glob(f"{job.pid}-*")
        body = struct.pack("<IIIi", 2, rank, ranks, os.getpid()) + f"fake-{job.pid}".encode()
        heard = b""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(jobs.PATIENCE)
            one.connect(str(directory / node))
            one.sendall(test_channel.HEADER.pack(len(body), test_channel.Ranks.HELLO) + body + more)
            with contextlib.suppress(ConnectionError):
                while data := one.recv(65536):
                    heard += data
        return heard

    def test_after_all_ranks(self):
        job = self.start(2, STEPS, FAKE_NODES="2")
        self.save(job)
        daemons = sorted(job.status()["daemons"])
        for node, rank, ranks, why in (
                ("node1", 0, 2, b"nodes node0 and node1 both have rank 0"),
                ("node1", 2, 3, b"node node1 has rank 2 of 3, where there are 2")):
            self.assertIn(why, self.of_node(job, node, rank, ranks))
            self.save(job)
        self.assertEqual(daemons, sorted(job.status()["daemons"]))
        job.kill()

    def test_on_the_first_node(self):
        """Where what refuses it is called by what has passed it on."""
        job = self.start(2, STEPS)
        self.save(job)
        daemons = job.status()["daemons"]
        (directory,) = Path(self.runtime).glob(f"{job.pid}-*")
        (node,) = [path.name for path in directory.iterdir()
                   if path.is_socket() and path.name != ".root"]
        self.assertIn(f"node {node} has rank 2 of 3, where there are 2".encode(),
                      self.of_node(job, node, 2, 3))
        # Were the false one the first, the others would not be in it.
        self.assertIn(f"not in the snapshot: node {node} has rank 2 of 3, where there are 2",
                      self.tool("ompi-checkpoint", job.pid).stderr)
        self.assertEqual(daemons, job.status()["daemons"])
        job.kill()

    def test_in_a_checkpoint(self):
        """Nor does one that says at once that it has left the checkpoint under way."""
        job = self.start(2, STEPS, FAKE_NODES="2")
        self.save(job)
        status = job.status()
        for rank in status["ranks"]:
            os.kill(rank, signal.SIGSTOP)
        with subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", str(job.pid)],
                              env=self.settings(), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as tool:
            # That node's daemon answers in the place of its rank: so it has the request.
            while json.loads(tool.stdout.readline()).get("rank") != 1:
                pass
            left = b"".join(test_channel.HEADER.pack(4, self.LEFT) + struct.pack("<I", epoch)
                            for epoch in range(1, 4))
            self.assertIn(b"node node1 has rank 2 of 3, where there are 2",
                          self.of_node(job, "node1", 2, 3, left))
            for rank in status["ranks"]:
                os.kill(rank, signal.SIGCONT)
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors)
        self.assertEqual(sorted(status["daemons"]), sorted(job.status()["daemons"]))
        job.kill()

    def test_before_all_ranks(self):
        """Nobody knows which is the right one: checkpoints fail, by name."""
        for rank, ranks, why in ((0, 2, "nodes elsewhere and node0 both have rank 0"),
                                 (2, 3, r"node node0 has rank \d of 2, where there are 3")):
            go = Path(self.scratch, f"go.{rank}")
            job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                                  "/bin/sh", "-c", self.LATE, str(go), jobs.OPTIONS.rank,
                                  str(STEPS), self.scratch], self.settings(FAKE_NODES="1"), None)
            jobs.wait_for(lambda at=job: self.variables_of(at), "the launcher")
            member = test_channel.Member(self, job)
            member.say(type="rank", rank=rank, ranks=ranks, pid=os.getpid(),
                       space=f"fake-{job.pid}")
            others = ", ".join(str(one) for one in range(ranks) if one != rank)
            jobs.wait_for(lambda at=job, text=f"rank {others} has not called": text in self.tool(
                "ompi-checkpoint", "--time", "1", at.pid, code=errno.EAGAIN).stderr, "the first")
            go.touch()
            done = self.tool("ompi-checkpoint", job.pid, code=errno.ESRCH)
            self.assertRegex(done.stderr, why)
            member.end()
            job.kill()

    def test_name_of_another_node(self):
        """What is said of it tells the two apart, which may as well be hosts of one name."""
        job = self.start(1, STEPS, FAKE_NODES="1")
        self.save(job)
        long = "x" * 240
        members = []
        for node, name in (("elsewhere", "elsewhere"), ("elsewhere", r"elsewhere/\d+"),
                           (long, long), (long, "x" * 200 + r"/\d+")): # commands take 256 bytes
            member = test_channel.Member(self, job, node=node)
            members.append(member)
            member.say(type="rank", rank=0, ranks=1, pid=os.getpid(), space=f"fake-{job.pid}")
            self.assertRegex(member.until("rank_refused")["error"],
                             rf"^nodes node0 and {name} both have rank 0$")
        for member in members: # which a checkpoint would wait for
            member.end()
        self.save(job)
        job.kill()

    def test_refusal_behind_the_welcome(self):
        """Of the first daemon, which has not taken what the node's one has greeted: the rank says why."""
        job = f"{os.getpid()}-false"
        os.makedirs(Path(self.runtime, job), 0o700)
        settings = self.settings(CRYO_JOB=f"{job}:{'0' * 64}:1:127.0.0.1", CRYO_NODE="here",
                                 CRYO_DAEMON="/bin/false", OMPI_COMM_WORLD_RANK="0",
                                 OMPI_COMM_WORLD_SIZE="1")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.settimeout(jobs.PATIENCE)
            listener.bind(str(Path(self.runtime, job, "here")))
            listener.listen()
            with subprocess.Popen([jobs.OPTIONS.rank, "1", self.scratch], env=settings, text=True,
                                  stdout=subprocess.PIPE) as rank:
                self.addCleanup(rank.kill)
                with listener.accept()[0] as one:
                    one.sendall(test_channel.HEADER.pack(4, test_channel.WELCOME) + (10000).to_bytes(4, "little") +
                                test_channel.HEADER.pack(3, test_channel.Ranks.REFUSED) + b"why")
                    output, _ = rank.communicate(timeout=jobs.PATIENCE)
        self.assertIn("rank 0: alone: why\n", output)

    @staticmethod
    def variables_of(job):
        return b"CRYO_JOB=" in Path(f"/proc/{job.pid}/environ").read_bytes()


class Crowd(jobs.Case):
    def test_more_connections_than_descriptors(self):
        """A daemon that cannot take them has its processor for other things."""
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        job = self.start(1, STEPS, limit=few)
        self.save(job)
        (daemon,) = job.status()["daemons"]
        (directory,) = Path(self.runtime).glob(f"{job.pid}-*")
        (node,) = [path for path in directory.iterdir() if path.is_socket() and path.name != ".root"]
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for one in crowd:
            self.addCleanup(one.close)
            one.connect(str(node))
        jobs.wait_for(lambda: len(os.listdir(f"/proc/{daemon}/fd")) == 64, "the last descriptor")
        before = self.ticks(daemon)
        time.sleep(2) # time is what this is about
        self.assertLess(self.ticks(daemon) - before, os.sysconf("SC_CLK_TCK") / 2)
        for one in crowd:
            one.close()
        jobs.wait_for(lambda: len(os.listdir(f"/proc/{daemon}/fd")) < 32, "the end of the crowd")
        self.save(job)
        job.kill()

    @staticmethod
    def ticks(pid):
        """Of the processor."""
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    jobs.main("member")
