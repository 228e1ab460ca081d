#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who takes no part: traced and tracing processes, and a cr_restart among those that it brought
back."""
import errno
import os
import signal
import subprocess

import case
import processes

ENOSUPPORT, EPTRACED, EPTRACER = 2356 & 0xff, 2360 & 0xff, 2361 & 0xff
TRACE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
assert libc.ptrace(0x4206, {pid}, 0, 0) == 0, ctypes.get_errno()
"""


class LeftOut(case.Case):
    def test_traced(self):
        program = self.start()
        self.assertTrue(case.seize(program.pid))
        said = self.refuse(EPTRACED, "-f", "image", program.pid)
        self.assertIn(f"traced by process {os.getpid()}", said)
        said = self.refuse(errno.ESRCH, "--ptraced-skip", "-f", "image", program.pid)
        self.assertIn("nothing is left to save", said)
        self.refuse(EPTRACED, "--ptraced-skip", "--ptraced-error", "-f", "image", program.pid)
        self.assertEqual([], self.files())

    def test_child_that_is_stopped_before_it_listens(self):
        """cr_checkpoint itself holds it, and no tracer that could be detached."""
        program = self.start("import ctypes, os, signal\n"
                             "if ctypes.CDLL(None).syscall(57) == 0:  # fork\n"
                             "    os.kill(os.getpid(), signal.SIGSTOP)\n"
                             "    os._exit(0)")
        child = processes.children(program.pid)[0]
        case.wait_until("its stop", lambda: case.state(child) == "T")
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn(f"process {child} does not listen: it was stopped right after its fork", said)
        self.assertIn(f"kill -CONT {child}", said)

    def test_tracer(self):
        other = self.spawn("sleep", "1000")
        program = self.start(TRACE.format(pid=other.pid))
        said = self.refuse(EPTRACER, "-f", "image", program.pid)
        self.assertIn(f"traces process {other.pid}", said)
        self.refuse(EPTRACER, "--ptracer-skip", "--ptracer-error", "-f", "image", program.pid)
        said = self.refuse(errno.ESRCH, "--ptracer-skip", "-f", "image", program.pid)
        self.assertIn("nothing is left to save", said)

    def test_tracer_of_a_tree(self):
        other = self.spawn("sleep", "1000")
        # A child without a pipe to us, which traces.
        code = TRACE.format(pid=other.pid) + "import time; print('traces', flush=True); time.sleep(1000)"
        program = self.start(f"import subprocess; child = subprocess.Popen(['/usr/bin/python3', "
                             f"'-S', '-c', {code!r}], stdin=subprocess.DEVNULL)")
        self.assertEqual("traces\n", program.stdout.readline())
        self.refuse(EPTRACER, "-f", "image", program.pid)
        done = self.save("--ptracer-skip", "--json", "-f", "image", program.pid)
        self.assertIn("and is left out", done.stdout)
        self.assertIn('"processes":1', done.stdout)

    def restarted(self, *options):
        program = self.start()
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "--no-restore-sid", *options, "image")
        self.assert_alive(restarted)
        return restarted

    def test_restart_in_a_session(self):
        restarted = self.restarted()
        done = self.save("--json", "-s", "-f", "again", restarted.pid)
        self.assertIn("is a cr_restart, and is left out", done.stdout)
        self.assertIn('"processes":1', done.stdout)
        self.save("-f", "tree", restarted.pid)
        self.end(restarted)
        self.assert_good("again")
        self.assert_good("tree")

    def test_restart_that_is_left_out_maybe(self):
        """The last option counts; this one is the default, which leaves it out in a session."""
        restarted = self.restarted("--omit-never", "--omit-maybe")
        done = self.save("--json", "-s", "-f", "again", restarted.pid)
        self.assertIn("is a cr_restart, and is left out", done.stdout)
        self.end(restarted)
        self.assert_good("again")

    def test_restart_that_waits(self):
        """For an id that somebody holds who has ended: us, who do not wait for the program yet."""
        program = self.start()
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        case.wait_until("its end", lambda: case.state(program.pid) == "Z")
        restarted = self.spawn(case.command("cr_restart"), "-q", "--restore-pid", "image",
                               stderr=subprocess.PIPE)
        case.wait_until("cr_restart", lambda: case.status(restarted.pid, "Name") == "cr_restart")
        os.kill(restarted.pid, signal.SIGSTOP)  # it would give up after a while
        said = self.refuse(errno.ESRCH, "-f", "again", restarted.pid)
        self.assertIn("has not brought back anybody yet", said)

    def test_only_the_restart(self):
        restarted = self.restarted()
        said = self.refuse(errno.ESRCH, "-p", "-f", "again", restarted.pid)
        self.assertIn(f"process {restarted.pid} is a cr_restart", said)
        self.assertIn("save process", said)

    def test_restart_that_is_not_left_out(self):
        restarted = self.restarted("--omit-never")
        said = self.refuse(ENOSUPPORT, "-s", "-f", "again", restarted.pid)
        self.assertIn("not started under cr_run", said)
        restarted = self.restarted("--omit-never", "--omit-always")
        self.save("-s", "-f", "again", restarted.pid)


if __name__ == "__main__":
    case.main()
