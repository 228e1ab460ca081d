#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs under filters of system calls that their surroundings have put on them, as in containers."""
import errno
import os
import re
import subprocess

import case
import filters  # of ../programs, which `case` has made known
import needs

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "userlib")
# A program whose descriptors share open files, and open files an inode. Says on request whether
# they still do.
SHARING = """
import os, select, subprocess, threading, zlib
one = os.open("shared", os.O_RDWR | os.O_CREAT)
two, apart = os.dup(one), os.open("shared", os.O_RDWR)
counts = [os.eventfd(0) for _ in range(3)]
again = os.dup(counts[0])
watch = select.epoll()
for count in counts[:2]: watch.register(count, select.EPOLLIN)
threading.Thread(target=threading.Event().wait, daemon=True).start()
memory = os.urandom(4096) * 1000
kept = zlib.crc32(memory)
def tell():
    if line.strip() == "execute":
        print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
        return
    os.lseek(apart, 9, 0)
    os.lseek(one, 5, 0)
    os.eventfd_write(again, 1)
    os.eventfd_write(counts[2], 1)
    found = [counts.index(number) for number, _ in watch.poll(1)]
    os.eventfd_read(counts[0])
    print(os.lseek(two, 0, 1), os.lseek(apart, 0, 1), found, os.eventfd_read(counts[2]),
          zlib.crc32(memory) == kept, flush=True)
"""
TOLD = "5 9 [0] 1 True\n"


def child_of(restarted):
    with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children", encoding="ascii") as file:
        return int(file.read())


class Filters(case.Case):
    def tell(self, program):
        self.assert_alive(program)
        self.assertEqual(TOLD, program.stdout.readline())

    def save_under(self, filtered, image, pid):
        done = self.checkpoint("-f", image, pid, preexec_fn=filtered)
        self.assertEqual(0, done.returncode, done.stderr)

    def bring_back(self, image, filtered=None, words=()):
        """The program, and what cr_restart says until that goes on."""
        path = self.path("said." + image)  # which is the program's own, too, from now on
        with open(path, "w", encoding="utf-8") as said:
            restarted = self.restart(*words, image, preexec_fn=filtered, stderr=said)
        self.tell(restarted)
        return restarted, self.said_of_restart(path)

    @staticmethod
    def said_of_restart(path):
        """By a cr_restart that writes there: it says last that the program goes on."""
        def said():
            with open(path, encoding="utf-8") as file:
                return file.read()
        case.wait_until("cr_restart has said all", lambda: " goes on after " in said())
        return said()

    def go_through(self, filtered):
        program = self.start(SHARING, "tell()", preexec_fn=filtered)
        self.tell(program)
        self.save_under(filtered, "first", program.pid)
        self.tell(program)
        self.end(program)
        program, _ = self.bring_back("first", filtered)
        self.save_under(filtered, "second", child_of(program))
        self.end(program)
        program, said = self.bring_back("second", filtered)
        self.assertNotIn("seccomp", said)

    def test_in_a_container(self):
        self.go_through(filters.put_on(filters.CONTAINER))

    def test_on_an_older_kernel(self):
        self.go_through(filters.put_on(filters.CONTAINER, without_query=True))

    def test_out_of_a_container(self):
        filtered = filters.put_on(filters.CONTAINER)
        program = self.start(SHARING, "tell()", preexec_fn=filtered)
        self.save_under(filtered, "image", program.pid)
        self.end(program)
        words = ()
        if os.geteuid() == 0:
            self.assertEqual(errno.EPERM, self.run_command("cr_restart", "image").returncode)
            words = ("--other-surroundings",)
        program, said = self.bring_back("image", words=words)
        self.assertIn("ran under a seccomp filter, of its container", said)
        self.save("-f", "again", child_of(program))

    def test_into_a_container(self):
        """What it executes there is under the same filters."""
        program = self.start(SHARING, "tell()")
        self.save("-f", "image", program.pid)
        self.end(program)
        filtered = filters.put_on(filters.CONTAINER)
        program, _ = self.bring_back("image", filtered)
        self.assert_alive(program, "execute")
        executed = int(program.stdout.readline())
        case.wait_until("it is executed", lambda: case.status(executed, "Name") == "sleep")
        self.save_under(filtered, "again", child_of(program))
        self.save_under(filtered, "of_child", executed)

    def test_that_ends_processes(self):
        deadly = filters.put_on({filters.KCMP: filters.KILL})
        path = self.path("said")
        with open(path, "w", encoding="utf-8") as said:
            program = self.start(preexec_fn=deadly, stderr=said)
        with open(path, encoding="utf-8") as said:
            self.assertIn("cannot be saved: the seccomp filter here ends a process that calls "
                          "kcmp(2)", said.read())
        said = self.refuse(errno.ENOTSUP, "-f", "image", program.pid)
        self.assertIn("that cr_run has not found harmless", said)
        self.assert_alive(program)
        self.end(program)
        program = self.start()
        self.save("-f", "image", program.pid)
        self.end(program)
        path = self.path("said")
        with open(path, "w", encoding="utf-8") as said:
            program = self.restart("image", preexec_fn=deadly, stderr=said)
        self.assert_alive(program)
        self.assertIn("cannot be saved again: the seccomp filter here", self.said_of_restart(path))
        self.refuse(errno.ENOTSUP, "-f", "again", child_of(program))
        self.assert_alive(program)

    def test_of_its_own(self):
        """Under those of the surroundings, nobody can read it. Outside, root does."""
        filtered = filters.put_on(filters.CONTAINER)
        program = self.start(f"""
sys.path.append({os.path.dirname(filters.__file__)!r})
import filters
def confine():
    if line.strip() == "confine":
        filters.put_on({{}})()
""", "confine()", preexec_fn=filtered)
        self.save_under(filtered, "image", program.pid)
        self.assert_alive(program, "confine")
        case.wait_until("its own filter", lambda: case.status(program.pid, "Seccomp_filters") == "2")
        done = self.checkpoint("-f", "image", program.pid, preexec_fn=filtered)
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("a seccomp filter of its own", done.stderr)
        self.assert_alive(program)
        if needs.unmet(["reads_filters"]):
            return
        self.save("-f", "outside", program.pid)
        self.end(program)
        program = self.restart("outside", preexec_fn=filtered)
        self.assert_alive(program)
        self.assertEqual("2", case.status(child_of(program), "Seccomp_filters"))

    def test_not_under_cr_run(self):
        program = self.spawn("sleep", "1000", preexec_fn=filters.put_on({}))
        case.wait_until("it is executed", lambda: case.status(program.pid, "Name") == "sleep")
        said = self.refuse(errno.ENOTSUP, "--attach", "-f", "image", program.pid)
        self.assertIn("that cr_run has not found harmless", said)
        self.assertNotEqual(0, self.checkpoint("-f", "image", program.pid).returncode)
        self.assertIsNone(program.poll())

    def test_what_is_tried_out(self):
        """All that the agent calls by itself."""
        with open(os.path.join(SOURCES, "agent", "context.S"), encoding="utf-8") as file:
            made = set(re.findall(r"\$\d+, %[er]ax\t+/\* (\w+) \*/\n\tsyscall", file.read()))
        self.assertIn("rt_sigreturn", made)
        made.remove("rt_sigreturn")  # is not tried out: each signal's handler ends by it
        not_under_filters = {"modify_ldt"}
        for folder in ("agent", "sys"):
            for name in os.listdir(os.path.join(SOURCES, folder)):
                if not name.startswith(("interposed", "interrupted_call", "newer_numbers",
                                        "timed_wait")):
                    with open(os.path.join(SOURCES, folder, name), encoding="utf-8") as file:
                        made |= set(re.findall(r"\bSYS_([a-z0-9_]+)\b", file.read()))
        with open(os.path.join(SOURCES, "look", "agent_calls.cpp"), encoding="utf-8") as file:
            tried = file.read()
        tried = tried[tried.index("of_agent[]"):tried.index("at_end[]")]
        tried = set(re.findall(r"CALL\(([a-z0-9_]+)\)", tried))
        self.assertEqual(made - not_under_filters, tried)

    def test_nothing_is_left_behind(self):
        """No variable of an outer container tells of filters that are not here."""
        done = subprocess.run([case.command("cr_run"), "env"], capture_output=True, text=True,
                              check=True, env={**os.environ, "CRYO_FILTERS": "3"})
        self.assertNotIn("CRYO_FILTERS=3", done.stdout)


if __name__ == "__main__":
    case.main()
