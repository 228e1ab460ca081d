#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nobody stands still for long because somebody else does nothing: a program goes on when its saver is
stopped or hangs, and then there is no image of it; and the saver gives up a program that is hostile."""
import contextlib
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import case
import held

SLOW = int(os.environ.get("CRYO_SLOW", "1"))  # how much longer all takes, as on an emulated processor
SOON = 20 * SLOW  # seconds; the limit of a second, and what a busy machine adds to it
STALL = f"--stall={SLOW}"
READ = ("--snapshot=stop", STALL, "-f", "image")
# Then programs write their memory by themselves, and need not wait until all else is in the image.
MODULE = os.path.exists("/dev/cryo")
# File systems whose locks tell that a directory is left over, by their names in stat(1).
LOCAL = ("ext2/ext3", "xfs", "btrfs", "tmpfs", "ramfs", "overlayfs", "f2fs", "zfs")
# Of the agent's protocol (userlib/protocol/agent.hpp).
MAGIC, PREPARE, ACCEPTED, CALLED_OFF = 0x6f797243, 10, 11, 33


class SilentSaver(held.Case):
    """The saver does nothing any more while the program stands still."""

    def assert_called_off(self, program, saver, leaves=("counts",)):
        self.assertLess(self.until_all_count(saver.begun, SLOW), SOON)
        code, said = saver.let_go()
        self.assertNotEqual(0, code, said)
        self.assertIn(f"process {program.pid} goes on: it received nothing for {SLOW} s", said)
        self.assertEqual(sorted(leaves), self.files())
        self.assert_all_count()

    def check(self, phase, *words, stops=True, threads=3, processes=1):
        program = self.count(threads, processes)
        saver = self.hold(program, phase, *words)
        if stops:
            saver.stop()
        self.assert_called_off(program, saver)
        self.assert_can_be_saved(program)
        self.end(program)
        os.unlink(self.path("counts"))

    def test_is_stopped_when_all_stand_still(self):
        self.check("stopped", STALL, "-f", "image")

    def test_is_stopped_when_all_is_known(self):
        self.check("described", STALL, "-f", "image")

    def test_is_stopped_while_it_reads(self):
        for phase in ("stopped", "described", *(() if MODULE else ("memory written",))):
            with self.subTest(phase):
                self.check(phase, *READ)

    @unittest.skipUnless(MODULE, "without the module it stands still meanwhile")
    def test_is_stopped_when_the_program_has_gone_on(self):
        program = self.count()
        saver = self.hold(program, "memory written", *READ)
        saver.stop()
        self.assert_all_count()
        code, said = saver.let_go()
        self.assertEqual(0, code, said)
        self.assertEqual(["counts", "image"], self.files())

    def test_hangs(self):
        for phase in ("stopped", "described"):
            with self.subTest(phase):
                self.check(phase, STALL, "-f", "image", stops=False)

    def test_is_stopped_before_the_commit(self):
        for word in ("--term", "--kill", "--stop"):
            with self.subTest(word):
                self.check("memory written", word, STALL, "-f", "image")

    def test_several_processes(self):
        for words in ((STALL, "-f", "image"), READ, ("--kill", STALL, "-f", "image"),
                      (STALL, "-d", "images")):
            with self.subTest(words):
                self.check("described", *words, threads=2, processes=3)

    # What was committed is taken back, for it should have been the last of the program.

    def committed_too_early(self, *words):
        program = self.count()
        saver = self.hold(program, "committed", STALL, *words)
        saver.stop()
        return program, saver

    def test_is_stopped_after_the_commit(self):
        for word in ("--term", "--kill", "--stop"):
            with self.subTest(word):
                program, saver = self.committed_too_early(word, "-f", "image")
                self.assertEqual(["counts", "image"], self.files())
                self.assert_called_off(program, saver)
                self.end(program)

    def test_what_was_there_comes_back(self):
        for word in ("--atomic", "--backup=kept"):
            with self.subTest(word):
                with open(self.path("image"), "w", encoding="ascii") as file:
                    file.write("of old")
                program, saver = self.committed_too_early("--kill", word, "-f", "image")
                kept = ["kept"] if word != "--atomic" else []
                self.assert_called_off(program, saver, ["counts", "image", *kept])
                with open(self.path("image"), encoding="ascii") as file:
                    self.assertEqual("of old", file.read())
                self.end(program)

    def test_a_directory_is_taken_back(self):
        program, saver = self.committed_too_early("--kill", "-d", "images")
        self.assert_called_off(program, saver)

    def test_a_directory_that_was_there_comes_back(self):
        program = self.count()
        self.save("-d", "images", program.pid)
        before = os.stat(self.path("images")).st_ino
        for words in (("--atomic",), ("--backup=images.old",)):
            saver = self.hold(program, "committed", STALL, "--kill", *words, "-d", "images")
            saver.stop()
            self.assert_called_off(program, saver, ["counts", "images"])
            self.assertEqual(before, os.stat(self.path("images")).st_ino)

    # The limit by default, and savers that do not exceed theirs.

    def test_ten_seconds_by_default(self):
        program = self.count()
        saver = self.hold(program, "described", "--snapshot=stop", "-f", "image")
        saver.stop()
        waited = self.until_all_count(saver.begun, 10)
        self.assertLess(8, waited)
        self.assertLess(waited, 10 + SOON)
        code, said = saver.let_go()
        self.assertNotEqual(0, code, said)
        self.assertIn("received nothing for 10 s", said)
        self.assertEqual(["counts"], self.files())

    def test_three_seconds_until_the_first_word(self):
        """A caller says at once what it wants; until then its own limit is not known."""
        program = self.count(threads=1)
        begun = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            self.connect(caller, program.pid)
            waited = self.until_all_count(begun, 3)
        self.assertLess(2, waited)
        self.assertLess(waited, 3 + 6 * SLOW)  # well before the ten seconds of others
        self.assert_can_be_saved(program)

    def test_three_seconds_within_the_first_word(self):
        """Prepare alone raises no limit: what comes after it tells which one."""
        program = self.count(threads=1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.settimeout(case.PATIENCE)
            begun = time.monotonic()
            self.connect(caller, program.pid)
            caller.send(struct.pack("=IHH4Q", MAGIC, 18, PREPARE, 0, 0, 0, 0))
            self.assertEqual((ACCEPTED, 0, 0), self.reply(caller))  # it stands still from here on
            waited = self.until_all_count(begun, 3)
            self.assertEqual((CALLED_OFF, -errno.ETIME, 3000), self.reply(caller))
        self.assertLess(2, waited)
        self.assertLess(waited, 3 + SOON)
        self.assert_can_be_saved(program)

    def reply(self, caller):
        """What the agent says next: about what, the result, and a value."""
        magic, _, op, result, value, _ = struct.unpack("=IHHqQQ", caller.recv(32))
        self.assertEqual(MAGIC, magic)
        return op, result, value

    def connect(self, caller, pid):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # not that of the agent
                return caller.connect(f"/proc/{pid}/fd/{number}")
        return self.fail("the agent has no socket")

    def test_a_copy_waits_for_as_long_as_it_takes(self):
        program = self.count()
        saver = self.hold(program, "frozen", STALL, "--snapshot=fork", "-f", "image")
        saver.stop()
        self.assert_all_count()
        time.sleep(2 * SLOW)  # twice as long as a program would stand still
        code, said = saver.let_go()
        self.assertEqual(0, code, said)
        self.assertEqual(["counts", "image"], self.files())

    def test_one_that_comes_back_in_time_goes_on(self):
        program = self.count()
        saver = self.hold(program, "described", "--stall=60", "--snapshot=stop", "-f", "image")
        saver.stop()
        self.assert_nobody_counts(saver.begun + 60)
        code, said = saver.let_go()
        self.assertEqual(0, code, said)
        self.assert_all_count()

    def test_signals_come_when_the_image_is_there(self):
        for word, status in (("--term", -signal.SIGTERM), ("--kill", -signal.SIGKILL)):
            with self.subTest(word):
                program = self.count(threads=2, processes=3)
                self.save(word, "-f", f"image{word}", program.pid)
                self.assertEqual(status, program.wait(case.PATIENCE))
        program = self.count(threads=2, processes=3)
        family = [program.pid, *case.processes.family(program.pid)]
        self.save("--stop", "-f", "image--stop", program.pid)
        self.assertEqual(["T"] * 3, [case.state(pid) for pid in family])
        for pid in family:
            os.kill(pid, signal.SIGCONT)
        self.assert_all_count()


class KilledHelper(held.Case):
    """Whoever takes part in a checkpoint is killed, in each phase of it."""

    def assert_as_before(self, program):
        self.assert_all_count()
        self.assert_can_be_saved(program)

    PHASES = [(words, phase) for words, phases in (
        (("--snapshot=fork",), ("stopped", "described", "frozen", "memory written",)),
        (("--snapshot=stop",), ("stopped", "described", "memory written", "frozen")),
        (("--kill",), ("stopped", "described", "memory written"))) for phase in phases]

    def test_the_saver(self):
        for words, phase in self.PHASES:
            with self.subTest((words, phase)):
                program = self.count(threads=2, processes=2)
                self.hold(program, phase, *words, "-f", "image").kill()
                self.assert_as_before(program)
                self.end(program)

    def test_the_saver_of_a_directory(self):
        """What it has left is gone when the next one has saved to that directory."""
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.directory], check=True, text=True,
                              capture_output=True).stdout.strip()
        if kind not in LOCAL:
            self.skipTest(f"nothing that looks left over is removed from {kind}")
        for words, phase in self.PHASES:
            with self.subTest((words, phase)):
                program = self.count(threads=2, processes=2)
                self.hold(program, phase, *words, "-d", "images").kill()
                self.assert_all_count()
                self.save("-d", "images", program.pid)
                self.assert_all_count()
                self.assertEqual(["counts", "images"], self.files())
                self.end(program)

    def copies(self):
        """Of the program, which are nobody's children: so they are ours."""
        def is_copy(pid):
            return case.status(pid, "Name") == "cryo copy" and case.state(pid) != "Z"
        return [pid for pid in case.processes.children(os.getpid()) if is_copy(pid)]

    def with_copies(self, act, *said_by_saver):
        program = self.count(threads=2, processes=2)
        saver = self.hold(program, "frozen", STALL, "--snapshot=fork", "-f", "image")
        case.wait_until("a copy of each process", lambda: len(self.copies()) == 2)
        copies = self.copies()
        for pid in copies:
            act(pid)
        code, said = saver.let_go()
        self.assertNotEqual(0, code, said)
        for words in said_by_saver:
            self.assertIn(words, said)
        self.assert_as_before(program)
        for pid in copies:
            case.kill(pid)
        case.wait_until("no copy is left", lambda: not self.copies())
        case.processes.reap([program.pid])
        self.end(program)

    def test_the_copy(self):
        self.with_copies(case.kill)

    def test_the_copy_is_stopped(self):
        self.with_copies(lambda pid: os.kill(pid, signal.SIGSTOP), "sends nothing of its memory")


AGENT = """
import os, signal, socket, struct, sys, time
mode = sys.argv[1]
signal.signal(signal.SIGRTMAX, lambda *_: None)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
name = f"cryo.{os.getpid()}.{os.urandom(8).hex()}"
listener.bind(name)
listener.listen(4)
door = os.open(name, os.O_PATH | os.O_NOFOLLOW)
os.unlink(name)
print("ready", flush=True)
def reply(op, result=0, value=0, count=0):
    connection.send(struct.pack("=IHHqQQ", 0x6f797243, 17, op, result, value, count))
def hang():
    while True:
        time.sleep(1000)
STOP, THREADS, PROCESS, RESUME, PREPARE, ACCEPTED = 1, 2, 3, 9, 10, 11
connection, _ = listener.accept()
if mode == "silent":
    hang()
reply(ACCEPTED)
reply(PREPARE)
while True:
    packet = connection.recv(8192)
    if not packet:
        break
    if len(packet) != 40:
        continue
    op = struct.unpack_from("=IHH", packet)[2]
    if op == STOP and mode == "never stops":
        hang()
    if op == STOP:
        reply(STOP, 0, 1)
    if op == PROCESS:
        reply(PROCESS, 0, 0, 1)
        connection.send(bytes(4096))
    if op == THREADS and mode == "stops itself":
        os.kill(os.getpid(), signal.SIGSTOP)
    if op == THREADS and mode == "byte by byte":
        reply(THREADS, 0, 0, 60000)
        while True:
            connection.send(bytes(296))
            time.sleep(0.3)
    if op == THREADS and mode == "without end":
        reply(THREADS, 0, 0, 1 << 60)
        while True:
            connection.send(bytes(296))
    if op == RESUME and mode == "chatters":
        while True:
            connection.send(bytes(32))
    if op == THREADS and mode == "chatters":
        reply(THREADS, -1)
"""


class HostileProgram(case.Case):
    """It poses as one with an agent, and never lets a checkpoint come to an end."""

    def check(self, mode, limit, *words):
        program = self.spawn("/usr/bin/python3", "-c", AGENT, mode, stdout=subprocess.PIPE)
        self.assertEqual("ready\n", program.stdout.readline())
        begun = time.monotonic()
        done = self.checkpoint(STALL, "-f", "image", program.pid)
        took = time.monotonic() - begun
        self.assertNotEqual(0, done.returncode, done.stderr)
        self.assertIn(f"process {program.pid}", done.stderr)
        self.assertNotIn("does not listen", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertLess(took, limit + SOON, done.stderr)
        self.assertEqual([], self.files())

    def test_says_nothing(self):
        self.check("silent", 1, "does not answer")

    def test_never_stops(self):
        self.check("never stops", 6, "does not answer")

    def test_stops_itself(self):
        self.check("stops itself", 1, "stopped")

    def test_tells_a_little_at_a_time(self):
        self.check("byte by byte", 1, "does not answer")

    def test_tells_without_end(self):
        self.check("without end", 1, "another protocol")

    def test_chatters_when_it_is_to_go_on(self):
        self.check("chatters", 1)


if __name__ == "__main__":
    held.COUNTERS = os.path.abspath(sys.argv.pop(2))
    case.processes.adopt_orphans()
    case.main()
