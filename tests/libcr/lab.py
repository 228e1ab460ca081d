# SPDX-License-Identifier: Apache-2.0
"""What the tests of libcr share: starting a client, saving it, bringing it back, reading its log.

    with Lab() as lab:                      # a directory of its own; nothing is left running
        program = lab.start("t1", "s1:early")
        done = lab.checkpoint(program)      # a finished cr_checkpoint
        lab.restart()
        lab.log()                           # the lines after "ready"
"""

import atexit
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "system", "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 60


def door(pid):
    """Where a process's agent listens: a descriptor of a file that has no name any more."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        if os.path.basename(os.readlink(path)).startswith(f"cryo.{pid}."):
            return path
    raise AssertionError(f"process {pid} does not listen")


class Lab:
    """One test's directory and processes."""
    commands = clients = ""  # directories of a build
    with_cr_run = False

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="libcr.")
        self.image = os.path.join(self.directory, "image")
        self.path = os.path.join(self.directory, "log")
        return self

    def __exit__(self, *_):
        processes.kill_family(os.getpid())
        shutil.rmtree(self.directory)

    def command(self, name, *arguments):
        """A command line of one of Cryo's commands."""
        return [os.path.join(self.commands, name), *arguments]

    def run(self, name, *arguments, **options):
        """Runs one of Cryo's commands to its end."""
        return subprocess.run(self.command(name, *arguments), capture_output=True, text=True,
                              check=False, timeout=PATIENCE, cwd=self.directory, **options)

    def start(self, *words, run=None, client="client"):
        """Starts a client, and waits until it is ready. `run`: the options of cr_run, or None."""
        command = [os.path.join(self.clients, client), self.path, *filter(None, words)]
        if run is None and self.with_cr_run:
            run = []
        if run is not None:
            command = self.command("cr_run", *run) + command
        # Descriptors of its own: those of the tests may be somebody else's.
        with open(self.path + ".output", "ab") as output:
            program = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output)
        self.await_line("ready", program)
        return program

    def checkpoint(self, program, *options):
        """A finished cr_checkpoint; of the child, where `program` is a cr_restart."""
        return self.run("cr_checkpoint", *options, "-f", self.image, str(self.pid_of(program)))

    def pid_of(self, program):
        """The client's own pid."""
        if program.args[0] == self.command("cr_restart")[0]:
            return processes.children(program.pid)[0]
        return program.pid

    def restart(self, *options):
        """A running cr_restart. Without old pids where there are none to be had."""
        # The file that told the original to end would make the copy end before its callbacks have.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path + ".end")
        if not processes.keep_ids():
            options = ("--no-restore-pid", *options)
        return subprocess.Popen(self.command("cr_restart", *options, self.image),
                                cwd=self.directory, stderr=subprocess.PIPE, text=True)

    def lines(self):
        """The log as it is now."""
        with open(self.path, encoding="utf-8") as file:
            return file.read().split("\n")[:-1]

    def output(self):
        """What the clients have printed."""
        with open(self.path + ".output", encoding="utf-8") as output:
            return output.read()

    def log(self):
        """The log without its first line."""
        return self.lines()[1:]

    def await_line(self, start, program=None, count=1):
        """Waits until COUNT lines of the log begin so."""
        def there():
            return os.path.exists(self.path) and sum(
                line.startswith(start) for line in self.lines()) >= count
        self.wait_for(there, f"{count} × '{start}' in the log", program)

    @staticmethod
    def wait_for(condition, what, program=None):
        """Waits for a condition; a program that ends meanwhile ends the wait."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if program is not None and program.poll() is not None and not condition():
                raise AssertionError(f"no {what}: the program ended with {program.returncode}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what}\n{processes.describe(os.getpid())}")
            time.sleep(0.002)

    def touch(self, what):
        """Makes LOG.WHAT exist, for which a client waits."""
        with open(f"{self.path}.{what}", "w", encoding="utf-8"):
            pass

    def end(self, program):
        """Tells the client to end; its exit status."""
        self.touch("end")
        return program.wait(PATIENCE)

    def kill(self, program):
        """SIGKILL, and gone."""
        os.kill(self.pid_of(program), signal.SIGKILL)
        program.wait(PATIENCE)


class Case(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        self.lab = Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def save(self, program, *options, code=0):
        """cr_checkpoint with that exit code."""
        done = self.lab.checkpoint(program, *options)
        self.assertEqual(done.returncode, code & 0xff, done.stderr + done.stdout)
        if code != 0:
            self.assertFalse(os.path.exists(self.lab.image))
        return done

    def goes_on(self, program, code=9):
        """The program lives, and can be saved and ended."""
        self.assertIsNone(program.poll())
        self.assertEqual(self.lab.end(program), code)

    def bring_back(self, program, lines):
        """Kills and restarts it; the log has LINES then."""
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.lab.await_line(lines[-1], again)
        self.assertEqual(self.lab.log(), lines)
        self.goes_on(again)
        again.stderr.close()


def stage(uid):
    """Copies what the tests need to where any user can reach it: the build tree may be private."""
    place = tempfile.mkdtemp(prefix="libcr-stage.", dir="/tmp")
    atexit.register(shutil.rmtree, place)
    build = os.path.dirname(Lab.commands)
    found = glob.glob(os.path.join(build, "lib*", "**", "libcr_run.so"), recursive=True)[0]
    libraries = os.path.relpath(os.path.dirname(found), build)
    for name in ("bin", libraries):
        shutil.copytree(os.path.join(build, name), os.path.join(place, name), symlinks=True)
    Lab.commands = os.path.join(place, "bin")
    Lab.clients = shutil.copytree(Lab.clients, os.path.join(place, "clients"))
    for folder, folders, files in os.walk(place):
        for name in (".", *folders, *files):
            os.lchown(os.path.join(folder, name), uid, uid)
    os.environ["LD_LIBRARY_PATH"] = os.path.join(place, libraries)
    os.chdir(place)


def main():
    """Runs the tests of the calling script: SCRIPT COMMANDS CLIENTS [--run] [--uid UID] ..."""
    Lab.commands, Lab.clients = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    if "--run" in sys.argv:
        sys.argv.remove("--run")
        Lab.with_cr_run = True
    if "--uid" in sys.argv:
        at = sys.argv.index("--uid")
        uid = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
        if os.geteuid() == 0:
            stage(uid)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.environ.update(HOME="/tmp", TMPDIR="/tmp")
    processes.adopt_orphans()
    unittest.main(module="__main__")
