# SPDX-License-Identifier: Apache-2.0
"""Programs under `cr_run --recover`, each in a directory of its own."""
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position
from waiting import PATIENCE, wait_until  # noqa: E402  pylint: disable=wrong-import-position

BIN = os.path.abspath(sys.argv.pop(1))
# Numbers, each once, whatever happens in between, until a file is there.
COUNT = """
import os, sys, time
memory = [bytearray(4096) for _ in range(500)]
number = 0
while not os.path.exists("end"):
    number += 1
    memory[number % 500][number % 4096] ^= 255
    print(number, flush=True)
    time.sleep(0.005)
sys.exit({status})
"""
# In the place of cr_checkpoint: an image has its name only when a file is gone.
HOLD = """#!{python}
import os, subprocess, sys, time
words = sys.argv[1:]
at = words.index("-f") + 1
wanted, words[at] = words[at], {held!r}
done = subprocess.run([{real!r}, *words], close_fds=False)
open({ready!r}, "w").close()
while os.path.exists({hold!r}):
    time.sleep(0.005)
if done.returncode == 0:
    os.rename({held!r}, wanted)
sys.exit(done.returncode)
"""


def tool(name):
    return os.path.join(BIN, name)


def executable_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Case(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-recover.")
        self.addCleanup(shutil.rmtree, self.top)
        self.environment = dict(os.environ, CRYO_RUNTIME_DIR=self.path("runtime"))
        self.bin = BIN
        self.supervisors = []
        self.pipes = []  # their standard error
        self.readers = []
        self.reading = threading.Lock()
        self.others = []  # that a test has made and nobody else ends
        self.addCleanup(self.end_all)

    def end_all(self):
        for supervisor in self.supervisors:
            below = processes.family(supervisor.pid)
            if supervisor.poll() is None:
                supervisor.kill()
            supervisor.wait()
            self.others += below
        for pid in self.others:
            if executable_of(pid) != "keeper":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in (*self.others, *self.keepers()):  # a keeper writes into our directory
            wait_until("the end of all", lambda p=pid: not processes.exists(p))
        for reader in self.readers:
            reader.join(PATIENCE)

    def keepers(self):
        """Of programs that have ended just now, too."""
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                if executable_of(pid) == "keeper" and \
                        os.readlink(f"/proc/{pid}/fd/2") in self.pipes:
                    yield pid

    def path(self, *names):
        return os.path.join(self.top, *names)

    def text(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def errors(self):
        """All that has been said until now."""
        wait_until("what was said", lambda: not any(self.is_unread(program.stderr)
                                                    for program in self.supervisors))
        return self.text("err")

    def numbers(self):
        # The last line may be incomplete.
        return [int(line) for line in self.text("out").split("\n")[:-1]]

    def images(self):
        try:
            return sorted(n for n in os.listdir(self.path("one")) if n.startswith("context."))
        except FileNotFoundError:
            return []

    def keeper_log(self):
        return self.text("one/keeper.log").count("on the disk")

    def spawn(self, *words, **more):
        with open(self.path("out"), "ab") as out:
            more = {"stdin": subprocess.DEVNULL, "stdout": out, "start_new_session": True, **more}
            # A file would be cut back by restarts, and with it what the supervisor has said.
            program = subprocess.Popen(words, cwd=self.top, env=self.environment,
                                       stderr=subprocess.PIPE, **more)
        self.pipes.append(os.readlink(f"/proc/self/fd/{program.stderr.fileno()}"))
        reader = threading.Thread(target=self.collect, args=[program.stderr], daemon=True)
        reader.start()
        self.readers.append(reader)
        self.supervisors.append(program)
        return program

    def collect(self, errors):
        with open(self.path("err"), "ab", buffering=0) as to:
            while not errors.closed:
                select.select([errors], [], [])
                with self.reading:
                    text = os.read(errors.fileno(), 65536)
                    to.write(text)
                    if not text:
                        errors.close()

    def is_unread(self, errors):
        with self.reading:
            left = bytearray(4)
            return not errors.closed and fcntl.ioctl(errors, termios.FIONREAD, left) == 0 and any(left)

    def start(self, *words, recover="--recover", interval="100ms", options=(), **more):
        return self.spawn(os.path.join(self.bin, "cr_run"), recover, "--interval", interval, "--into", "one", *options,
                          *words, **more)

    def replace_command(self, name, script):
        """In a tree of its own, to which cr_run is copied, as it looks beside itself."""
        self.bin = self.path("tree", "bin")
        os.makedirs(self.bin)
        os.symlink(os.path.join(BIN, "..", "lib"), self.path("tree", "lib"))
        for other in os.listdir(BIN):
            os.symlink(os.path.join(BIN, other), os.path.join(self.bin, other))
        for own in ("cr_run", name):
            os.unlink(os.path.join(self.bin, own))
        shutil.copy(tool("cr_run"), self.bin)
        with open(os.path.join(self.bin, name), "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(os.path.join(self.bin, name), 0o700)

    def replace_checkpoint(self):
        """By one that hold() keeps from completing an image."""
        self.replace_command("cr_checkpoint", HOLD.format(
            python=sys.executable, real=tool("cr_checkpoint"), held=self.path("one", "held"),
            ready=self.path("ready"), hold=self.path("hold")))
        self.addCleanup(self.release)

    def hold(self, supervisor):
        """An image is under way, and is complete after release()."""
        with open(self.path("hold"), "wb"), contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("ready"))
        os.kill(self.keeper_of(supervisor), signal.SIGUSR1)
        wait_until("the image", lambda: os.path.exists(self.path("ready")))

    def release(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("hold"))

    def python(self, text, **more):
        return self.start(sys.executable, "-c", text, **more)

    def count(self, status=0, **more):
        return self.python(COUNT.format(status=status), **more)

    def let_end(self, supervisor):
        """A program that counts: its exit status. It has told each number once."""
        with open(self.path("end"), "w", encoding="ascii"):
            pass
        status = supervisor.wait(PATIENCE)
        self.assert_counted()
        return status

    def policy(self, text):
        with open(self.path("policy.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        return "--recover=policy.toml"

    def run_status(self, *words):
        return subprocess.run([tool("cr_status"), *words], capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE, check=False)

    def status(self, supervisor):
        done = self.run_status("--json", str(supervisor.pid))
        return json.loads(done.stdout) if done.stdout else {}

    def pid_of(self, supervisor):
        """Of the program, while it runs."""
        def pid():
            self.assertIsNone(supervisor.poll(), "the program has ended")
            return self.status(supervisor).get("pid")
        return wait_until("the program's process", pid)

    @staticmethod
    def pythons(supervisor):
        return [pid for pid in processes.family(supervisor.pid)
                if executable_of(pid).startswith("python") and name_of(pid) != "cryo copy"]

    def started(self, supervisor):
        """Each process of the program, and when it has begun."""
        found = set()
        for pid in self.pythons(supervisor):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
                found.add((pid, file.read().rsplit(")", 1)[1].split()[19]))
        return found

    def await_recovery(self, supervisor, count):
        def is_back():
            self.assertIsNone(supervisor.poll(), self.errors())
            return self.status(supervisor).get("recoveries") == count
        wait_until(f"recovery {count}", is_back)

    @staticmethod
    def keeper_of(supervisor):
        return wait_until("the keeper", lambda: [pid for pid in processes.children(supervisor.pid)
                                                 if executable_of(pid) == "keeper"])[0]

    def make_image(self, supervisor):
        before = self.keeper_log()
        os.kill(self.keeper_of(supervisor), signal.SIGUSR1)
        wait_until("the image", lambda: self.keeper_log() > before)

    def await_images(self, more=1):
        """A number of images that were made from now on."""
        before = self.keeper_log()
        wait_until(f"{more} more images", lambda: self.keeper_log() >= before + more)

    def assert_counted(self):
        numbers = self.numbers()
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
