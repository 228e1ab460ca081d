#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the daemons of a job of fake ranks: by strangers who reach its port, and by members of the
job that do not keep to what members do.

    test_channel.py --bin DIRECTORY --rank FAKE_RANK --member FALSE_MEMBER [unittest arguments]
"""
import argparse
import crypt
import json
import os
import socket
import struct
import subprocess
import sys
import unittest
from pathlib import Path

import jobs

HEADER = struct.Struct("<IBxxx")
JSON = 7
STEPS = 1_000_000 # longer than any test


def frame(message, kind=JSON):
    body = json.dumps(message).encode()
    return HEADER.pack(len(body), kind) + body


def exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def hear(connection):
    size, _ = HEADER.unpack(exactly(connection, HEADER.size))
    return json.loads(exactly(connection, size))


class Strangers(jobs.Case):
    """Those who do not know the job's secret."""

    def port_of(self, job):
        return int(jobs.variable(job, "CRYO_JOB").split(":")[2])

    def test_nothing_cuts_the_secret_off(self):
        """What a proof is made of ends at no NUL that the other end has chosen."""
        job = self.start(1, STEPS, FAKE_NODES="1")
        with socket.create_connection(("127.0.0.1", self.port_of(job)), jobs.PATIENCE) as stranger:
            stranger.settimeout(jobs.PATIENCE)
            challenge = hear(stranger)["challenge"]
            known = crypt.crypt(f"connect {challenge} x", "$5$rounds=1000$cryo$")
            stranger.sendall(frame({"nonce": "x\0", "proof": known}))
            with self.assertRaises(ConnectionError):
                hear(stranger)
        self.save(job)
        job.kill()


class Member:
    """A daemon of a job, of whom the test says what it says."""

    def __init__(self, case, job, node="elsewhere", join=True):
        settings = case.settings(CRYO_JOB=jobs.variable(job, "CRYO_JOB"))
        self.process = subprocess.Popen([jobs.OPTIONS.member], env=settings, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.addCleanup(self.end)
        case.assertEqual(self.hear(), "proven")
        if join:
            self.say(type="join", node=node, addresses=["127.0.0.1"], port=9)
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
                         '{"type":"join","node":7,"addresses":[],"port":1}',
                         '{"type":"join","node":"../x","addresses":[],"port":1}',
                         '{"type":"join","node":"x","addresses":[7],"port":1}',
                         '{"type":"join","node":"x","addresses":[],"port":70000}',
                         '{"type":"child","generation":-1,"index":"x"}',
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
        member.until_ended()
        member = Member(self, job)
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
        member = Member(self, job)
        tool = self.checkpoint(job)
        number = member.until("prepare")["checkpoint"]
        member.say(type="prepared", checkpoint=number)
        for kind in "cut", "image":
            member.say(type=kind, checkpoint=number, rank=1)
        self.assertRaises(ConnectionResetError, member.until, "nothing")
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertEqual(tool.returncode, 0, errors)
        reference, _ = self.save(job)
        meta = Path(self.store, reference, "global_snapshot_meta.data").read_text()
        self.assertNotIn("outside", meta)
        self.assertNotIn("# Cryo Node: x", meta)
        job.kill()

    def checkpoint(self, job):
        return subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", str(job.pid)],
                                env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rank", required=True)
    parser.add_argument("--member", required=True)
    jobs.OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
