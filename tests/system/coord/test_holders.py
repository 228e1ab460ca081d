#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks and nodes of a job that would keep the others from going on, or a checkpoint from its end.

    test_holders.py --bin DIRECTORY --rank FAKE_RANK --member FALSE_MEMBER [unittest arguments]
"""
import contextlib
import errno
import json
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import jobs
import test_channel
from jobs import processes

STEPS = 1_000_000 # longer than any test


class Holding(jobs.Case):
    """One of two ranks, or its node, that keeps the other one from going on: not for ever."""

    BOOKMARK, IMAGE = 4, 5
    REQUEST, EXPECTED, CLOCKS, READY, DRAINED = 1, 5, 9, 11, 12

    def begin(self, deadline):
        self.job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "1",
                                   "env", "OMPI_COMM_WORLD_SIZE=2", jobs.OPTIONS.rank, str(STEPS),
                                   self.scratch], self.settings(CRYO_DEADLINE=deadline))
        jobs.wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == 1, "the rank")

    def checkpoint(self, patience):
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--time", patience,
                                 str(self.job.pid)], env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        return tool

    def of_rank(self, answer):
        """What a command says when the second rank answers the tree's words so."""
        (directory,) = Path(self.runtime).glob(f"{self.job.pid}-*")
        (node,) = [path for path in directory.iterdir() if path.is_socket() and path.name != ".root"]
        header = test_channel.HEADER
        body = struct.pack("<IIIi", 2, 1, 2, os.getpid()) + f"fake-{self.job.pid}".encode()
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(jobs.PATIENCE)
            one.connect(str(node))
            one.sendall(header.pack(len(body), test_channel.Ranks.HELLO) + body)
            tool = self.checkpoint("5")
            one.settimeout(0.1)
            heard = b""
            end = time.monotonic() + jobs.PATIENCE
            while tool.poll() is None and time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    heard += one.recv(65536)
                while len(heard) >= header.size:
                    length, kind = header.unpack_from(heard)
                    if len(heard) < header.size + length:
                        break
                    body = heard[header.size:header.size + length]
                    heard = heard[header.size + length:]
                    if kind == self.BOOKMARK:
                        for frame, words in answer(body[0], body[4:8]):
                            one.sendall(header.pack(len(words), frame) + words)
            self.assertIsNotNone(tool.poll(), "a checkpoint that has no end")
            _, errors = tool.communicate()
        self.assertEqual(tool.returncode, errno.ETIMEDOUT, errors)
        return errors

    def member_in_tree(self, *ranks):
        """A false node with some of two ranks, and its connection in the tree."""
        member = test_channel.Member(self, self.job)
        for rank in ranks:
            member.say(type="rank", rank=rank, ranks=2, pid=os.getpid(),
                       space=f"fake-{self.job.pid}")
        place = member.until("place")
        below = subprocess.Popen(
            [jobs.OPTIONS.member, f"child/{place['generation']}/{place['index']}",
             "=" + place["parent"]["key"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=self.settings(CRYO_JOB=jobs.variable(self.job, "CRYO_JOB")))
        self.addCleanup(below.communicate)
        self.addCleanup(below.kill)
        member.say(type="placed", generation=place["generation"])
        return member, below

    def to_the_cut(self, member, below):
        """As if all ranks of the node stood still: what it was to prepare, and the tree's number of it."""
        prepare = member.until("prepare")
        member.say(type="prepared", checkpoint=prepare["checkpoint"])
        request = below.stdout.readline() # eight bytes, the last four of which are its number
        self.assertEqual((self.REQUEST, 9), (request[0], len(request)))
        for kind, more in (self.CLOCKS, 8), (self.READY, 8):
            below.stdin.write(b"#%s\n" % (struct.pack("<BBH", kind, 1, 0) + request[4:8] +
                                          bytes(more)).hex().encode())
        below.stdin.flush()
        heard = below.stdout.readline()
        while heard[0] != self.EXPECTED:
            heard = below.stdout.readline()
        return prepare, request[4:8]


class Silent(Holding):
    def test_image_before_the_cut(self):
        self.begin("3")
        def answer(kind, _):
            return [(self.IMAGE, b"")] if kind == self.REQUEST else []
        self.assertIn("not all ranks could stop within 5 s", self.of_rank(answer))
        self.job.kill()

    def test_silence_at_the_cut(self):
        self.begin("2")
        def answer(kind, epoch):
            if kind != self.REQUEST:
                return []
            return [(self.BOOKMARK, struct.pack("<BBH", words, 1, 0) + epoch + bytes(8))
                    for words in (self.CLOCKS, self.READY)]
        node = r"rank 1 on node \S+ keeps the others at the cut: .* for 24 s"
        self.assertRegex(self.of_rank(answer), node)
        rank = self.job.status()["ranks"]
        before = processes.waits_of(rank[0])
        jobs.wait_for(lambda: processes.waits_of(rank[0]) > before + 100, "a rank that goes on")
        self.job.kill()


class Grown(Holding):
    def test_images_without_end(self):
        """Each counts once, and of what is said of it a command gets as much as it takes."""
        self.begin("50")
        member, below = self.member_in_tree(1)
        self.assertEqual(b"proven\n", below.stdout.readline())
        tool = self.checkpoint("60")
        prepare, epoch = self.to_the_cut(member, below)
        number = prepare["checkpoint"]
        local = Path(prepare["directory"], "opal_snapshot_1.ckpt")
        local.mkdir(0o700)
        (local / f"cryo_context.{os.getpid()}").write_bytes(b"image")
        for _ in range(3):
            member.say(type="image", checkpoint=number, rank=1, bytes=5,
                       notices=["once"] + ["x" * 65536] * 300)
        below.stdin.write(b"#%s\n" % (struct.pack("<BBH", self.DRAINED, 1, 0) + epoch).hex().encode())
        below.stdin.flush()
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors[-1000:])
        self.assertEqual(1, errors.count("rank 1: once"))
        self.assertRegex(errors, "[0-9]+ more notices of ranks are left out")
        self.job.kill()

    def test_images_that_take_longer_than_the_wait_for_ranks(self):
        """--time is for ranks to stand still: images may take longer, as long as they grow."""
        self.job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "1",
                                   "sleep", "600"], self.settings(CRYO_DEADLINE="2"))
        member, below = self.member_in_tree(0, 1)
        self.assertEqual(b"proven\n", below.stdout.readline())
        tool = self.checkpoint("5")
        prepare, _ = self.to_the_cut(member, below)
        end = time.monotonic() + 6 # the wait has begun before
        grown = 0
        while (message := json.loads(member.hear()))["type"] != "cancel":
            if message["type"] == "look":
                grown += time.monotonic() < end
                member.say(type="alive", images=[{"rank": rank, "bytes": grown} for rank in (0, 1)])
        member.say(type="idle", checkpoint=prepare["checkpoint"])
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertIn("rank 0: its image has not grown for 24 s", errors)
        self.assertEqual(tool.returncode, errno.ETIMEDOUT)
        self.job.kill()


class Endless(Holding):
    """A node that says for ever that its ranks' images are on their way."""

    def said_of(self, patience, images):
        """What a command says when a node reports `images(number of the report)`."""
        self.job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", jobs.MPIRUN, "-n", "1",
                                   "sleep", "600"], self.settings(CRYO_DEADLINE="2"))
        member, below = self.member_in_tree(0, 1)
        self.assertEqual(b"proven\n", below.stdout.readline())
        tool = self.checkpoint(patience)
        prepare, _ = self.to_the_cut(member, below)
        end = time.monotonic() + 1.5 * jobs.PATIENCE
        reports = 0
        while (message := json.loads(member.hear()))["type"] != "cancel":
            self.assertLess(time.monotonic(), end, "a checkpoint that has no end")
            if message["type"] == "look":
                reports += 1
                member.say(type="alive", images=images(reports))
        member.say(type="idle", checkpoint=prepare["checkpoint"])
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, errno.ETIMEDOUT, errors)
        self.job.kill()
        return errors

    def test_image_that_grows_for_ever(self):
        self.assertIn("rank 0 on node elsewhere: its image has grown for 24 s, and is not there",
                      self.said_of("2", lambda count: [{"rank": rank, "bytes": count}
                                                       for rank in (0, 1)]))

    def test_image_that_is_not_heard_of_again(self):
        self.assertIn("rank 1: its image has not grown for 24 s",
                      self.said_of("5", lambda count: [{"rank": rank, "bytes": count}
                                                       for rank in (0, 1)[:2 if count < 3 else 1]]))


class Early(Holding):
    def test_no_image_at_the_cut(self):
        """A rank that says that it has all messages, and asks for no image."""
        self.begin("2")
        def answer(kind, epoch):
            if kind == self.REQUEST:
                return [(self.BOOKMARK, struct.pack("<BBH", words, 1, 0) + epoch + bytes(8))
                        for words in (self.CLOCKS, self.READY)]
            if kind == self.EXPECTED:
                return [(self.BOOKMARK, struct.pack("<BBH", self.DRAINED, 1, 0) + epoch)]
            return []
        self.assertRegex(self.of_rank(answer),
                         r"rank 1 on node \S+ has gone on from the cut: .* for 24 s")
        self.job.kill()

    def test_node_with_an_image_before_the_cut(self):
        """The node may have been deceived by another one: only the checkpoint ends, although the node
        never says that it is idle again."""
        self.begin("2")
        member, _ = self.member_in_tree(1)
        prepared = []
        def live(): # it says that it is alive for as long as anybody asks
            with contextlib.suppress(ConnectionResetError, OSError, ValueError):
                while message := json.loads(member.hear()):
                    if message["type"] == "look":
                        member.say(type="alive", images=[])
                    elif message["type"] == "prepare":
                        prepared.append(message["checkpoint"])
                        member.say(type="prepared", checkpoint=prepared[-1])
                        member.say(type="cut", checkpoint=prepared[-1], rank=1)
        talk = threading.Thread(target=live, daemon=True)
        talk.start()
        tool = self.checkpoint("60")
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertIn("the daemon of node elsewhere has an image of a rank before all", errors)
        self.assertEqual(tool.returncode, errno.EPROTO)
        self.checkpoint("60")
        jobs.wait_for(lambda: len(prepared) == 2, "the next checkpoint")
        self.job.kill()
        member.process.kill()
        talk.join(jobs.PATIENCE)


if __name__ == "__main__":
    jobs.main("member")
