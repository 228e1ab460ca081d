#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The signal that the program gets when its image is complete, and a program that stands still:
--run -S --stop --term --abort --kill --cont."""
import errno
import os
import signal
import subprocess

import case

BIG = "memory = bytearray(b'x' * (48 << 20))"

# Blocks the checkpoint signal, behind the C library's back, until a request has raised it. Then it
# takes that signal for itself.
TAKES_THE_SIGNAL = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
static volatile int handled;
static void handle(int number) { handled = number; }
static long raw(long number, long a, const void *b, long c, long d)
{
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return number;
}
int main(void)
{
    char line[100];
    const uint64_t ours = UINT64_C(1) << (SIGRTMAX - 1);
    uint64_t pending = 0;
    struct sigaction action = {.sa_handler = handle};
    setvbuf(stdout, NULL, _IOLBF, 0);
    raw(SYS_rt_sigprocmask, SIG_BLOCK, &ours, 0, 8);
    puts("ready");
    while ((pending & ours) == 0) {
        raw(SYS_sched_yield, 0, NULL, 0, 0);
        raw(SYS_rt_sigpending, (long)&pending, (void *)8, 0, 0);
    }
    sigaction(SIGRTMAX, &action, NULL);
    raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &ours, 0, 8);
    printf("handled %d\n", handled);
    raise(SIGRTMAX);
    printf("handled %d\n", handled);
    while (fgets(line, sizeof(line), stdin) != NULL)
        printf("echo %s", line);
    return 0;
}
"""


class Signals(case.Case):
    def test_stop(self):
        """cr_checkpoint waited for an answer that a stopped program cannot give."""
        program = self.start()
        for number, option in enumerate(("--stop", "-S19", "--signal=STOP")):
            image = f"image.{number}"
            self.save("--nosync", option, "-f", image, program.pid)
            self.assertEqual("T", case.state(program.pid))
            os.kill(program.pid, signal.SIGCONT)
            self.assert_alive(program)
        self.end(program)
        self.assert_good("image.0")

    def test_request_as_the_program_takes_the_signal(self):
        """Its handler gets nothing of the request, which is granted."""
        subprocess.run(["cc", "-O1", "-x", "c", "-o", "program", "-"], input=TAKES_THE_SIGNAL,
                       text=True, check=True, cwd=self.directory)
        program = self.spawn(case.command("cr_run"), "./program")
        self.assertEqual("ready\n", program.stdout.readline())
        self.save("-f", "image", program.pid)
        self.assertEqual("handled 0\n", program.stdout.readline())
        self.assertEqual(f"handled {signal.SIGRTMAX}\n", program.stdout.readline())
        self.assert_alive(program)
        self.end(program)

    def test_stop_of_threads(self):
        """All of them stand still before any has gone on."""
        program = self.start("""
import threading, time
counts = [0] * 8
def count(i):
    while True:
        counts[i] += 1
        if counts[i] % 1000 == 0:
            time.sleep(0)
for i in range(8):
    threading.Thread(target=count, args=(i,), daemon=True).start()
""")
        for _ in range(3):
            self.save("--nosync", "--stop", program.pid)
            tasks = os.listdir(f"/proc/{program.pid}/task")
            self.assertEqual(["T"] * 9, [case.state(tid) for tid in tasks])
            os.kill(program.pid, signal.SIGCONT)
        self.assert_alive(program)

    def test_ends(self):
        for option, number in (("--term", signal.SIGTERM), ("--kill", signal.SIGKILL),
                               ("--abort", signal.SIGABRT), ("-S12", signal.SIGUSR2)):
            program = self.start("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
            self.save("--nosync", option, "-f", "image", program.pid)
            self.assertEqual(-number, program.wait(case.PATIENCE))
            self.assert_good("image")

    def test_goes_on(self):
        program = self.start("import signal; signal.signal(signal.SIGCONT, lambda *_: "
                             "print('continued', flush=True))")
        self.save("--nosync", "--run", program.pid)
        self.assert_alive(program)
        self.save("--nosync", "--kill", "--stop", "--run", program.pid)
        self.assert_alive(program)
        self.save("--nosync", "--cont", program.pid)
        self.assertEqual("continued\n", program.stdout.readline())
        self.assert_alive(program)

    def test_no_signal_without_an_image(self):
        program = self.start()
        for option in ("--kill", "--stop", "--term"):
            self.refuse(errno.ENOSPC, option, "--clobber", "-f", "/dev/full", program.pid)
            self.assert_alive(program)

    def test_stopped_program(self):
        program = self.start()
        os.kill(program.pid, signal.SIGSTOP)
        case.wait_until("the stop", lambda: case.state(program.pid) == "T")
        for name in ("first", "second", "third"):
            done = self.checkpoint("-f", name, *(("--stop",) if name == "third" else ()),
                                   program.pid)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual("T", case.state(program.pid))
        back = self.restart("-q", "second")
        (pid,) = case.wait_until("its coming back", lambda: [
            entry for entry in os.listdir("/proc")
            if entry.isdigit() and case.status(entry, "PPid") == str(back.pid)
            and case.state(entry) == "T"])
        os.kill(int(pid), signal.SIGCONT)
        self.assert_alive(back)
        # The saved program was not continued, so its parent has heard of no continuation.
        self.assertIsNone(os.waitid(os.P_PID, program.pid, os.WCONTINUED | os.WNOHANG))
        os.kill(program.pid, signal.SIGCONT)
        self.assert_alive(program)

    def traced(self, back):
        """The first process of a restart that has just begun, with us as its tracer."""
        def found():
            self.assertIsNone(back.poll(), "it was too quick to be traced")
            with open(f"/proc/{back.pid}/task/{back.pid}/children", encoding="ascii") as children:
                return [pid for pid in map(int, children.read().split()) if case.seize(pid)]
        (pid,) = case.wait_until("its first process", found)
        return pid

    def saved_as_stopped(self):
        program = self.start(BIG)
        os.kill(program.pid, signal.SIGSTOP)
        case.wait_until("the stop", lambda: case.state(program.pid) == "T")
        self.save("--nosync", "-f", "image", program.pid)

    def test_stopped_program_that_is_continued_at_once(self):
        """Before cr_restart has seen it stop: a tracer takes the stop away, and goes."""
        self.saved_as_stopped()
        back = self.restart("-q", "image")
        pid = self.traced(back)
        wall = 0x40000000
        while (status := os.waitpid(pid, wall)[1]) and os.WSTOPSIG(status) != signal.SIGSTOP:
            self.assertTrue(os.WIFSTOPPED(status), status)
            case.let_go_on(pid, os.WSTOPSIG(status))
        case.let_go(pid)
        self.assert_alive(back)

    def test_stopped_program_that_cannot_stop_again(self):
        """A tracer holds its first thread, which so is not stopped: the restart fails."""
        self.saved_as_stopped()
        back = self.restart("-q", "image", stderr=subprocess.PIPE)
        pid = self.traced(back)
        # A tracer is the first to hear of the end of its tracee.
        case.wait_until("its end", lambda: os.WIFSIGNALED(os.waitpid(pid, 0x40000000)[1]))
        self.assertEqual(errno.ETIMEDOUT, back.wait(case.PATIENCE))
        self.assertIn("does not stop again", back.stderr.read())


if __name__ == "__main__":
    case.main()
