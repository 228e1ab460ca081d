#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that do not hear the checkpoint signal are named soon; those that wait are waited for."""
import errno
import os
import subprocess
import time

import case

# The C library's functions never block the checkpoint signal; system calls do.
BLOCK = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
def block(how=0):
    mask = ctypes.c_ulong(2 ** 64 - 1)
    assert libc.syscall(14, how, ctypes.byref(mask), 0, 8) == 0
"""

# In a thread, as whose number it is told.
BLOCKS_IN_A_THREAD = BLOCK + """
blocked = threading.Event()
def wait():
    block()
    blocked.set()
    {work}
thread = threading.Thread(target=wait, daemon=True)
thread.start()
blocked.wait()
print(thread.native_id, flush=True)
"""

# Waits in the kernel, with all signals blocked, until the child has opened the FIFO. There is
# nothing that it could execute then, and so it is gone before the signals come.
SPAWN = """
import contextlib, os, threading
def spawn():
    with contextlib.suppress(FileNotFoundError):
        os.posix_spawn("absent", ["absent"], os.environ,
                       file_actions=[(os.POSIX_SPAWN_OPEN, 5, "fifo", os.O_RDONLY, 0)])
"""

# Any function of the C library will do as a handler.
TAKES = """
import ctypes
libc = ctypes.CDLL(None)
action = (ctypes.c_ulong * 4)()
assert libc.syscall(13, 64, None, action, 8) == 0
action[0] = ctypes.cast(libc.abs, ctypes.c_void_p).value
assert libc.syscall(13, 64, action, None, 8) == 0
"""

PATIENT = "--stall=50"  # longer than any of these may take
SOON = 25
AGENT_LIMIT = 5  # what the agent waits for a thread that may yet come
MOMENT = 2.5     # longer than what is evidence when it is seen for so long


class Hearing(case.Case):
    def named(self, pid, *words):
        """Refused soon; what was said."""
        begun = time.monotonic()
        said = self.refuse(errno.EBUSY, PATIENT, *words, "-f", "image", pid)
        self.assertLess(time.monotonic() - begun, SOON, said)
        self.assertIn(f"process {pid}", said)
        self.assertEqual([], self.files())
        return said

    def test_blocks_and_sleeps(self):
        """More often than its socket has room for requests that are not accepted."""
        program = self.start(BLOCK + "block()", "block(1) if 'hear' in line else None")
        for _ in range(6):
            self.assertIn("it blocks the checkpoint signal", self.named(program.pid))
        self.assert_alive(program, "hear")
        self.save(PATIENT, "-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")

    def test_blocks_and_computes(self):
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                             BLOCK + "block()\nprint('ready', flush=True)\nwhile True: pass")
        self.assertEqual("ready\n", program.stdout.readline())
        self.assertIn("it blocks the checkpoint signal", self.named(program.pid))

    def test_one_thread_blocks(self):
        for work in ("time.sleep(1000)", "while True: pass"):
            program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                                 case.ECHO.format(setup=BLOCKS_IN_A_THREAD.format(work=work),
                                                  each="pass"))
            tid = int(program.stdout.readline())
            self.assertEqual("ready\n", program.stdout.readline())
            begun = time.monotonic()
            self.assertIn(f"thread {tid} does not answer", self.named(program.pid))
            if "sleep" in work:
                self.assertLess(time.monotonic() - begun, AGENT_LIMIT)
            self.assert_alive(program)
            self.end(program)

    def test_takes_it(self):
        program = self.start(TAKES)
        self.assertIn("it takes the checkpoint signal itself", self.named(program.pid))
        self.assert_alive(program)

    def test_waits_in_the_kernel(self):
        """For longer than what would be evidence; then it can be saved."""
        for call in ("spawn()", "threading.Thread(target=spawn).start()"):
            with self.subTest(call):
                os.mkfifo(self.path("fifo"))
                program = self.start(SPAWN, call)
                self.assert_alive(program)
                child = case.wait_until("the child", lambda: case.processes.children(program.pid))[0]
                case.await_sleep(child)
                saver = self.spawn(case.command("cr_checkpoint"), PATIENT, "--pid", "-f", "image",
                                   program.pid, stderr=subprocess.PIPE)
                with self.assertRaises(subprocess.TimeoutExpired):
                    saver.wait(MOMENT)
                with open(self.path("fifo"), "w", encoding="ascii"):
                    case.wait_until("the child's end", lambda: case.state(child) == "g")
                self.assertEqual(0, saver.wait(case.PATIENCE), saver.stderr.read())
                self.end(program)
                os.unlink(self.path("fifo"))


if __name__ == "__main__":
    case.main()
