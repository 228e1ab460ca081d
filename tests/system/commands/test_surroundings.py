#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cr_restart's caller passes on: ignored signals, closed descriptors, nice values, filters."""
import ctypes
import os
import resource
import signal
import struct
import subprocess

import case

# A program that ends with 5 at the end of its input, and then says what its descriptors are.
READER = """
import os, sys
print("ready", flush=True)
for line in sys.stdin:
    pass
with open("seen", "w") as file:
    file.write(" ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1)))
os._exit(5)
"""
# A program whose threads and child answer, too.
MANY = """
import os, threading
asked, answered = threading.Semaphore(0), threading.Semaphore(0)
def answer():
    while True:
        asked.acquire()
        answered.release()
for _ in range(2): threading.Thread(target=answer, daemon=True).start()
down, up = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(down[1])
    while os.read(down[0], 1): os.write(up[1], b"x")
    os._exit(0)
os.close(down[0])
ended = os.fork()
if ended == 0: os._exit(0)
pidfd = os.pidfd_open(ended)
os.waitpid(ended, 0)
"""
ASK_THEM = "asked.release(); answered.acquire(); os.write(down[1], b'x'); os.read(up[0], 1)"
CLONE3 = 435


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def close_standard(last):
    def close():
        os.closerange(0, last + 1)
    return close


def unprivileged_nice(nice):
    """Also of root: with no privilege to go back."""
    drop_from_bounding_set, change_nice = 24, 23

    def apply():
        ctypes.CDLL(None).prctl(drop_from_bounding_set, change_nice, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
        os.nice(nice)
    return apply


def deny_clone3():
    """As the filters of containers do: it does not exist."""
    set_no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    allow, error_enosys = 0x7fff0000, 0x00050000 | 38
    program = b"".join(struct.pack("HBBI", *one) for one in (
        (load, 0, 0, 0), (jump_if_equal, 0, 1, CLONE3), (give, 0, 0, error_enosys),
        (give, 0, 0, allow)))
    held = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("HxxxxxxQ", 4, ctypes.addressof(held))
    libc = ctypes.CDLL(None)
    if libc.prctl(set_no_new_privileges, 1, 0, 0, 0) != 0 or \
            libc.prctl(set_seccomp, filter_mode, whole, 0, 0) != 0:
        raise OSError("no filter could be installed")


def deny_randomisation():
    """As debuggers do: the kernel chooses addresses from the top of the free ones."""
    addr_no_randomize = 0x0040000
    if ctypes.CDLL(None).personality(addr_no_randomize) < 0:
        raise OSError("no personality could be chosen")


def login_user():
    """Of this process; None where the kernel keeps none."""
    try:
        with open("/proc/self/loginuid", encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def log_in_as(user):
    """For preexec_fn. Where nobody has logged in, that takes no privilege."""
    def log_in():
        with open("/proc/self/loginuid", "w", encoding="ascii") as file:
            file.write(str(user))
    return log_in


# A context of asynchronous I/O, whose place the kernel chooses here and at the restart.
CONTEXT = """
import ctypes
kernel = ctypes.CDLL(None, use_errno=True).syscall
context, event = ctypes.c_ulong(), (ctypes.c_uint64 * 4)()
assert kernel(206, 100, ctypes.byref(context)) == 0, ctypes.get_errno()  # io_setup
"""
USE_CONTEXT = "assert kernel(208, context, 0, 1, ctypes.byref(event), None) == 0"  # io_getevents


class Surroundings(case.Case):
    def saved(self, *words, **how):
        program = self.start(**how)
        self.save("--nosync", "--kill", "-f", "image", *words, program.pid)
        self.end(program)

    def saved_reader(self):
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", READER)
        self.assertEqual("ready\n", program.stdout.readline())
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)

    def await_said(self, sentence):
        """The program goes on before cr_restart has told of it."""
        def is_said():
            with open(self.path("said"), encoding="utf-8") as said:
                return sentence in said.read()
        case.wait_until(sentence, is_said)

    def test_ends_of_children_are_ignored(self):
        self.saved(each="sys.exit(3)")
        for words in ((), ("--run-on-success", "true"), ("--pidns",)):
            with self.subTest(words):
                restarted = self.spawn(case.command("cr_restart"), "-q", *words,
                                       *(() if words == ("--pidns",) else ("--no-restore-pid",)),
                                       "image", preexec_fn=ignore_children)
                self.assert_alive(restarted)
                self.assertEqual(3, restarted.wait(case.PATIENCE))

    def test_standard_descriptors_are_closed(self):
        self.saved_reader()
        for words in (("--no-restore-pid",), ("--pidns",)):
            for last in range(3):
                with self.subTest((words, last)):
                    done = self.run_command("cr_restart", "-q", *words, "image", stdin=None,
                                            capture_output=False, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL,
                                            preexec_fn=close_standard(last))
                    self.assertEqual(5, done.returncode)
                    with open(self.path("seen"), encoding="ascii") as file:
                        self.assertEqual("/dev/null /dev/null", file.read())
                    os.unlink(self.path("seen"))

    def test_higher_nice_value(self):
        self.saved(each="print('nice', os.nice(0), flush=True)", setup="import os")
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said, preexec_fn=unprivileged_nice(5))
        self.assert_alive(restarted)
        nice = os.nice(0) + 5
        self.assertEqual(f"nice {nice}\n", restarted.stdout.readline())
        self.await_said(f"keep the nice value of cr_restart, {nice}")

    def test_rehearsal_with_higher_nice_value(self):
        program = self.start()
        done = self.checkpoint("--rehearse", "-f", "image", program.pid,
                               preexec_fn=unprivileged_nice(5))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assert_alive(program)

    def test_idle_policy(self):
        def be_idle():
            unprivileged_nice(0)()
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self.saved(each="print('policy', os.sched_getscheduler(0), flush=True)", setup="import os")
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said, preexec_fn=be_idle)
        self.assert_alive(restarted)
        self.assertEqual(f"policy {os.SCHED_IDLE}\n", restarted.stdout.readline())
        self.await_said("keep the scheduling policy of cr_restart, SCHED_IDLE")

    def test_another_login(self):
        user, nobody_logged_in = 4711, 4294967295
        before = login_user()
        if before is None or before == user:
            self.skipTest("no login user ids here")
        try:
            subprocess.run(["true"], preexec_fn=log_in_as(user), check=True)
        except subprocess.SubprocessError:
            self.skipTest("the login user id cannot be set here")
        self.saved("--tree", setup=MANY,
                   each="print(open('/proc/self/loginuid').read().strip(), flush=True)")
        said_of_it = (f"the login user id (loginuid) is cr_restart's: {user} here, "
                      f"{'none' if before == nobody_logged_in else before} when")
        for now, prepare, count in ((user, log_in_as(user), 1), (before, None, 0)):
            with self.subTest(now):
                with open(self.path("said"), "w", encoding="utf-8") as said:
                    restarted = self.restart("image", stderr=said, preexec_fn=prepare)
                self.assert_alive(restarted)
                self.assertEqual(f"{now}\n", restarted.stdout.readline())
                restarted.stdin.close()  # cr_restart has told everything when it ends
                restarted.wait(case.PATIENCE)
                with open(self.path("said"), encoding="utf-8") as said:
                    self.assertEqual(count, said.read().count(said_of_it))

    def test_batch_policy_is_not_passed_on(self):
        def be_batch():
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        self.saved(each="print('policy', os.sched_getscheduler(0), flush=True)", setup="import os")
        restarted = self.restart("-q", "image", preexec_fn=be_batch)
        self.assert_alive(restarted)
        self.assertEqual(f"policy {os.SCHED_OTHER}\n", restarted.stdout.readline())

    def test_real_time_priority_is_the_programs_own(self):
        def be_urgent():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
        try:
            subprocess.run(["true"], preexec_fn=be_urgent, check=True)
        except subprocess.SubprocessError:
            self.skipTest("no real-time priorities here")
        self.saved(setup="import os\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(3))",
                   each="print(os.sched_getparam(0).sched_priority, flush=True)")
        restarted = self.restart("-q", "image", preexec_fn=be_urgent)
        self.assert_alive(restarted)
        self.assertEqual("3\n", restarted.stdout.readline())

    def test_no_randomisation(self):
        program = self.start(setup=CONTEXT, each=USE_CONTEXT, preexec_fn=deny_randomisation)
        self.assert_alive(program)
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image", preexec_fn=deny_randomisation)
        self.assert_alive(restarted)

    def test_filter_that_denies_clone3(self):
        self.saved("--tree", setup=MANY, each=ASK_THEM)
        restarted = self.spawn(case.command("cr_restart"), "-q", "--backend=user",
                               "--no-restore-pid", "image", preexec_fn=deny_clone3)
        self.assert_alive(restarted)
        self.assert_alive(restarted, "again")

    def test_no_id_can_be_chosen_where_a_filter_denies_clone3(self):
        self.saved()
        for words in (("--restore-pid",), ("--pidns",), ()):
            with self.subTest(words):
                done = self.run_command("cr_restart", *words, "image", preexec_fn=deny_clone3)
                self.assertNotEqual(0, done.returncode)
                self.assertIn("denies clone3()", done.stderr)
                self.assertIn("--no-restore-pid", done.stderr)
                self.assertNotIn("privilege", done.stderr)


if __name__ == "__main__":
    case.main()
