#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What belongs to several users: root saves it, or a plain user who has it open."""
import ctypes
import errno
import os
import subprocess
import unittest

import case

# A child of root's that is somebody else, and may be looked into all the same.
FAMILY = """
import ctypes, os, signal
come, gone = os.pipe()
if os.fork() == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
    os.write(gone, b"x")
    os.close(gone)
    signal.pause()
os.read(come, 1)
"""


def become_weak():
    """Root in a container may often not change the limits of others."""
    pr_capbset_drop, cap_sys_resource = 24, 24
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_resource, 0, 0, 0)


@unittest.skipUnless(os.geteuid() == 0, "nobody else's processes are to be had")
class Users(case.Case):
    def test_limits_of_another_user(self):
        program = self.start("import resource\n"
                             "resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))",
                             user=1000, group=1000, extra_groups=[])
        done = self.checkpoint("-f", "image", program.pid, preexec_fn=become_weak)
        self.assertEqual(0, done.returncode, done.stderr)
        # Root cannot restart it, and is told so now.
        self.assertIn(f"process {program.pid} is of user 1000", done.stderr)
        self.assertIn("chown 1000:1000", done.stderr)
        shown = self.run_command("cr_inspect", "--records", "image").stdout
        lines = [line.strip() for line in shown.splitlines()]
        at = lines.index("resource = 7")
        self.assertEqual([f"soft = {123:#x}", f"hard = {456:#x}"], lines[at + 1:at + 3])

    def test_not_dumpable(self):
        """Root's own comes back so, from an image that root alone can read."""
        program = self.start("import ctypes; libc = ctypes.CDLL(None); libc.prctl(4, 0, 0, 0, 0)",
                             "print(libc.prctl(3, 0, 0, 0, 0), flush=True)")
        self.save("--kill", "-f", "image", program.pid)
        self.assertEqual(0o400, os.stat(self.path("image")).st_mode & 0o7777)
        program.wait()
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual("0\n", restarted.stdout.readline())

    def test_not_dumpable_of_another_user(self):
        """Its user could look into a restored one."""
        program = self.start("import os\nos.setgroups([])\nos.setresgid(1000, 1000, 1000)\n"
                             "os.setresuid(1000, 1000, 1000)")
        self.assertIn("only those that are root's",
                      self.refuse(errno.EPERM, "-f", "image", program.pid))
        self.assert_alive(program)

    def test_several_users(self):
        """No restart could bring them back: nothing is written, and nobody killed."""
        program = self.start(FAMILY)
        said = self.refuse(errno.ENOTSUP, "--kill", "-f", "image", program.pid)
        self.assertIn("its user is 1000", said)
        self.assertIn("one user", said)
        self.assertEqual([], self.files())
        self.assert_alive(program)


PLAIN, THIRD = 1000, 33
AS_PLAIN = {"user": PLAIN, "group": PLAIN, "extra_groups": []}


def sees_the_commands():
    return subprocess.run(["test", "-x", case.command("cr_restart")], check=False,
                          **AS_PLAIN).returncode == 0


@unittest.skipUnless(os.geteuid() == 0, "nobody else's files are to be had")
class PlainUser(case.Case):
    """All commands are a plain user's, and root has made a file beforehand."""
    def setUp(self):
        super().setUp()
        os.chown(self.directory, PLAIN, PLAIN)
        if not sees_the_commands():
            self.skipTest(f"user {PLAIN} may not see {case.BIN}")

    def run_command(self, name, *words, **where):
        return super().run_command(name, *words, **AS_PLAIN, **where)

    @staticmethod
    def child_of(pid):
        def look():
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return file.read().split()
        return int(case.wait_until("a child", look)[0])

    def test_generations_with_a_third_users_file(self):
        with open(self.path("theirs"), "w", encoding="ascii") as theirs:
            theirs.write("something to read")
        os.chown(self.path("theirs"), THIRD, THIRD)
        program = self.start("theirs = open('theirs')", **AS_PLAIN)
        self.save("--kill", "-f", "image.0", program.pid)
        program.wait()
        for generation in range(1, 4):
            restarted = self.spawn(case.command("cr_restart"), "-q", "--pidns",
                                   f"image.{generation - 1}", **AS_PLAIN)
            self.assert_alive(restarted)
            pid = self.child_of(self.child_of(restarted.pid))
            self.save("--rehearse", "--kill", "-f", f"image.{generation}", pid)
            restarted.wait(case.PATIENCE)
        # Another user's file in its place is refused, and it is known whose there was.
        os.chown(self.path("theirs"), THIRD + 1, THIRD + 1)
        done = self.run_command("cr_restart", "--pidns", "image.3")
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("and what was saved to user ", done.stderr)
        self.assertIn(f"--owner {THIRD + 1} ", done.stderr)

    def said_of(self, file, program):
        """By the checkpoint that ends it: one line."""
        said = self.save("--kill", "-f", "image", program.pid).stderr.splitlines()
        program.wait()
        said = [line for line in said if file in line]
        self.assertEqual(1, len(said), said)
        return said[0]

    def refused_for(self, file):
        """What a restart says that may not open it."""
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(errno.EACCES, done.returncode, done.stderr)
        self.assertIn(file, done.stderr)
        return done.stderr

    def test_output_that_root_has_opened(self):
        log = self.path("log")
        with open(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as output:
            program = self.spawn(
                case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                "import sys\nprint('ready', file=sys.stderr, flush=True)\n"
                "for line in sys.stdin: print(line.strip(), flush=True)",
                stdout=output, stderr=subprocess.PIPE, **AS_PLAIN)
        self.assertEqual("ready\n", program.stderr.readline())
        said = self.said_of(log, program)
        self.assertIn("descriptor 1: ", said)
        self.assertIn("cr_restart --stdout FILE", said)
        refused = self.refused_for(log)
        self.assertIn("--stdout FILE", refused)
        done = self.run_command("cr_restart", "--no-restore-pid", "--stdout", "other", "image",
                                stdin=None, input="goes on\n")
        self.assertEqual(0, done.returncode, done.stderr)
        with open(self.path("other"), encoding="ascii") as other:
            self.assertEqual("goes on\n", other.read())

    def test_output_of_a_child_that_root_has_opened(self):
        """By its number: there the first process has something else, which --stdout replaces."""
        log = self.path("log")
        with open(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as output:
            number = output.fileno()
            program = self.start(f"""
import os, signal
come, gone = os.pipe()
if os.fork() == 0:
    os.dup2({number}, 1)
    os.close({number})
    os.write(gone, b"x")
    os.close(gone)
    signal.pause()
os.close({number})
os.read(come, 1)
""", pass_fds=[number], stderr=subprocess.DEVNULL, **AS_PLAIN)
        said = self.said_of(log, program)
        self.assertIn("give it a mode", said)
        self.assertNotIn("--stdout", said)
        refused = self.refused_for(log)
        self.assertNotIn("--stdout", refused)

    def test_files_whose_mode_forbids_to_open_them_again(self):
        """The program's own ones: one was made so, another is so since; one is mapped, too."""
        program = self.start("""
import mmap, os
made = os.open("made", os.O_RDWR | os.O_CREAT, 0o400)
later = os.open("later", os.O_WRONLY | os.O_CREAT, 0o600)
os.mkdir("folder")
folder = os.open("folder", os.O_RDONLY | os.O_DIRECTORY)
os.write(made, b"0123")
os.write(later, b"0123")
shared = mmap.mmap(made, 4)
os.chmod("later", 0)
os.chmod("folder", 0o300)
""", "os.write(made, b'x'), os.write(later, b'x'), os.listdir(folder), shared.__setitem__(0, 121)",
                             **AS_PLAIN)
        done = self.save("--rehearse", "--kill", "-f", "image", program.pid)
        self.assertEqual("", done.stderr)
        program.wait()
        restarted = self.spawn(case.command("cr_restart"), "-q", "--no-restore-pid", "image", **AS_PLAIN)
        self.assert_alive(restarted, "one")
        self.assert_alive(restarted, "two")  # so what follows the first is done
        modes = {name: os.stat(self.path(name)).st_mode & 0o7777 for name in ("made", "later", "folder")}
        self.assertEqual({"made": 0o400, "later": 0, "folder": 0o300}, modes)
        with open(self.path("made"), "rb") as made, open(self.path("later"), "rb") as later:
            self.assertEqual([b"y123x", b"0123x"], [made.read()[:5], later.read()[:5]])

    def test_file_without_name_whose_mode_forbids_to_read_it(self):
        """As gunicorn has them: their mode is a sign of life."""
        program = self.start("""
import os
held = os.open("held", os.O_RDWR | os.O_CREAT, 0o600)
os.unlink("held")
os.write(held, b"0123")
os.fchmod(held, 0)
""", "assert (os.pread(held, 9, 0), os.fstat(held).st_mode & 0o7777) == (b'0123', 0)", **AS_PLAIN)
        self.save("--rehearse", "-f", "image", program.pid)
        self.assert_alive(program)
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.spawn(case.command("cr_restart"), "-q", "--no-restore-pid", "image", **AS_PLAIN)
        self.assert_alive(restarted, "one")
        self.assert_alive(restarted, "two")  # so what follows the first is done

    def test_socket_with_a_relative_name_in_another_directory(self):
        """Only root is told that the file is where it was: else clients would find a socket without it."""
        program = self.start("import os, socket\nserver = socket.socket(socket.AF_UNIX)\nserver.bind('door')\n"
                             "server.listen()\nos.mkdir('below')\nos.chdir('below')", **AS_PLAIN)
        done = self.run_command("cr_checkpoint", "-f", self.path("image"), "--retry=0", str(program.pid))
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("door, whose name does not lead to it any more", done.stderr)
        self.assert_alive(program)

    def test_socket_that_root_has_given_away(self):
        """It is bound again, and cr_restart says whose it was."""
        program = self.start("import os, socket\nserver = socket.socket(socket.AF_UNIX)\nserver.bind('door')\n"
                             "server.listen()\nos.chmod('door', 0o666)", **AS_PLAIN)
        self.assert_alive(program)
        os.chown(self.path("door"), THIRD, THIRD)
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.spawn(case.command("cr_restart"), "--no-restore-pid", "image", stderr=said,
                                   **AS_PLAIN)
        self.assert_alive(restarted)
        with open(self.path("said"), encoding="utf-8") as said:
            text = said.read()
        self.assertIn(f"the socket door belongs to user {PLAIN} and group {PLAIN} now, and cannot be given back "
                      f"to user {THIRD} and group {THIRD}", text)
        self.assertIn(f"chown {THIRD}:{THIRD} door", text)
        now = os.stat(self.path("door"))
        self.assertEqual((PLAIN, PLAIN, 0o666), (now.st_uid, now.st_gid, now.st_mode & 0o7777))

    def test_own_file_that_runs_as_its_group(self):
        """Another mode for a moment would take the set-group-ID bit away, so it is left alone."""
        program = self.start("""
import os
held = os.open("held", os.O_RDWR | os.O_CREAT, 0o600)
os.fchmod(held, 0o2000)
""", **AS_PLAIN)
        self.assertIn("give it a mode", self.said_of(self.path("held"), program))
        self.refused_for(self.path("held"))


case.main()
