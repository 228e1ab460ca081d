# SPDX-License-Identifier: Apache-2.0
"""A test of the commands: a directory of its own, and programs that are gone when it ends.

    class Topic(case.Case):
        def test_one(self):
            program = self.start()
            self.assertEqual(0, self.checkpoint("-f", "image", program.pid).returncode)
    case.main()
"""
import contextlib
import ctypes
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402
from waiting import PATIENCE, wait_until  # noqa: E402

BIN = ""

# Says that it is there, and then what it is told.
ECHO = """
import sys
{setup}
print("ready", flush=True)
for line in sys.stdin:
    sys.stdout.write(f"echo {{line.strip()}}\\n")  # at once: a signal's handler may write, too
    sys.stdout.flush()
    {each}
"""


# The pid namespace in which a test that chooses ids was started.
OUTER_IDS = "CRYO_TEST_OUTER_IDS"


def need_own_ids():
    """Goes on, of root, in a pid namespace of its own. Ids that are chosen among all of the machine's
    are given to processes of other tests as well: one that a test beside this one is about to
    restart with is in use then, and one that has ended there, and is killed to be sure, is alive."""
    if os.geteuid() == 0 and OUTER_IDS not in os.environ:
        os.environ[OUTER_IDS] = os.readlink("/proc/self/ns/pid")
        reaper = '"$@"; exit $?'  # a shell, as its first process: orphans are its children
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                              reaper, "sh", sys.executable, "-B", *sys.argv])


@contextlib.contextmanager
def next_id(pid):
    """The next process has this id, unless others are faster; afterwards ids go on from where they
    were, as what follows may be wanted by a restart. See need_own_ids()."""
    if os.environ.get(OUTER_IDS) in (None, os.readlink("/proc/self/ns/pid")):
        raise AssertionError("ids are chosen in a pid namespace of the test's own only")
    with open("/proc/sys/kernel/ns_last_pid", "r+", encoding="ascii") as last:
        before = last.read()
        last.seek(0)
        last.write(str(pid - 1))
        last.flush()
        try:
            yield
        finally:
            last.seek(0)
            last.write(before)


def command(name):
    return os.path.join(BIN, name)


def status(pid, field):
    """A field of /proc/PID/status, or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return line.split(":", 1)[1].strip()
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def state(pid):
    return (status(pid, "State") or "gone")[0]


def await_sleep(pid):
    """Of one that waits for something, and is neither stopped nor frozen."""
    wait_until("its sleep", lambda: state(pid) == "S")


def line_that_waits(pid):
    """What the process would write to its standard error, a pipe that is full; None: it does not stand there.
    One that has just written, or has just got room, is in that call for a moment, too, and does not sleep."""
    def call():
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return file.read().split()
    try:
        words = call()
        if words[:2] != ["1", "0x2"] or state(pid) != "S" or call() != words:
            return None
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(int(words[2], 16))
            return memory.read(int(words[3], 16)).decode()
    except OSError:
        return None


def kill(pid):
    """One that the test has started and that is nobody's here; it may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descriptor_limits(soft, hard):
    """For preexec_fn. Root has no privilege to go beyond them."""
    drop_from_bounding_set, raise_limits = 24, 24

    def apply():
        ctypes.CDLL(None).prctl(drop_from_bounding_set, raise_limits, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return apply


def ptrace(request, pid, data=0):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    return libc.ptrace(request, pid, 0, data) == 0


def seize(pid):
    """Becomes its tracer, without stopping it. False: it is gone, or traced already."""
    return ptrace(0x4206, pid)


def let_go_on(pid, number):
    """With that signal."""
    return ptrace(7, pid, number)


def let_go(pid):
    """Is its tracer no more; the signal that it stands at is as if it had not been sent."""
    return ptrace(17, pid)


class Case(unittest.TestCase):
    """Paths are relative to the test's directory, in which the commands run."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cryo-commands.")
        self.started = []

    def tearDown(self):
        for program in reversed(self.started):  # who traces another one goes first
            self.end(program)
        shutil.rmtree(self.directory)

    @staticmethod
    def end(program):
        if program.poll() is None:
            family = processes.family(program.pid)  # what leads a session is not in its group
            os.killpg(program.pid, signal.SIGKILL)
            for pid in family:
                kill(pid)
        program.wait()
        for stream in (program.stdin, program.stdout, program.stderr):
            if stream:
                stream.close()

    def path(self, name):
        return os.path.join(self.directory, name)

    def spawn(self, *words, **where):
        """Starts a command; standard streams are pipes to us."""
        where = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": self.directory,
                 "start_new_session": True, "text": True, **where}
        program = subprocess.Popen([str(word) for word in words], **where)
        self.started.append(program)
        return program

    def start(self, setup="", each="pass", python="/usr/bin/python3", **where):
        """A program under cr_run that answers lines."""
        code = ECHO.format(setup=setup, each=each)
        program = self.spawn(command("cr_run"), python, "-S", "-c", code, **where)
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def run_command(self, name, *words, **where):
        where = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True,
                 "timeout": PATIENCE, **where}
        return subprocess.run([command(name), *(str(word) for word in words)],
                              cwd=self.directory, check=False, **where)

    def checkpoint(self, *words, **where):
        return self.run_command("cr_checkpoint", *words, **where)

    def save(self, *words):
        done = self.checkpoint(*words)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def said_of_ended(self, program, phase, *words):
        """By cr_checkpoint when the program is killed before it could say that this phase is over:
        who has ended. There is room for one line, which is read only if it waits to say another one."""
        end, its_end = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(its_end, fcntl.F_SETPIPE_SZ, 4096)
        os.write(its_end, b"\n")
        saver = self.spawn(command("cr_checkpoint"), "-v", *words, program.pid, stderr=its_end)
        os.close(its_end)
        said = ""
        wanted = f"cr_checkpoint: {phase} ("
        while not wait_until("it cannot say more", lambda: line_that_waits(saver.pid)).startswith(wanted):
            said += os.read(end, 4096).decode()
        program.kill()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        while more := os.read(end, 4096).decode():
            said += more
        os.close(end)
        self.assertIn(wanted, said)
        self.assertRegex(said, rf"process {program.pid} (has )?ended")
        self.assertNotEqual(0, saver.wait(PATIENCE), said)
        return said

    def refuse(self, code, *words):
        """A checkpoint that fails with this exit code; what was said."""
        done = self.checkpoint(*words)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stderr

    def restart(self, *words, **where):
        return self.spawn(command("cr_restart"), "--no-restore-pid", *words, **where)

    def assert_alive(self, program, word="there"):
        """It answers."""
        program.stdin.write(word + "\n")
        program.stdin.flush()
        self.assertEqual(f"echo {word}\n", program.stdout.readline())

    def assert_good(self, *words):
        """A restart of it answers."""
        restarted = self.restart("-q", *words)
        self.assert_alive(restarted)
        self.end(restarted)

    def files(self):
        return sorted(os.listdir(self.directory))


def main(plain_user=False, chooses_ids=False):
    """Of root, with `plain_user` or --plain-user among the arguments: as another user."""
    global BIN  # pylint: disable=global-statement
    if chooses_ids and "--plain-user" not in sys.argv:
        need_own_ids()
    BIN = os.path.abspath(sys.argv.pop(1))
    if "--plain-user" in sys.argv:
        sys.argv.remove("--plain-user")
        plain_user = True
    if plain_user:
        processes.become_plain_user(BIN)
    unittest.main()
