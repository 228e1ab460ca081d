#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Automatic checkpoints: cr_run --interval and cr_restart --interval.

    test_keeper.py DIRECTORY-OF-COMMANDS

The program writes numbers one after the other. Whenever and however often it is killed and brought
back, none may be missing and none may come twice.
"""
import contextlib
import errno
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from processes import children, exists  # noqa: E402
from waiting import PATIENCE, wait_until  # noqa: E402

BIN = os.path.abspath(sys.argv.pop(1))
# In the group of cr_restart, which is killed as a whole.
NEW_IDS = ("--no-restore-pid", "--no-restore-sid")
COUNT = """
import sys, time
memory = [bytearray(4096) for _ in range(2000)]
number = 0
while number != {last}:
    number += 1
    memory[number % 2000][number % 4096] ^= 255
    print(number, flush=True)
    time.sleep(0.005)
"""


def tool(name):
    return os.path.join(BIN, name)


class Keeper(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-keeper.")
        self.addCleanup(shutil.rmtree, self.top)
        self.programs = []
        self.addCleanup(self.end_all)

    def end_all(self):
        # A keeper works before it has written down its pid; in a restart it does not name
        # cr_restart's, but has the standard error that cr_restart was given.
        keepers = [pid for pid, of in self.all_keepers()
                   if of in [program.pid for program in self.programs]
                   or self.has_our_errors(pid)]
        for program in self.programs:
            self.kill(program)
        keepers += [self.state(directory).get("keeper") for directory in ("one", "two")]
        for keeper in filter(None, keepers):  # nothing writes into a directory, or removes it
            wait_until("the end of the keeper",  # which waits for its copiers
                       lambda pid=keeper: self.end_copiers(pid) or not exists(pid))

    def path(self, *names):
        return os.path.join(self.top, *names)

    def images(self, directory="one"):
        try:
            return sorted(n for n in os.listdir(self.path(directory)) if n.startswith("context."))
        except FileNotFoundError:
            return []

    def state(self, directory="one"):
        try:
            with open(self.path(directory, "keeper.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def log(self, directory="one"):
        try:
            with open(self.path(directory, "keeper.log"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def spawn(self, *words):
        with open(self.path("out"), "ab") as out, open(self.path("err"), "ab") as err:
            program = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True, cwd=self.top)
        self.programs.append(program)
        return program

    def start(self, *options, last=-1):
        return self.spawn(tool("cr_run"), *options, sys.executable, "-c", COUNT.format(last=last))

    def errors(self):
        with open(self.path("err"), encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def kill(program):
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()

    def numbers(self):
        with open(self.path("out"), encoding="ascii") as file:
            return [int(line) for line in file.read().splitlines()]

    def kill_program(self, program):
        """The program itself, and cr_restart with it."""
        os.kill(wait_until("its number", lambda: self.state().get("pid")), signal.SIGKILL)
        self.kill(program)

    def test_kills_and_restarts(self):
        program = self.start("--interval", "200ms", "--into", "one")
        for generation in range(3):
            before = self.images()[-1:] if generation else []
            wait_until("three more images",
                       lambda b=before: len([n for n in self.log().splitlines()
                                             if "on the disk" in n]) >= 3 * (generation + 1)
                       and self.images()[-1:] != b)
            self.kill_program(program)
            keeper = self.state()["keeper"]
            wait_until("the end of the keeper", lambda k=keeper: not exists(k))
            self.assertTrue(os.path.samefile(self.path("one", "latest"),
                                             self.path("one", self.images()[-1])))
            written = len(self.numbers())
            program = self.spawn(tool("cr_restart"), "-q", *NEW_IDS, "--interval",
                                 "200ms", self.path("one", "latest"))
            wait_until("numbers after the restart",
                       lambda w=written: len(self.numbers()) > w + 20)
            wait_until("the new keeper", lambda k=keeper: self.state().get("keeper") != k)
            self.assertEqual(self.state()["failures"], generation + 1)
        self.kill_program(program)
        numbers = self.numbers()
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(self.errors(), "")

    def test_only_what_is_needed_stays(self):
        self.start("--interval", "100ms", "--into", "one", "--keep", "2", "--delta=differential")
        wait_until("seven images", lambda: "context.000007" in self.images())
        self.start_reading_chain()

    def start_reading_chain(self):
        # The first, on which all are based, and two or three (while the last is being added).
        kept = wait_until("a moment without a new image", self.settled)
        self.assertEqual(kept[0], "context.000001")
        self.assertIn(len(kept), (3, 4))
        for name in kept:
            done = subprocess.run([tool("cr_inspect"), "--verify", self.path("one", name)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def settled(self):
        pid = self.state().get("pid")
        os.kill(pid, signal.SIGKILL)
        wait_until("the end of the keeper", lambda: not exists(self.state()["keeper"]))
        return self.images()

    def test_second_directory_is_enough(self):
        program = self.start("--interval", "200ms", "--into", "one", "--second", "two",
                             "--bandwidth", "200M")
        wait_until("three copies", lambda: "context.000003" <= (self.images("two") or [""])[-1])
        self.kill_program(program)
        wait_until("the end of the keeper", lambda: not exists(self.state()["keeper"]))
        series = self.state()["series"]
        shutil.rmtree(self.path("one"))  # the node is lost
        newest = self.images("two")[-1]
        program = self.spawn(tool("cr_restart"), "-q", *NEW_IDS, "--interval", "200ms",
                             "--into", "one", "--second", "two", self.path("two", "latest"))
        wait_until("a newer copy", lambda: self.images("two")[-1] > newest)
        self.assertEqual(self.state()["series"], series)
        self.kill_program(program)
        numbers = self.numbers()
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(self.errors(), "")

    def committed(self):
        """How many images were completed in the first directory."""
        return self.log().count("on the disk")

    def assert_complete(self, directory):
        """Every image that has its name there, with all that it needs."""
        for name in self.images(directory):
            done = subprocess.run([tool("cr_inspect"), "--verify", self.path(directory, name)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_second_directory_fails_and_comes_back(self):
        program = self.start("--interval", "100ms", "--into", "one", "--second", "two",
                             "--delta=incremental")
        before = wait_until("a copy", lambda: self.images("two"))[-1]
        os.rename(self.path("two"), self.path("away"))
        with open(self.path("two"), "wb"):
            pass  # so that nobody makes it again
        wait_until("that it is told", lambda: "two" in self.errors())
        committed = self.committed()
        wait_until("three more images in the first", lambda: self.committed() >= committed + 3)
        self.assertEqual(len(self.errors().splitlines()), 1)  # once
        os.unlink(self.path("two"))
        os.rename(self.path("away"), self.path("two"))
        newest = self.images()[-1]
        self.assertGreater(newest, before)
        wait_until("newer copies", lambda: self.images("two")[-1] >= newest)
        self.kill_program(program)
        wait_until("the end of the keeper", lambda: not exists(self.state()["keeper"]))
        self.assert_complete("one")
        self.assert_complete("two")

    def test_slow_second_directory_delays_nothing(self):
        # An image of nine MiB and more takes a quarter of an hour to copy.
        program = self.start("--interval", "100ms", "--into", "one", "--second", "two",
                             "--bandwidth", "10k")
        wait_until("a copy that has begun", lambda: self.hidden("two"))
        committed = self.committed()
        wait_until("three more images in the first", lambda: self.committed() >= committed + 3)
        self.assertEqual(self.images("two"), [])  # what is not complete has no name
        keeper = self.state()["keeper"]
        copier = children(keeper)
        for pid in (keeper, *copier):
            with contextlib.suppress(ProcessLookupError): # a command of the keeper's, which ends by itself
                os.kill(pid, signal.SIGKILL)
        wait_until("their end", lambda: not any(map(exists, (keeper, *copier))))
        self.assertEqual(self.images("two"), [])
        self.assert_complete("one")
        self.kill_program(program)
        # Another keeper completes what that one has begun.
        program = self.spawn(tool("cr_restart"), "-q", *NEW_IDS, "--interval",
                             "200ms", "--second", "two", "--bandwidth", "100M",
                             self.path("one", "latest"))
        wait_until("numbers", lambda w=len(self.numbers()): len(self.numbers()) > w)
        wait_until("a copy", lambda: self.images("two"))
        for pid in copier:  # what they have begun and cannot end
            self.assertFalse([name for name in self.hidden("two") if name.endswith(f".{pid}")])
        self.kill_program(program)
        wait_until("the end of the keeper", lambda: not exists(self.state()["keeper"]))
        self.assert_complete("two")
        numbers = self.numbers()
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_image_that_is_being_copied_stays(self):
        program = self.start("--interval", "1h", "--into", "one", "--second", "two", "--bandwidth", "1",
                             "--keep", "1", "--delta=none")
        keeper = wait_until("the keeper", lambda: self.keeper_of(program.pid))
        for number in (1, 2, 3):
            before = self.committed()
            os.kill(keeper, signal.SIGUSR1)
            wait_until("an image", lambda b=before: self.committed() > b)
            if number == 1:  # the copier sends a byte, and rests for a second
                wait_until("a copy that has begun", lambda: self.hidden("two"))
        wait_until("two images", lambda: len(self.images()) == 2)
        self.assertEqual(self.images(), ["context.000001", "context.000003"])
        self.end_copiers(keeper)
        wait_until("the end of the first", lambda: self.images() == ["context.000003"])
        self.kill_program(program)

    @staticmethod
    def end_copiers(keeper):
        for copier in children(keeper):
            with contextlib.suppress(ProcessLookupError):
                os.kill(copier, signal.SIGKILL)

    def hidden(self, directory):
        try:
            return [name for name in os.listdir(self.path(directory)) if name.startswith(".context")]
        except FileNotFoundError:
            return []

    def test_second_directory_of_another_series(self):
        self.start("--interval", "100ms", "--into", "one", "--second", "two")
        wait_until("a copy", lambda: self.images("two"))
        other = self.start("--interval", "100ms", "--into", "three", "--second", "two")
        self.assertNotEqual(other.wait(PATIENCE), 0)
        self.assertIn("two", self.errors())
        self.assertEqual(self.images("three"), [])

    def test_directory_in_use(self):
        self.start("--interval", "1h", "--into", "one")
        wait_until("the program", lambda: self.numbers())
        written = len(self.numbers())
        other = subprocess.run([tool("cr_run"), "--interval", "1h", "--into", "one", "echo", "-1"],
                               cwd=self.top, capture_output=True, text=True, timeout=PATIENCE,
                               check=False)
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("another program's automatic checkpoints go there", other.stderr)
        self.assertEqual(other.stdout, "")
        wait_until("more numbers", lambda: len(self.numbers()) > written)

    def test_images_of_another_run_are_not_pruned(self):
        program = self.start("--interval", "50ms", "--into", "one")
        wait_until("an image", self.images)
        self.kill_program(program)
        wait_until("the end of the keeper", lambda: not exists(self.state()["keeper"]))
        before = self.images()
        again = self.start("--interval", "50ms", "--into", "one")
        self.assertNotEqual(again.wait(PATIENCE), 0)
        self.assertIn("has images of another run; go on with that by cr_restart", self.errors())
        shutil.copy(self.path("one", before[-1]), self.path("elsewhere"))
        back = self.spawn(tool("cr_restart"), "-q", *NEW_IDS, "--interval", "50ms",
                          "--into", "one", "--base", self.path("one", before[0]),
                          self.path("elsewhere"))
        wait_until("the refusal", lambda: "no automatic checkpoints" in self.errors())
        self.assertIsNone(back.poll())  # the program is back all the same
        self.assertEqual(self.images(), before)

    def test_deadline_that_slurm_does_not_tell(self):
        """Nor does a squeue; the program starts, and is saved at the interval."""
        with unittest.mock.patch.dict(os.environ, {"SLURM_JOB_ID": "77", "PATH": self.path("none")}):
            os.environ.pop("SLURM_JOB_END_TIME", None)
            self.start("--interval", "100ms", "--into", "one", "--before-deadline", "auto")
        wait_until("an image", self.images)
        self.assertEqual(self.errors().count("Slurm does not tell when the job ends"), 1)

    def test_deadline_by_the_controller(self):
        """As root, a squeue that only root can have put there."""
        home = pwd.getpwuid(0).pw_dir # /run has noexec on many machines
        place = tempfile.mkdtemp(prefix="cryo-keeper.", dir=home if os.geteuid() == 0 else None)
        self.addCleanup(shutil.rmtree, place)
        if os.statvfs(place).f_flag & os.ST_NOEXEC:
            self.skipTest(f"nothing can be executed in {place}")
        squeue = os.path.join(place, "squeue")
        with open(squeue, "x", encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho 77 {int(time.time()) + 31}\n")
        os.chmod(squeue, 0o755)
        with unittest.mock.patch.dict(os.environ, {"SLURM_JOB_ID": "77", "PATH": place}):
            os.environ.pop("SLURM_JOB_END_TIME", None)
            self.start("--interval", "1h", "--into", "one", "--before-deadline", "auto")
        wait_until("the last one", lambda: "the last one before the deadline" in self.log())
        self.assertEqual(self.errors(), "")

    def test_before_the_deadline(self):
        program = self.start("--interval", "1h", "--into", "one", "--before-deadline", "31s")
        wait_until("the last one", lambda: "the last one before the deadline" in self.log())
        self.assertEqual(self.images(), ["context.000001"])
        self.assertIsNone(program.poll())

    def test_signals(self):
        program = self.start("--interval", "1h", "--into", "one")
        wait_until("the program", lambda: self.numbers())
        keeper = wait_until("the keeper", lambda: self.keeper_of(program.pid))
        os.kill(keeper, signal.SIGUSR1)
        wait_until("an image", lambda: self.images() == ["context.000001"])
        os.kill(keeper, signal.SIGTERM)
        wait_until("the end of the keeper", lambda: not exists(keeper))
        self.assertEqual(self.images(), ["context.000001", "context.000002"])
        self.assertIsNone(program.poll())

    def test_id_of_a_program_that_has_ended(self):
        """Another program may have it at once: a command with a handle of the first saves nothing."""
        program = self.start()
        wait_until("the program", self.numbers)
        with subprocess.Popen(["true"]) as ended:
            handles = {os.pidfd_open(ended.pid): errno.ESRCH, os.pidfd_open(program.pid): 0}
        for handle, code in handles.items():
            self.addCleanup(os.close, handle)
            done = subprocess.run([tool("cr_checkpoint"), "--pidfd", str(handle), "-f",
                                   self.path("image"), str(program.pid)], capture_output=True,
                                  text=True, timeout=PATIENCE, check=False, pass_fds=[handle])
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertEqual(code == 0, os.path.exists(self.path("image")))
            if code:
                self.assertIn(f"process {program.pid} has ended", done.stderr)

    def test_commands_have_a_handle_of_the_program(self):
        program = self.start("--interval", "50ms", "--into", "one")
        keeper = wait_until("the keeper", lambda: self.keeper_of(program.pid))

        def handle():
            """What a command of the keeper's is given, while it runs."""
            for pid in children(keeper):
                with contextlib.suppress(OSError, ValueError):
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                        words = file.read().split("\0")
                    if os.path.basename(words[0]) == "cr_checkpoint":
                        number = words[words.index("--pidfd") + 1]
                        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
                            return file.read()
            return None
        self.assertRegex(wait_until("a command", handle), rf"(?m)^Pid:\s+{program.pid}$")

    @staticmethod
    def all_keepers():
        """The pids of all, each with the pid of its program."""
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if words[0].endswith(b"/cryo/keeper"):
                yield int(entry), int(words[1])

    def has_our_errors(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/fd/2") == self.path("err")
        except OSError:  # ended, or another user's
            return False

    def keeper_of(self, program):
        return next((pid for pid, of in self.all_keepers() if of == program), None)

    def test_the_program_does_not_notice(self):
        # No child more to wait for, no descriptor, no end of a pipe, no variable.
        script = "import os\n" \
                 "try: os.wait()\n" \
                 "except ChildProcessError: print('alone')\n" \
                 "print(sorted(os.listdir('/proc/self/fd'))[:4], len(os.environ))"
        with_keeper, without = (
            subprocess.run([tool("cr_run"), *options, sys.executable, "-c", script], cwd=self.top,
                           capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
            for options in (["--interval", "1h", "--into", "one"], []))
        self.assertEqual(with_keeper, without)
        self.assertIn("alone", with_keeper)

    def refused_program(self, stderr, **how):
        """A program with what cannot be saved, whose keeper warns on this."""
        outside = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(outside.close)
        with open(self.path("out"), "ab") as out:
            self.programs.append(subprocess.Popen(
                [tool("cr_run"), "--interval", "100ms", "--into", "one", sys.executable, "-c",
                 "import socket\n"
                 f"client = socket.create_connection(('127.0.0.1', {outside.getsockname()[1]}))\n"
                 "print(1, flush=True)\n"
                 "client.recv(1)"], stdin=subprocess.DEVNULL, stdout=out, stderr=stderr,
                start_new_session=True, cwd=self.top, **how))

    def test_what_cannot_be_saved_is_told_once(self):
        with open(self.path("err"), "ab") as err:
            self.refused_program(err)
        wait_until("an attempt", lambda: "127.0.0.1" in self.log())
        before = self.images()  # of the time before the connection was there
        wait_until("three attempts", lambda: self.log().count("127.0.0.1") >= 3)
        self.assertEqual(self.images(), before)
        told = [line for line in self.errors().splitlines() if "automatic checkpoint" in line]
        self.assertEqual(len(told), len(set(told)), told)

    def test_a_warning_that_nobody_reads(self):
        with open("/dev/full", "ab") as full:
            self.refused_program(full)
        wait_until("three attempts", lambda: self.log().count("127.0.0.1") >= 3)

    def test_a_warning_whose_reader_is_gone(self):
        reader, writer = os.pipe()
        self.refused_program(writer)
        os.close(writer)
        os.close(reader)
        wait_until("three attempts", lambda: self.log().count("127.0.0.1") >= 3)

    def test_ends_of_children_are_ignored(self):
        with open(self.path("err"), "ab") as err:
            self.refused_program(
                err, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        wait_until("three attempts", lambda: self.log().count("127.0.0.1") >= 3)
        self.assertIn("127.0.0.1", self.errors())

    def test_image_by_descriptor(self):
        program = self.start("--interval", "100ms", "--into", "one")
        wait_until("an image", self.images)
        self.kill_program(program)
        image = os.open(self.path("one", self.images()[-1]), os.O_RDONLY)
        self.addCleanup(os.close, image)
        with open(self.path("out"), "ab") as out, open(self.path("err"), "ab") as err:
            self.programs.append(subprocess.Popen(
                [tool("cr_restart"), *NEW_IDS, "--fd", str(image), "--interval", "100ms",
                 "--into", "two"], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, cwd=self.top, pass_fds=[image]))
        wait_until("an image of the restored one", lambda: self.images("two"))

    def test_directory_that_is_not_utf8(self):
        """It is refused by its name, before the program runs."""
        strange = self.path(os.fsdecode(b"caf\xe9"))
        os.mkdir(strange)
        for words, cwd in (["--into", strange], self.top), ([], strange):
            done = subprocess.run([tool("cr_run"), "--interval", "1h", *words, "echo", "ran"],
                                  cwd=cwd, capture_output=True, text=True, timeout=PATIENCE,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is not UTF-8; choose another --into directory", done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(os.listdir(strange), [])

    def test_wrong_usage(self):
        for words in (["--interval", "often"], ["--into", "one"], ["--interval", "1s", "--keep=0"],
                      ["--interval", "1s", "--omit"], ["--interval", "1s", "--into", "/dev/null"]):
            done = subprocess.run([tool("cr_run"), *words, "echo", "ran"], cwd=self.top,
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertEqual(done.stdout, "", words)
            self.assertNotEqual(done.stderr, "", words)


if __name__ == "__main__":
    unittest.main()
