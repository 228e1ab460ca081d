#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the daemons of a job of fake ranks: by strangers who reach its port, and by members of the
job that do not keep to what members do.

    test_channel.py --bin DIRECTORY --rank FAKE_RANK --member FALSE_MEMBER [unittest arguments]
"""
import contextlib
import errno
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import time
import unittest
from pathlib import Path

import jobs

HEADER = struct.Struct("<IBxxx")
WELCOME = 2
JSON = 7
STEPS = 1_000_000 # longer than any test
LATE = 2 # seconds: not before does a daemon do without ranks (coord/other_nodes.cpp)


def frame(message, kind=JSON):
    body = json.dumps(message).encode()
    return HEADER.pack(len(body), kind) + body


def listeners(pid):
    """Addresses at which a process listens on the network, as /proc/net has them."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError): # a command's connection, which it closes
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd)):
                inodes.add(found[1])
    addresses = []
    for table in "tcp", "tcp6":
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                addresses.append(words[1].split(":")[0])
    return addresses


class Strangers(jobs.Case):
    """Those who do not know the job's secret."""

    def port_of(self, job):
        return int(jobs.variable(job, "CRYO_JOB").split(":")[2])

    def connect(self, job):
        stranger = socket.create_connection(("127.0.0.1", self.port_of(job)), jobs.PATIENCE)
        stranger.settimeout(jobs.PATIENCE)
        self.addCleanup(stranger.close)
        return stranger

    def until_closed(self, stranger):
        heard = b""
        try:
            while data := stranger.recv(65536):
                heard += data
        except ConnectionError:
            pass
        return heard

    def first_daemon(self, job):
        return next(pid for pid in job.status()["daemons"]
                    if b"--root" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def test_other_keys(self):
        """Whoever has another key than the name he gives himself gets no further."""
        job = self.start(1, STEPS, FAKE_NODES="1")
        for words in (["join/a", "join/b"], ["join/a", "nothing"], ["child/1/1"], ["join/"],
                      ["join/../a"], ["join/a\nb"], ["x" * 600]):
            member = subprocess.run([jobs.OPTIONS.member, *words], text=True, timeout=jobs.PATIENCE,
                                    env=self.settings(CRYO_JOB=jobs.variable(job, "CRYO_JOB")),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
            self.assertEqual(member.stdout, "ended\n", words)
        secret = jobs.variable(job, "CRYO_JOB").split(":")
        secret[1] = "0" * len(secret[1])
        member = subprocess.run([jobs.OPTIONS.member], text=True, timeout=jobs.PATIENCE,
                                env=self.settings(CRYO_JOB=":".join(secret)), check=False,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual(member.stdout, "ended\n")
        self.save(job)
        job.kill()

    def test_a_recorded_session(self):
        """Byte for byte what a member has said does nothing a second time."""
        job = self.start(1, STEPS, FAKE_NODES="1")
        middle = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(middle.close)
        words = jobs.variable(job, "CRYO_JOB").split(":")
        words[2] = str(middle.getsockname()[1])
        real = self.connect(job)
        settings = self.settings(CRYO_JOB=":".join(words))
        with subprocess.Popen([jobs.OPTIONS.member], env=settings, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as member:
            near, _ = middle.accept()
            recorded = []
            member.stdin.write(json.dumps({"type": "join", "addresses": [], "port": 1}) + "\n")
            member.stdin.flush()
            said = ""
            while "joined" not in said:
                readable, _, _ = select.select([near, real, member.stdout], [], [], jobs.PATIENCE)
                self.assertTrue(readable, said)
                if near in readable:
                    recorded.append(near.recv(65536))
                    real.sendall(recorded[-1])
                if real in readable:
                    near.sendall(real.recv(65536))
                if member.stdout in readable: # not by readline(), which may take more, and keep it
                    said += os.read(member.stdout.fileno(), 65536).decode()
            near.close()
            member.kill()
        real.close()
        self.assertNotIn(b"addresses", b"".join(recorded))
        again = self.connect(job)
        for part in recorded:
            try:
                again.sendall(part)
            except ConnectionError:
                break
        jobs.wait_for(lambda: not self.is_open(again), "the refusal")
        self.save(job)
        job.kill()

    def is_open(self, connection):
        try:
            while connection.recv(65536, socket.MSG_DONTWAIT):
                pass
            return False
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def test_flood(self):
        """Few strangers at a time, not for long; and they keep nobody out who belongs to the job."""
        def few():
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        job = self.start(1, STEPS, limit=few, FAKE_NODES="1")
        daemon = self.first_daemon(job)
        before = len(os.listdir(f"/proc/{daemon}/fd"))
        begun = time.monotonic()
        alone = self.connect(job)
        jobs.wait_for(lambda: not self.is_open(alone), "the end of one who says nothing")
        self.assertGreater(time.monotonic() - begun, 2)
        begun = time.monotonic()
        flood = [self.connect(job) for _ in range(400)]
        member = Member(self, job)
        jobs.wait_for(lambda: sum(map(self.is_open, flood)) <= 16, "the end of most of them")
        self.assertLessEqual(len(os.listdir(f"/proc/{daemon}/fd")), before + 20)
        member.end()
        self.save(job)
        jobs.wait_for(lambda: not any(map(self.is_open, flood)), "the end of all of them")
        self.assertLess(time.monotonic() - begun, jobs.PATIENCE)
        soft, hard = re.search(r"Max open files +(\d+) +(\d+)",
                               Path(f"/proc/{daemon}/limits").read_text()).groups()
        self.assertNotEqual("256", hard)
        self.assertEqual(soft, hard)
        job.kill()

    def test_who_listens(self):
        """One node: nobody on the network. Several: at one address."""
        settings = self.settings()
        del settings["CRYO_LISTEN"]
        for nodes in "0", "2":
            self.see_who_listens(dict(settings, FAKE_NODES=nodes), nodes)

    def see_who_listens(self, settings, nodes):
        """Where ranks of one node come so late, on a busy machine, that the daemon has to take them to be
        elsewhere, it may listen."""
        for old in Path(self.scratch).glob("started.*"):
            old.unlink()
        begun = time.monotonic()
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                              jobs.OPTIONS.rank, str(STEPS), self.scratch], settings)
        jobs.wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == 2, "the ranks")
        self.save(job)
        is_late = time.monotonic() - begun > LATE # now all ranks have greeted
        daemons = job.status()["daemons"]
        self.assertEqual(len(daemons), 1 if nodes == "0" else 3)
        at = [listeners(daemon) for daemon in daemons]
        self.assertNotIn("alone", job.text())
        job.kill()
        expected = {1} if nodes != "0" else {0, 1} if is_late else {0}
        for addresses in at:
            self.assertIn(len(addresses), expected, addresses)
            self.assertNotIn(set(addresses), ({"00000000"}, {"0" * 32}))

    @unittest.skipUnless(os.geteuid() == 0, "it takes root to have a network of one's own")
    def test_at_which_address(self):
        """Of a machine with two: the one that its name leads to, the launcher uses, or that leads out;
        if none does, one that is up."""
        inner, outer = "10.1.2.3", "198.51.100.5"
        network = "ip link set lo up && ip link add inner type veth peer name outer && "
        for name, address in (("inner", inner), ("outer", outer)):
            network += f"ip address add {address}/24 dev {name} && ip link set {name} up && "
        network += ("hostname nodex && ip $ROUTE && "
                    "mount --bind hosts /etc/hosts && exec \"$@\"")
        settings = self.settings(FAKE_NODES="2")
        del settings["CRYO_LISTEN"]
        out = {"ROUTE": "route add default dev outer"}
        for hosts, more, expected in (
                (f"{inner} nodex\n", out, inner), ("", out, outer),
                ("", {**out, "OMPI_MCA_oob_tcp_if_include": "inner"}, inner),
                ("", {**out, "OMPI_MCA_btl_tcp_if_include": "10.1.2.0/24"}, inner),
                ("127.0.1.1 nodex\n", {"ROUTE": "link set outer down"}, inner)):
            for old in Path(self.scratch).glob("started.*"):
                old.unlink()
            Path(self.scratch, "hosts").write_text("127.0.0.1 localhost\n" + hosts, encoding="ascii")
            job = jobs.Job(self, ["unshare", "--net", "--uts", "--mount", "sh", "-c", network, "sh",
                                  jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                                  jobs.OPTIONS.rank, str(STEPS), self.scratch], {**settings, **more})
            jobs.wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == 2, "the ranks")
            self.save(job)
            at = {address for daemon in job.status()["daemons"] for address in listeners(daemon)}
            self.assertEqual({socket.inet_aton(expected)[::-1].hex().upper()}, at)
            job.kill()

    def test_address_of_another_node(self):
        """A launcher has passed CRYO_LISTEN on: the daemon there listens at one of its own."""
        job = self.start(2, STEPS, FAKE_NODES="2", FAKE_LISTEN="192.0.2.77")
        self.save(job)
        self.assertEqual(3, len(job.status()["daemons"]))
        job.kill()

    @unittest.skipUnless(os.geteuid() == 0, "it takes root to have a /run of one's own")
    def test_end_of_the_login(self):
        """The directory that the system has made for a login is removed: the job can be saved."""
        login = "/run/user/0"
        settings = self.settings(XDG_RUNTIME_DIR=login)
        del settings["CRYO_RUNTIME_DIR"]
        job = jobs.Job(self, ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && "
                              f"mkdir -p -m 700 {login} && exec \"$@\"", "sh",
                              jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "2",
                              jobs.OPTIONS.rank, str(STEPS), self.scratch], settings)
        jobs.wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == 2, "the ranks")
        subprocess.run(["nsenter", "--target", str(job.pid), "--mount", "rm", "-r", login],
                       check=True)
        self.save(job)
        job.kill()


class Others(jobs.Case):
    """Another user of the node, who has got a socket of his to where one of ours should be. Needs root."""

    def setUp(self):
        super().setUp()
        self.job = f"{os.getpid()}-squat"
        os.chmod(self.scratch, 0o755)
        os.makedirs(Path(self.runtime, self.job))
        os.chmod(Path(self.runtime, self.job), 0o777)

    def squat(self, name):
        """Takes every connection, and tells it that it is welcome."""
        ready, says_ready = os.pipe()
        other = os.fork()
        if other == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(Path(self.runtime, self.job, name)))
            listener.listen()
            os.write(says_ready, b"x")
            kept = []
            while True:
                kept.append(listener.accept()[0])
                kept[-1].sendall(HEADER.pack(4, WELCOME) + (10000).to_bytes(4, "little"))
        self.addCleanup(os.waitpid, other, 0)
        self.addCleanup(os.kill, other, signal.SIGKILL)
        self.assertEqual(os.read(ready, 1), b"x")
        os.close(ready)
        os.close(says_ready)

    def variables(self):
        return self.settings(CRYO_JOB=f"{self.job}:{'0' * 64}:1:127.0.0.1", CRYO_NODE="here",
                             CRYO_DAEMON="/bin/false", OMPI_COMM_WORLD_RANK="0",
                             OMPI_COMM_WORLD_SIZE="1")

    def test_ranks(self):
        self.squat("here")
        done = subprocess.run([jobs.OPTIONS.rank, "1", self.scratch], env=self.variables(),
                              text=True, capture_output=True, timeout=jobs.PATIENCE, check=True)
        self.assertIn("rank 0: alone: ", done.stdout)

    def test_commands(self):
        self.squat(".root")
        with subprocess.Popen(["sleep", "60"], env=self.variables()) as launcher:
            self.addCleanup(launcher.kill)
            said = self.tool("ompi-checkpoint", launcher.pid, code=errno.EACCES).stderr
            self.assertIn("somebody else listens there", said)
            launcher.kill()


class Member:
    """A daemon of a job, of whom the test says what it says."""

    def __init__(self, case, job, join=True, node="elsewhere"):
        settings = case.settings(CRYO_JOB=jobs.variable(job, "CRYO_JOB"))
        case.addCleanup(self.end)
        for _ in range(50): # as daemons do, which strangers may displace
            self.process = subprocess.Popen([jobs.OPTIONS.member, f"join/{node}"], env=settings,
                                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            heard = self.hear()
            if heard == "proven":
                break
            self.end()
        case.assertEqual(heard, "proven")
        if join:
            self.say(type="join", addresses=["127.0.0.1"], port=9)
            case.assertEqual(json.loads(self.hear())["type"], "joined")

    def say(self, **message):
        self.line(json.dumps(message))

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().rstrip("\n")

    def until(self, kind):
        while (heard := self.hear()) != "ended":
            message = json.loads(heard)
            if message["type"] == kind:
                return message
        raise ConnectionResetError

    def until_ended(self):
        while self.hear() not in ("ended", ""):
            pass

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Members(jobs.Case):
    """Those who know the secret, and do not keep to what members do: only they lose by it."""

    def test_what_is_no_message(self):
        job = self.start(1, STEPS, FAKE_NODES="1")
        self.save(job)
        for first in True, False:
            for line in ('{"type":7}', "[]", "7", "", "{", '{"type":"rank"}', '{"type":"place"}',
                         '{"type":"rank","rank":-1,"ranks":1,"pid":1,"space":""}',
                         '{"type":"rank","rank":"0","ranks":1,"pid":1,"space":""}',
                         '{"type":"rank","rank":0.5,"ranks":1,"pid":1,"space":""}',
                         '{"type":"rank","rank":0,"ranks":1e30,"pid":1,"space":""}',
                         '{"type":"rank","rank":0,"ranks":1,"pid":1,"space":"a\\u0000b"}',
                         '{"type":"unplaced","error":7}', '{"type":"placed","generation":[]}',
                         '{"type":"join","node":"x","addresses":[],"port":1}',
                         '{"type":"join","addresses":[7],"port":1}',
                         '{"type":"join","addresses":[],"port":70000}',
                         '{"type":"cut","checkpoint":1,"rank":0,"more":1}', "[" * 60000):
                member = Member(self, job, join=first)
                member.line(line)
                member.until_ended()
                member.end()
        self.save(job)
        job.kill()

    def test_ranks_of_others(self):
        """A daemon cannot have a rank that another one has, nor speak for it."""
        job = self.start(2, STEPS, FAKE_NODES="1")
        self.save(job)
        member = Member(self, job)
        member.say(type="rank", rank=0, ranks=2, pid=os.getpid(), space=f"fake-{job.pid}")
        self.assertIn("both have rank 0", member.until("rank_refused")["error"])
        member.say(type="rank_gone", rank=0) # is not believed
        outside = Path(self.scratch, "outside")
        outside.write_text("image")
        tool = self.checkpoint(job)
        number = member.until("prepare")["checkpoint"]
        member.say(type="prepared", checkpoint=number)
        member.say(type="image", checkpoint=number, rank=0, pid=1, node="x", bytes=5,
                   file="../" * 20 + str(outside))
        self.assertRaises(ConnectionResetError, member.until, "nothing")
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors)
        for kind in "cut", "image": # of a rank that another daemon has
            member = Member(self, job)
            tool = self.checkpoint(job)
            number = member.until("prepare")["checkpoint"]
            member.say(type="prepared", checkpoint=number)
            member.say(type=kind, checkpoint=number, rank=1)
            self.assertRaises(ConnectionResetError, member.until, "nothing")
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
            self.assertEqual(tool.returncode, 0, errors)
        reference, _ = self.save(job)
        meta = Path(self.store, reference, "global_snapshot_meta.data").read_text()
        self.assertNotIn("outside", meta)
        self.assertNotIn("# Cryo Node: x", meta)
        job.kill()

    def test_silent_members(self):
        """A daemon that says nothing holds nobody up for longer than it may, and is named."""
        job = self.start(2, STEPS, FAKE_NODES="2", CRYO_DEADLINE="3")
        self.save(job)
        daemon = next(pid for pid in job.status()["daemons"]
                      if b"CRYO_NODE=node1" in Path(f"/proc/{pid}/environ").read_bytes())
        os.kill(daemon, signal.SIGSTOP)
        done = self.tool("ompi-checkpoint", job.pid, code=errno.ETIMEDOUT)
        self.assertIn("node node1: its daemon has said nothing for 3 s", done.stderr)
        os.kill(daemon, signal.SIGCONT)
        self.save(job)
        # While ranks stand still, or are on their way to it.
        deaf = next(pid for pid in job.status()["ranks"]
                    if b"CRYO_NODE=node0" in Path(f"/proc/{pid}/environ").read_bytes())
        os.kill(deaf, signal.SIGSTOP)
        with subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", str(job.pid)],
                              env=self.settings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as tool:
            while json.loads(tool.stdout.readline()).get("state") != "pending":
                pass
            os.kill(daemon, signal.SIGSTOP)
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertIn("node node1: its daemon has said nothing for 3 s", errors)
        os.kill(daemon, signal.SIGCONT)
        os.kill(deaf, signal.SIGCONT)
        self.save(job)
        job.kill()
        self.check_store()

    def checkpoint(self, job):
        return subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", str(job.pid)],
                                env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


class Ranks(jobs.Case):
    """What connects to a node's socket, and says that it is a rank."""

    HELLO, REFUSED, BOOKMARK, IMAGE = 1, 3, 4, 5

    def call(self, job, words):
        """All that is said to whoever says this, until the connection ends."""
        directory = next(path for path in Path(self.runtime).iterdir()
                         if path.name.startswith(f"{job.pid}-"))
        node = next(path for path in directory.iterdir()
                    if path.is_socket() and path.name != ".root")
        heard = b""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(jobs.PATIENCE)
            one.connect(str(node))
            try:
                one.sendall(words)
                while more := one.recv(65536):
                    heard += more
            except ConnectionError:
                pass
        return heard

    def hello(self, rank, ranks, version=2, space=b""):
        body = struct.pack("<IIIi", version, rank, ranks, os.getpid()) + space
        return HEADER.pack(len(body), self.HELLO) + body

    def test_false_ones(self):
        job = self.start(2, STEPS)
        self.save(job)
        for words, why in ((self.hello(0, 2), b"rank 0 is there already"),
                           (self.hello(2, 2), b"there is no rank 2 of 2"),
                           (self.hello(0, 0), b"there is no rank 0 of 0"),
                           (self.hello(2, 1 << 31), b"there is no rank"),
                           (self.hello(2, 3, version=1), b"another version"),
                           (self.hello(2, 3, space=b"\x1b]0;"), b"is no text")):
            heard = self.call(job, words)
            self.assertEqual(self.REFUSED, HEADER.unpack_from(heard)[1])
            self.assertIn(why, heard)
        for words in (HEADER.pack(3, self.HELLO) + b"abc", HEADER.pack(4, self.BOOKMARK) + b"abcd",
                      HEADER.pack(0, self.IMAGE), HEADER.pack(1 << 31, self.HELLO), b"\xff" * 100,
                      frame({"type": "cancel"})):
            self.call(job, words)
        self.save(job)
        self.assertEqual(2, len(job.status()["ranks"]))
        job.kill()


if __name__ == "__main__":
    jobs.main("member")
