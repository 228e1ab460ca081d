#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that executes another one again and again is never ended by a checkpoint that comes
then, whichever way it does it."""
import errno
import os
import signal
import socket
import subprocess
import time

import case
import processes

TIMES = 300
# Executes itself with a smaller number, by exec or by the number of the system call, until it has been
# saved once at least.
ENDS = "exit 0 if $n == 0 and -e 'saved';"
BY_EXEC = ENDS + "exec @next;"
BY_NUMBER = ENDS + """
my @variables = map { "$_=$ENV{$_}" } keys %ENV;
my ($arguments, $environment) = (pack("p* x8", @next), pack("p* x8", @variables));
syscall(59, $next[0], $arguments, $environment);
"""
SELF = 'my $n = $ARGV[0]; my @next = ("/usr/bin/perl", "-e", $ENV{CODE}, $n && $n - 1);'


# A thread of it, which blocks every signal, executes another program as soon as somebody traces it.
BY_A_THREAD = """
import signal, threading, time
def other():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    print(threading.get_native_id(), flush=True)
    status = f"/proc/self/task/{threading.get_native_id()}/status"
    while "TracerPid:\\t0" in open(status).read():
        time.sleep(0.01)
    os.execv("/bin/cat", ["cat"])
"""


def enters(tid, number):
    """Lets a thread go, whom we trace, until it is about to enter the system call."""
    ptrace_syscall, ptrace_interrupt, wait_for_threads = 24, 0x4207, 0x40000000
    case.ptrace(ptrace_interrupt, tid)
    while True:
        os.waitpid(tid, wait_for_threads)
        with open(f"/proc/{tid}/syscall", encoding="ascii") as file:
            if file.read().split()[0] == str(number):
                return
        case.ptrace(ptrace_syscall, tid)


class Exec(case.Case):
    def run_through(self, code):
        code = SELF + code
        program = self.spawn(case.command("cr_run"), "/usr/bin/env", f"CODE={code}",
                             "/usr/bin/perl", "-e", code, TIMES, stderr=subprocess.PIPE)
        end = time.monotonic() + 2 * case.PATIENCE
        while program.poll() is None:
            self.assertLess(time.monotonic(), end, "it has never been saved")
            if self.checkpoint("-q", "--nosync", "-f", "image", program.pid).returncode == 0:
                with open(self.path("saved"), "w", encoding="ascii"):
                    pass
        self.assertEqual((0, ""), (program.returncode, program.stderr.read()))

    def test_no_signal_when_it_executes(self):
        """None that would be there when the actions are set back, and end the other program."""
        program = self.start("import os" + BY_A_THREAD, "threading.Thread(target=other).start()")
        self.assert_alive(program)
        tid = int(program.stdout.readline())
        self.assertTrue(case.seize(tid))
        try:
            enters(tid, 59)  # execve
            said = self.refuse(errno.EBUSY, "-f", "image", program.pid)
            self.assertIn(f"thread {tid} does not answer", said)
            pending = int(case.status(tid, "SigPnd"), 16)
            self.assertEqual(1 << signal.SIGRTMAX - 1, pending, f"{pending:x}")
        finally:
            case.let_go(tid)
        # Until then its first thread reads what it is told.
        case.wait_until("it executes", lambda: case.status(program.pid, "Name") == "cat")
        program.stdin.write("word\n")
        program.stdin.flush()
        self.assertEqual("word\n", program.stdout.readline())

    def test_by_exec(self):
        self.run_through(BY_EXEC)

    def test_by_number(self):
        self.run_through(BY_NUMBER)


# Programs that are executed without the variables that cr_run has set.
CLEANED = {
    "execve": "os.execve(CAT, ['cat'], {})",
    "execv": "os.environ.clear(); os.execv(CAT, ['cat'])",
    "execvp": "os.environ.clear(); os.environ['PATH'] = '/usr/bin'; os.execvp('cat', ['cat'])",
    "fexecve": "os.execve(os.open(CAT, os.O_RDONLY), ['cat'], {})",
    "env -i": "os.execvp('env', ['env', '-i', CAT])",
    "posix_spawn": "os.waitpid(os.posix_spawn(CAT, ['cat'], {}), 0)",
    "posix_spawnp": "os.waitpid(os.posix_spawnp('cat', ['cat'], {}), 0)",
    "vfork": "subprocess.run(['cat'], env={})",
    "system": "os.environ.clear(); os.system('exec cat')",
    "system, quoted": "os.environ.clear(); os.system('''printf '%s' 'a b'\\\\''c' >quoted; cat; true''')",
    "clearenv, then system": "LIBC.clearenv(); os.system('exec cat')",
    "popen": "os.environ.clear(); os.dup2(1, 9); LIBC.pclose(V(LIBC.popen(b'exec cat >&9', b'r')))",
    "another library": "os.execve(CAT, ['cat'], {'LD_PRELOAD': '/lib/x86_64-linux-gnu/libm.so.6'})",
}


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0")[:-1]


class Cleaned(case.Case):
    """They stay under cr_run."""

    def cat(self, how, *options, **where):
        """A program under cr_run that has come to be `cat`, and the pid of that."""
        program = self.spawn(case.command("cr_run"), *options, "/usr/bin/python3", "-S", "-c",
                             "import ctypes, os, subprocess; CAT = '/usr/bin/cat'; V = ctypes.c_void_p; "
                             f"LIBC = ctypes.CDLL(None); LIBC.popen.restype = V; {how}",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, **where)
        program.stdin.write("there\n")
        program.stdin.flush()
        self.assertEqual("there\n", program.stdout.readline())
        family = [program.pid, *processes.family(program.pid)]
        return program, next(pid for pid in family if case.status(pid, "Name") == "cat")

    def test_each_way(self):
        for name, how in CLEANED.items():
            with self.subTest(name):
                program, pid = self.cat(how)
                self.save("--clobber", "-f", "image", program.pid)
                preloaded = [one for one in environment_of(pid) if one.startswith(b"LD_PRELOAD=")]
                self.assertEqual(1, len(preloaded))
                self.assertIn(b"libcr_run.so", preloaded[0])
                self.end(program)

    def test_commands_of_shells_stay_as_they_are(self):
        program = self.cat(CLEANED["system, quoted"])[0]
        with open(self.path("quoted"), encoding="ascii") as file:
            self.assertEqual("a b'c", file.read())
        self.end(program)

    def test_nothing_else_is_added(self):
        program, pid = self.cat("os.execve(CAT, ['cat'], {'A': '1', 'B': '2'})", "--signal", "40")
        self.assertEqual([b"CRYO_SIGNAL=40", b"A=1", b"B=2"], environment_of(pid)[1:])
        self.save("-f", "image", program.pid)
        self.end(program)

    def test_what_an_image_notes(self):
        """The choice of a CPU, with what makes it so, and the inherited sockets."""
        for name in ("execve", "env -i", "system", "popen"):
            ours, theirs = socket.socketpair()
            with self.subTest(name), ours, theirs:
                program, pid = self.cat(CLEANED[name], "--cpu=baseline", pass_fds=[ours.fileno()])
                found = dict(one.split(b"=", 1) for one in environment_of(pid))
                self.assertEqual(b"baseline", found[b"CRYO_CPU"])
                self.assertIn(b"glibc.cpu.hwcaps=", found[b"GLIBC_TUNABLES"])
                self.assertIn(str(os.fstat(ours.fileno()).st_ino).encode(), found[b"CRYO_INHERITED"])
                self.end(program)

    def test_choice_of_a_cpu_without_its_settings(self):
        """A program that gets other settings of the C library has not that choice."""
        program, pid = self.cat("os.execve(CAT, ['cat'], {'GLIBC_TUNABLES': ''})", "--cpu=baseline")
        self.assertEqual([b"GLIBC_TUNABLES="], environment_of(pid)[1:])
        self.end(program)

    def test_its_own_commands_are_left_alone(self):
        program, pid = self.cat("os.execve(CAT, ['cat'], {'CRYO_OUTSIDE': '1'})")
        self.assertEqual([b"CRYO_OUTSIDE=1"], environment_of(pid))
        self.end(program)


if __name__ == "__main__":
    case.main()
