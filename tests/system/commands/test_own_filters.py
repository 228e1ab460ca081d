#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Filters of system calls that a program has put on itself: root saves them, where they let Cryo work."""
import errno
import os
import subprocess
import sys
import unittest

import case
import filters  # of ../programs, which `case` has made known
import needs

PLAIN = "--plain-user" in sys.argv  # which case.main becomes later
READS = not PLAIN and not needs.unmet(["reads_filters"])
GETPRIORITY, GETDENTS, PAUSE, SYNC, SECCOMP, MPROTECT = 140, 217, 34, 162, 317, 10
USES_FILTERS = f"""
import ctypes, errno, os, signal, sys, threading
sys.path.append({os.path.dirname(filters.__file__)!r})
import filters
libc = ctypes.CDLL(None, use_errno=True)
def ask():
    libc.getpriority(0, 0)
    return ctypes.get_errno()
def tell():
    if line.strip() == "tell":
        ctypes.set_errno(0)
        print(ask(), flush=True)
"""


COUNT_AS_OF_SURROUNDINGS = """
for fd in os.listdir("/proc/self/fd"):
    door = f"/proc/self/fd/{fd}"
    if os.path.lexists(door) and "/cryo." in os.readlink(door):
        os.utime(door, (0, signal.SIGRTMAX + 256 * %d))
"""

# A tracer that passes on each signal.
LETS_GO_ON = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
cont, seize, pid = 7, 0x4206, int(sys.argv[1])
assert libc.ptrace(seize, pid, 0, 0) == 0
print("traces", flush=True)
while True:
    state = os.waitpid(pid, 0x40000000)[1]  # __WALL
    if not os.WIFSTOPPED(state):
        break
    libc.ptrace(cont, pid, 0, 0 if state >> 16 else os.WSTOPSIG(state))
"""


def child_of(restarted):
    with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children", encoding="ascii") as file:
        return int(file.read())


class OwnFilters(case.Case):
    def confined(self, setup, **where):
        return self.start(USES_FILTERS + setup, "tell()", **where)

    def tells(self, program, error):
        self.assert_alive(program, "tell")
        self.assertEqual(f"{error}\n", program.stdout.readline())

    def refused(self, program, code=errno.ENOTSUP):
        """What is said; the program goes on, and there is no image."""
        said = self.refuse(code, "-f", "image", program.pid)
        self.assert_alive(program)
        self.assertEqual([], [name for name in self.files() if name.startswith("image")])
        return said

    @unittest.skipIf(READS, "root reads it")
    def test_of_a_plain_user(self):
        program = self.confined(f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()")
        self.assertIn("let root save it", self.refused(program))
        self.tells(program, errno.EXDEV)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_comes_back(self):
        program = self.confined(f"""
filters.put_on({{{SYNC}: errno.ENOTBLK}})()
filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()
""")
        for image in ("first", "second"):
            pid = program.pid if image == "first" else child_of(program)
            self.save("--rehearse", "-f", image, pid)
            self.tells(program, errno.EXDEV)
            self.end(program)
            program = self.restart(image)
            self.tells(program, errno.EXDEV)
            self.assertEqual("2", case.status(child_of(program), "Seccomp_filters"))
            self.assertEqual("1", case.status(child_of(program), "NoNewPrivs"))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_comes_back_under_others(self):
        """Those of the surroundings are not in the image, and are told apart later."""
        program = self.confined(f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()")
        self.save("-f", "image", program.pid)
        self.end(program)
        program = self.restart("image", preexec_fn=filters.put_on(filters.CONTAINER))
        self.tells(program, errno.EXDEV)
        self.assertEqual("2", case.status(child_of(program), "Seccomp_filters"))
        self.save("-f", "again", child_of(program))
        self.end(program)
        program = self.restart("--other-surroundings", "again")
        self.tells(program, errno.EXDEV)
        self.assertEqual("1", case.status(child_of(program), "Seccomp_filters"))

    def restart_refused(self, image, here, **how):
        done = self.run_command("cr_restart", "--no-restore-pid", image, **how)
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn(f"as it says itself, and cr_restart is under {here}: run", done.stderr)
        self.assertIn("--other-surroundings", done.stderr)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_of_surroundings(self):
        filtered = filters.put_on(filters.CONTAINER)
        program = self.start(preexec_fn=filtered)
        self.save("--rehearse", "-f", "image", program.pid)
        self.end(program)
        self.restart_refused("image", "none")
        program = self.restart("image", preexec_fn=filtered)
        self.assert_alive(program)
        self.end(program)
        program = self.restart("--other-surroundings", "image")
        self.assert_alive(program)
        self.save("-f", "again", child_of(program))
        self.end(program)
        self.assert_alive(self.restart("again"))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings(self):
        """By a hostile program, which would be rid of it."""
        program = self.confined(f"""
filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()
{COUNT_AS_OF_SURROUNDINGS % 1}""")
        self.save("-f", "image", program.pid)
        self.tells(program, errno.EXDEV)
        self.end(program)
        self.restart_refused("image", "none")
        self.tells(self.restart("--other-surroundings", "image"), 0)

    def others_refused(self, image, passing, *here):
        def put_on():
            for one in here:
                one()
        done = self.run_command("cr_restart", "--no-restore-pid", image, preexec_fn=put_on)
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("cr_restart is under others", done.stderr)
        self.assertIn(passing, done.stderr)
        self.assertIn("--other-surroundings", done.stderr)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings_under_as_many_others(self):
        """Which stop other calls, or the same ones with other arguments."""
        answers = {"errno.EXDEV": errno.EXDEV, "errno.ENOSYS": errno.ENOSYS,
                   "filters.KILL": filters.KILL}
        for text, answer in answers.items():
            with self.subTest(text):
                program = self.confined(f"""
filters.put_on({{{GETPRIORITY}: {text}}})()
{COUNT_AS_OF_SURROUNDINGS % 1}""")
                self.save("-f", "image", program.pid)
                self.end(program)
                self.others_refused("image", f"system call {GETPRIORITY} passes here",
                                    filters.put_on({SYNC: answer}))
                self.others_refused("image", f"system call {GETPRIORITY} passes here",
                                    filters.put_on(filters.CONTAINER), filters.put_on({}))
                self.others_refused("image", f"system call {GETPRIORITY} passes here",
                                    filters.refuse_when(GETPRIORITY, 6, errno.EACCES))
                program = self.restart("image", preexec_fn=filters.put_on({GETPRIORITY: answer}))
                if answer != filters.KILL:
                    self.tells(program, answer)
                self.end(program)
                program = self.restart("--other-surroundings", "image",
                                       preexec_fn=filters.put_on({}))
                self.tells(program, 0)
                self.end(program)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings_by_one_that_is_traced(self):
        program = self.confined(f"""
filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()
{COUNT_AS_OF_SURROUNDINGS % 1}""")
        tracer = self.spawn(sys.executable, "-c", LETS_GO_ON, program.pid)
        self.assertEqual("traces\n", tracer.stdout.readline())
        self.save("--ptraced-allow", "-f", "image", program.pid)
        self.others_refused("image", "could not be read", filters.put_on({}))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings_beside_the_same_of_its_own(self):
        """What one thread has of its own is not missing in another."""
        rule = f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()"
        program = self.confined(f"""
ready = threading.Barrier(3)
def confine(*rules):
    for rule in rules:
        eval(rule)
    ready.wait()
    threading.Event().wait()
threading.Thread(target=confine, args=({rule!r},), daemon=True).start()
threading.Thread(target=confine, args=("filters.put_on({{}})()", {rule!r}), daemon=True).start()
ready.wait()
{COUNT_AS_OF_SURROUNDINGS % 1}""")
        self.save("-f", "image", program.pid)
        self.end(program)
        self.others_refused("image", f"system call {GETPRIORITY} passes here", filters.put_on({}))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings_beside_these(self):
        filtered = filters.put_on(filters.CONTAINER)
        program = self.confined(f"""
filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()
{COUNT_AS_OF_SURROUNDINGS % 2}""", preexec_fn=filtered)
        for image, saver in (("outside", None), ("inside", filtered)):
            done = self.checkpoint("-f", image, program.pid, preexec_fn=saver)
            self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        for image in ("outside", "inside"):
            self.restart_refused(image, "1 seccomp filter", preexec_fn=filtered)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_called_those_of_surroundings_by_a_thread(self):
        """The main thread is under none."""
        program = self.confined(f"""
confined = threading.Event()
def confine():
    filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()
    confined.set()
    threading.Event().wait()
threading.Thread(target=confine, daemon=True).start()
confined.wait()
{COUNT_AS_OF_SURROUNDINGS % 1}""")
        self.save("-f", "image", program.pid)
        self.end(program)
        self.restart_refused("image", "none")

    @unittest.skipUnless(READS, "no filter can be read")
    def test_other_is_noticed(self):
        """By a rehearsal in which none is put on."""
        program = self.confined(f"""
for error in errno.EXDEV, errno.ENOTBLK:
    filters.put_on({{{GETPRIORITY}: error}})()
""")
        self.save("-f", "image", program.pid)
        set_filter, spec_allow = 1, 4
        skipped = filters.skip_when(SECCOMP, set_filter, spec_allow)
        done = self.run_command("cr_restart", "--rehearse", "image", preexec_fn=skipped)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("the number of its seccomp filters", done.stderr)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_that_forbids(self):
        for answer in (filters.KILL, errno.EPERM, 0):
            program = self.confined(f"filters.put_on({{{GETDENTS}: {answer}}})()")
            self.assertIn("does not allow getdents64(2)", self.refused(program))
            self.end(program)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_that_forbids_the_next_one(self):
        """Which the program has put on by prctl(2). Alone, the first one is saved."""
        first = f"filters.put_on({{{SECCOMP}: filters.KILL}})()"
        program = self.confined(first)
        self.save("--rehearse", "-f", "alone", program.pid)
        self.end(program)
        program = self.confined(f"""
{first}
filters.put_on({{{GETPRIORITY}: errno.EXDEV}}, by_prctl=True)()
""")
        self.assertIn("does not allow seccomp(2)", self.refused(program))
        self.tells(program, errno.EXDEV)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_that_forbids_to_write_and_execute(self):
        """Memory that is both, and may not be read, could not be given that back."""
        confine = f"filters.refuse_when({MPROTECT}, 6, errno.EACCES)()"
        program = self.confined(confine)
        self.save("-f", "good", program.pid)
        self.end(program)
        program = self.confined(f"""
import mmap
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
{confine}
""")
        self.assertIn("does not allow mprotect(2)", self.refused(program))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_that_forbids_what_is_dispensable(self):
        program = self.confined("""
filters.put_on({312: errno.EPERM, 278: errno.EPERM, 250: errno.ENOSYS, 323: errno.EPERM})()
""")
        self.save("-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")

    @unittest.skipUnless(READS, "no filter can be read")
    def test_call_begun_before(self):
        """A thread waits in a call that another one has forbidden since: begun anew, it would end
        the program."""
        program = self.confined(f"""
thread = threading.Thread(target=lambda: libc.pause(), daemon=True)
thread.start()
path = f"/proc/self/task/{{thread.native_id}}/syscall"
while not open(path).read().startswith("{PAUSE} "):
    pass
filters.put_on({{{PAUSE}: filters.KILL}}, on_all=True)()
""")
        self.assertIn("the system call in which thread", self.refused(program))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_privilege_given_up(self):
        program = self.confined(f"""
filters.put_on({{{GETPRIORITY}: errno.EXDEV}}, no_new_privileges=False)()
drop = ctypes.create_string_buffer(24)
head = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert libc.capset(head, drop) == 0
""")
        self.assertIn("that it has given up since", self.refused(program))

    @unittest.skipUnless(READS, "no filter can be read")
    def test_privilege_is_missing(self):
        program = self.confined(
            f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}}, no_new_privileges=False)()")
        self.save("-f", "image", program.pid)
        self.end(program)
        done = subprocess.run(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin",
                               case.command("cr_restart"), "--no-restore-pid", "image"],
                              cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=case.PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("only with CAP_SYS_ADMIN", done.stderr)
        program = self.restart("image")
        self.tells(program, errno.EXDEV)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_traced(self):
        program = self.confined(f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()")
        self.assertTrue(case.seize(program.pid))
        done = self.checkpoint("-f", "image", program.pid)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("is traced by process", done.stderr)
        self.assert_alive(program)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_stopped(self):
        program = self.confined(f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()")
        os.kill(program.pid, 19)  # SIGSTOP
        case.wait_until("it is stopped", lambda: case.state(program.pid) == "T")
        self.save("-f", "image", program.pid)
        self.assertEqual("T", case.state(program.pid))
        os.kill(program.pid, 18)  # SIGCONT
        self.tells(program, errno.EXDEV)

    @unittest.skipUnless(READS, "no filter can be read")
    def test_is_shown(self):
        program = self.confined(f"filters.put_on({{{GETPRIORITY}: errno.EXDEV}})()")
        self.save("-f", "image", program.pid)
        done = self.run_command("cr_inspect", "--records", "image")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("CALL_FILTER", done.stdout)
        self.assertIn("THREAD_FILTERS", done.stdout)


if __name__ == "__main__":
    case.main()
