#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service that comes back from its last image, as systemd would run it; and its unit.

    test_service.py DIRECTORY-OF-COMMANDS SERVICE UNIT

The program writes numbers one after the other. None may be missing, however it ends and starts again.
"""
import configparser
import ctypes
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from waiting import PATIENCE, wait_until  # noqa: E402

UNIT = os.path.abspath(sys.argv.pop(3))
SERVICE = os.path.abspath(sys.argv.pop(2))
BIN = os.path.abspath(sys.argv.pop(1))
COUNT = """
import os, time
number = 0
with open("numbers", "w") as file:
    while not os.path.exists("finish"):
        number += 1
        print(number, file=file, flush=True)
        time.sleep(0.005)
"""


# In a language that every user finds.
COUNT_FOR_OTHERS = """
use IO::Handle;
open my $file, ">", "numbers";
$file->autoflush;
for (my $number = 1; ; $number++) { print $file "$number\\n"; select undef, undef, undef, 0.005; }
"""
# A unit with one of these settings has a seccomp filter: systemd.exec(5), NoNewPrivileges=.
FILTERING = set("""DynamicUser LockPersonality MemoryDenyWriteExecute PrivateDevices ProtectClock
ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables RestrictAddressFamilies
RestrictNamespaces RestrictRealtime RestrictSUIDSGID SystemCallArchitectures SystemCallFilter
SystemCallLog""".split())
MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "man", "cryo.7")
HARDENED = """
for directory in /usr /etc; do
    mount --bind "$directory" "$directory"
    mount -o remount,bind,ro "$directory"
done
mount -t proc -o hidepid=invisible proc /proc
umask 077
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all \
    --ambient-caps=-all --no-new-privs "$@"
"""


def have_a_filter():
    """One that allows everything."""
    libc = ctypes.CDLL(None)
    allow = struct.pack("HBBI", 6, 0, 0, 0x7fff0000) # BPF_RET SECCOMP_RET_ALLOW
    text = ctypes.create_string_buffer(allow, len(allow))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(text))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, program) == 0 # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


class Service(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-service.")
        self.addCleanup(shutil.rmtree, self.top)
        self.state = os.path.join(self.top, "state")
        os.mkdir(self.state)
        with open(os.path.join(self.top, "count.py"), "x", encoding="ascii") as file:
            file.write(COUNT)
        self.program = None
        self.addCleanup(self.end)

    def end(self):
        if self.program:
            self.kill(signal.SIGKILL)
            wait_until("the end of its keeper", lambda: not self.keeper())

    def variables(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("CRYO_", "LD_PRELOAD"))}
        return {**kept, "PATH": f"{BIN}:/usr/bin:/bin", "STATE_DIRECTORY": self.state,
                "PROGRAM": f"{sys.executable} count.py", "INTERVAL": "100ms",
                "RESTART_OPTIONS": "--no-restore-pid", **more}

    def start(self, *within, **more):
        """`within`: a command that executes it."""
        with open(os.path.join(self.top, "errors"), "ab") as errors:
            self.program = subprocess.Popen( # pylint: disable=consider-using-with
                [*within, SERVICE, "start"], env=self.variables(**more), cwd=self.top,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True)

    def run_it(self, word, **more):
        done = subprocess.run([SERVICE, word], env=self.variables(**more), cwd=self.top, text=True,
                              capture_output=True, check=False, timeout=PATIENCE)
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)
        return done.stderr

    def kill(self, number):
        """As systemd does it: the main process, and then what has remained but the keeper."""
        if self.program.poll() is None:
            os.killpg(self.program.pid, number)
        self.program.wait(PATIENCE)

    def keeper(self):
        """Its pid, while it lives."""
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    text = file.read()
                if "(keeper)" in text and text.rsplit(")", 1)[1].split()[0] not in "ZX" and \
                        self.top in os.readlink(f"/proc/{entry}/fd/2"):
                    return int(entry)
            except (OSError, IndexError):
                pass
        return None

    def has_ready_keeper(self):
        """It takes SIGTERM for an order now, and is not ended by it."""
        keeper = self.keeper()
        if not keeper:
            return False
        with open(f"/proc/{keeper}/status", encoding="ascii", errors="replace") as file:
            blocked = re.search(r"^SigBlk:\s+(\w+)$", file.read(), re.MULTILINE)[1]
        return bool(int(blocked, 16) & 1 << (signal.SIGTERM - 1))

    def numbers(self):
        try:
            with open(os.path.join(self.top, "numbers"), encoding="ascii") as file:
                return [int(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def await_more(self):
        before = len(self.numbers())
        wait_until("further numbers", lambda: len(self.numbers()) > before + 5)
        numbers = self.numbers()
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)

    def latest(self):
        try:
            return os.stat(os.path.join(self.state, "run", "latest")).st_ino
        except FileNotFoundError:
            return None

    def await_image(self):
        before = self.latest()
        wait_until("an image", lambda: self.latest() not in (None, before))

    def said(self):
        with open(os.path.join(self.top, "errors"), encoding="utf-8") as file:
            return file.read()

    def test_after_a_crash(self):
        self.start()
        for _ in range(2):
            self.await_image()
            self.await_more()
            self.kill(signal.SIGKILL)
            wait_until("the end of its keeper", lambda: not self.keeper())
            self.run_it("stop") # systemd does so, without MAINPID
            self.run_it("ended", EXIT_CODE="killed", EXIT_STATUS="KILL")
            self.start()
            wait_until("the restart", lambda: "goes on after" in self.said())
            self.await_more()

    def test_stop(self):
        """All that was done before the stop is in the image, whatever the program does at its end."""
        self.start()
        self.await_image()
        before = len(self.numbers())
        self.assertEqual("", self.run_it("stop", MAINPID=str(self.program.pid)))
        self.assertIsNone(self.keeper())
        self.kill(signal.SIGTERM)
        self.run_it("ended", EXIT_CODE="exited", EXIT_STATUS="0")
        with open(os.path.join(self.top, "numbers"), "r+b") as file: # an image has no contents of it
            size = os.fstat(file.fileno()).st_size
            file.write(bytes(size))
        self.start()
        wait_until("numbers after the restart", lambda: b"\n" in self.written())
        first = int(self.written().lstrip(b"\0").split(b"\n")[0])
        self.assertGreater(first, before)

    def written(self):
        with open(os.path.join(self.top, "numbers"), "rb") as file:
            return file.read()

    def test_stop_before_the_first_image(self):
        self.start(INTERVAL="1h")
        wait_until("numbers", lambda: len(self.numbers()) > 5)
        self.assertIsNone(self.latest())
        self.assertEqual("", self.run_it("stop", MAINPID=str(self.program.pid)))
        self.assertIsNotNone(self.latest())

    def test_stop_after_a_restart(self):
        """The main process is cr_restart then, and the program descends from it."""
        self.start()
        self.await_image()
        self.kill(signal.SIGKILL)
        wait_until("the end of its keeper", lambda: not self.keeper())
        self.start(INTERVAL="1h")
        wait_until("its keeper", self.has_ready_keeper)
        before = self.latest()
        self.assertEqual("", self.run_it("stop", MAINPID=str(self.program.pid)))
        self.assertNotEqual(before, self.latest())

    def test_stop_without_a_keeper(self):
        self.start()
        self.await_image()
        os.kill(self.keeper(), signal.SIGKILL)
        wait_until("its end", lambda: not self.keeper())
        self.assertIn("no keeper is there", self.run_it("stop", MAINPID=str(self.program.pid)))
        self.await_more()

    @unittest.skipUnless(os.geteuid() == 0, "only root can act as another user")
    def test_stop_passes_over_what_others_call_a_keeper(self):
        """It takes the words of a keeper for a time to sleep, and is not told to end."""
        os.chmod(self.top, 0o755)
        place = os.path.join(self.top, "cryo")
        os.mkdir(place)
        impostor = os.path.join(place, "keeper")
        shutil.copy(shutil.which("sleep"), impostor)
        os.chmod(impostor, 0o755)
        self.start(INTERVAL="1h")
        wait_until("its keeper", self.has_ready_keeper)
        with subprocess.Popen([impostor, str(self.program.pid)], user=65534, group=65534, cwd="/",
                              stderr=subprocess.DEVNULL) as other:
            self.addCleanup(other.kill)
            self.assertEqual("", self.run_it("stop", MAINPID=str(self.program.pid)))
            self.assertIsNotNone(self.latest())
            self.assertIsNone(self.keeper())
            self.assertIn("no keeper is there", self.run_it("stop", MAINPID=str(self.program.pid)))
            self.assertIsNone(other.poll())
            other.kill()

    def test_stop_passes_over_a_child_of_the_keeper(self):
        """It copies an image for as long as that takes, and may have a number before the keeper's."""
        place = os.path.join(self.top, "cryo")
        os.mkdir(place)
        keeper = os.path.join(place, "keeper")
        shutil.copy(shutil.which("sleep"), keeper)
        main = str(os.getpid())
        for leads in False, True:
            process = subprocess.Popen( # pylint: disable=consider-using-with
                [keeper, main], start_new_session=leads, cwd="/", stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            said = self.run_it("stop", MAINPID=main)
            if leads:
                self.assertEqual("", said)
                self.assertEqual(-signal.SIGTERM, process.wait(PATIENCE))
            else:
                self.assertIn("no keeper is there", said)
                self.assertIsNone(process.poll())

    @unittest.skipUnless(os.geteuid() == 0, "only root makes mount namespaces")
    def test_hardened(self):
        """As ProtectSystem=, ProtectProc=, ProtectControlGroups=, NoNewPrivileges=, CapabilityBoundingSet=,
        UMask= and User= have it: each start is in a mount namespace of its own."""
        with open(os.path.join(self.top, "count.pl"), "x", encoding="ascii") as file:
            file.write(COUNT_FOR_OTHERS)
        with open(os.path.join(self.top, "errors"), "xb"):
            pass
        for name in "", "errors", "state":
            os.chown(os.path.join(self.top, name), 65534, 65534)
        within = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", HARDENED, "sh"]
        numbers = 0
        for _ in range(3):
            self.start(*within, PROGRAM="perl count.pl")
            self.await_image()
            self.await_more()
            self.assertGreater(len(self.numbers()), numbers)
            numbers = len(self.numbers())
            for field, value in (("NoNewPrivs", "1"), ("CapBnd", "0" * 16)):
                self.assertEqual(value, self.of_status(field))
            self.kill(signal.SIGKILL)
            wait_until("the end of its keeper", lambda: not self.keeper())
        self.assertEqual(2, self.said().count("goes on after"))

    def of_status(self, field):
        with open(f"/proc/{self.program.pid}/status", encoding="ascii", errors="replace") as file:
            return re.search(rf"^{field}:\s+(\w+)$", file.read(), re.MULTILINE)[1]

    def test_filtered(self):
        """Before anything is started that could never be saved."""
        done = subprocess.run([SERVICE, "start"], env=self.variables(), text=True, capture_output=True,
                              cwd=self.top, check=False, timeout=PATIENCE, preexec_fn=have_a_filter)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("this unit has a seccomp filter", done.stderr)
        self.assertEqual([], self.numbers())

    def test_settings_are_words(self):
        """Not patterns; a second directory stays apart from what has completed."""
        place = os.path.join(self.top, "commands")
        os.mkdir(place)
        for name in "cr_run", "cr_restart":
            with open(os.path.join(place, name), "x", encoding="ascii") as file:
                file.write('#!/bin/sh\necho "$0" "$@" >&2\n')
            os.chmod(os.path.join(place, name), 0o755)
        more = {"PATH": f"{place}:/usr/bin:/bin", "PROGRAM": "echo * [a-z]*", "OPTIONS": "--log c*",
                "RESTART_OPTIONS": "--pid*"}
        common = f"--interval 100ms --into {self.state}/run"
        self.assertEqual(f"{place}/cr_run {common} --log c* -- echo * [a-z]*\n",
                         self.run_it("start", **more))
        more["SECOND"] = "/backup/a name"
        self.assertEqual(f"{place}/cr_run {common} --second /backup/a name/run --log c* -- echo * [a-z]*\n",
                         self.run_it("start", **more))
        os.mkdir(os.path.join(self.state, "run"))
        with open(os.path.join(self.state, "run", "latest"), "xb"):
            pass
        self.assertEqual(f"{place}/cr_restart --no-restore-sid --interval 100ms --second /backup/a name/run --log c* --pid* "
                         f"{self.state}/run/latest\n", self.run_it("start", **more))

    def test_images_without_a_latest(self):
        run = os.path.join(self.state, "run")
        os.mkdir(run)
        for name in "context.000009", "context.000010":
            with open(os.path.join(run, name), "xb"):
                pass
        done = subprocess.run([SERVICE, "start"], env=self.variables(), text=True, capture_output=True,
                              cwd=self.top, check=False, timeout=PATIENCE)
        self.assertEqual(1, done.returncode)
        self.assertIn("make that a link to the newest, context.000010, or", done.stderr)
        self.assertEqual([], self.numbers())

    def test_completed_with_a_second_directory(self):
        """Images of both directories are put aside, by the same number."""
        second = os.path.join(self.top, "second")
        os.mkdir(second)
        os.mkdir(os.path.join(second, "completed.1")) # of a node that was there before
        for count in 2, 3:
            self.start(SECOND=second)
            wait_until("a copy", lambda: os.path.lexists(os.path.join(second, "run", "latest")))
            with open(os.path.join(self.top, "finish"), "xb"):
                pass
            self.assertEqual(0, self.program.wait(PATIENCE), self.said())
            wait_until("the end of its keeper", lambda: not self.keeper())
            self.run_it("ended", SECOND=second, EXIT_CODE="exited", EXIT_STATUS="0")
            os.unlink(os.path.join(self.top, "finish"))
            self.assertEqual([f"completed.{number}" for number in range(2, count + 1)],
                             sorted(os.listdir(self.state)))
            self.assertEqual([f"completed.{number}" for number in range(1, count + 1)],
                             sorted(os.listdir(second)))
        self.start(SECOND=second)
        self.await_image()
        self.assertNotIn("goes on after", self.said())

    def test_completed(self):
        """The next start begins anew, and nothing is removed."""
        for count in 1, 2:
            self.start()
            self.await_image()
            with open(os.path.join(self.top, "finish"), "xb"):
                pass
            self.assertEqual(0, self.program.wait(PATIENCE), self.said())
            wait_until("the end of its keeper", lambda: not self.keeper())
            self.run_it("stop")
            self.run_it("ended", EXIT_CODE="exited", EXIT_STATUS="0")
            os.unlink(os.path.join(self.top, "finish"))
            self.assertEqual([f"completed.{number}" for number in range(1, count + 1)],
                             sorted(os.listdir(self.state)))
        self.start()
        self.await_image()
        self.assertNotIn("goes on after", self.said())

    def test_wrong_settings(self):
        for missing in "STATE_DIRECTORY", "PROGRAM":
            done = subprocess.run([SERVICE, "start"], env=self.variables(**{missing: ""}), text=True,
                                  capture_output=True, check=False, timeout=PATIENCE)
            self.assertEqual(1, done.returncode)
            self.assertIn(f"cryo service: {missing} is not set", done.stderr)

    def test_unit(self):
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str
        unit.read(UNIT, encoding="utf-8")
        self.assertEqual(["Unit", "Service", "Install"], unit.sections())
        for key, word in (("ExecStart", "start"), ("ExecStop", "stop"), ("ExecStopPost", "ended")):
            path, said = unit["Service"][key].split()
            self.assertRegex(path, r"^/.*/cryo/service$")
            self.assertEqual(word, said)
        self.assertEqual("/etc/cryo/%i.conf", unit["Service"]["EnvironmentFile"])
        self.assertEqual("cryo/%i", unit["Service"]["StateDirectory"])
        self.assertEqual(set(), FILTERING & set(unit["Service"]))

    def test_settings_that_filter_are_named(self):
        with open(MANUAL, encoding="utf-8") as file:
            manual = file.read()
        self.assertEqual([], [name for name in sorted(FILTERING) if f"{name}=" not in manual])


if shutil.which("systemd-analyze"):
    class Unit(unittest.TestCase):
        """As systemd reads it."""

        def test_unit(self):
            with open(UNIT, encoding="utf-8") as file:
                text = file.read()
            path = text.split("ExecStart=")[1].split()[0]
            with tempfile.TemporaryDirectory(prefix="cryo-service.") as top:
                name = os.path.join(top, "cryo@name.service")
                with open(name, "x", encoding="utf-8") as file:
                    file.write(text.replace(path, SERVICE))
                done = subprocess.run(["systemd-analyze", "verify", "--man=no", name], text=True,
                                      capture_output=True, check=False, timeout=PATIENCE)
            about = [line for line in done.stderr.splitlines() if "cryo@" in line]
            self.assertEqual((0, []), (done.returncode, about), done.stderr)


if __name__ == "__main__":
    unittest.main()
