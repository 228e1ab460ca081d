#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong, the answer is clear, the last image is good, and the program goes on."""
import errno
import os
import signal
import subprocess

import case

BIG = "memory = bytearray(b'x' * (24 << 20))"
LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"

class Disk(case.Case):
    """Where the image goes."""

    def small(self, options, *words):
        """cr_checkpoint in a mount namespace in which small/ is a file system with these options,
        and what it left there."""
        os.makedirs(self.path("small"), exist_ok=True)
        script = (f"mount -t tmpfs -o {options} none small || exit 99\n"
                  '"$@"; code=$?; ls -A small; exit $code')
        return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh",
                               case.command("cr_checkpoint"), *(str(word) for word in words)],
                              cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=case.PATIENCE)

    def test_full(self):
        program = self.start(BIG)
        for option in ("--run", "--kill", "--stop", "--snapshot=stop"):
            if os.geteuid() == 0:
                done = self.small("size=4m", option, "-f", "small/image", program.pid)
                self.assertEqual((errno.ENOSPC, ""), (done.returncode, done.stdout), done.stderr)
                self.assertIn("small/image", done.stderr)
            self.assertIn("No space", self.refuse(errno.ENOSPC, option, "--clobber", "-f",
                                                  "/dev/full", program.pid))
            self.assert_alive(program)

    def test_limit_of_size(self):
        program = self.start(BIG)
        limited = subprocess.run(
            ["sh", "-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh",
             case.command("cr_checkpoint"), "-f", "image", str(program.pid)],
            cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(errno.EFBIG, limited.returncode, limited.stderr)
        self.assertEqual([], self.files())
        self.assert_alive(program)

    def test_read_only(self):
        program = self.start()
        if os.geteuid() == 0:
            done = self.small("ro", "-f", "small/image", program.pid)
            self.assertEqual(errno.EROFS, done.returncode, done.stderr)
        else:
            os.mkdir(self.path("small"), 0o500)
            self.refuse(errno.EACCES, "-f", "small/image", program.pid)
        self.assert_alive(program)

    def test_directory_that_vanishes(self):
        """While the image is being written, into a directory that is removed meanwhile."""
        program = self.start(BIG)
        os.mkdir(self.path("place"))
        checkpoint = self.spawn(case.command("cr_checkpoint"), "-q", "-f", "place/image",
                                program.pid, stderr=subprocess.PIPE)
        case.wait_until("the directory to be open", lambda: checkpoint.poll() is not None or any(
            self.leads_to(checkpoint.pid, fd, "place") for fd in self.descriptors(checkpoint.pid)))
        try:
            os.rmdir(self.path("place"))
        except OSError:
            self.fail("it was committed already")
        self.assertEqual(errno.ENOENT, checkpoint.wait(case.PATIENCE))
        self.assertIn("place/image", checkpoint.stderr.read())
        self.assert_alive(program)

    @staticmethod
    def descriptors(pid):
        try:
            return os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return []

    def leads_to(self, pid, fd, name):
        try:
            return os.readlink(f"/proc/{pid}/fd/{fd}") == self.path(name)
        except OSError:
            return False

    def test_second_request_during_the_first(self):
        program = self.start(BIG)
        both = [self.spawn(case.command("cr_checkpoint"), "-q", "-f", f"image.{i}", program.pid,
                           stderr=subprocess.PIPE) for i in range(3)]
        for one in both:
            code = one.wait(case.PATIENCE)
            self.assertIn(code, (0, errno.EBUSY), one.stderr.read())
        self.assertIn(0, [one.returncode for one in both])
        self.assert_alive(program)
        self.save("-f", "image", program.pid)
        self.end(program)
        for number, one in enumerate(both):
            self.assertEqual(one.returncode == 0, os.path.exists(self.path(f"image.{number}")))
        self.assert_good("image")


class Programs(case.Case):
    """What a program does that Cryo cannot work with."""

    def test_closed_descriptors(self):
        program = self.start("import os; os.closerange(3, 4096)")
        done = self.checkpoint("-f", "image", program.pid)
        self.assert_alive(program)
        if done.returncode == 0:
            self.end(program)
            self.assert_good("image")
        else:
            self.assertIn("closed Cryo's descriptor", done.stderr)

    def test_seccomp(self):
        program = self.start(LIBC + """
import struct
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_char_p)]
allow = struct.pack('HBBI', 6, 0, 0, 0x7fff0000)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(1, allow)), 0, 0) == 0
""")
        self.assertIn("seccomp", self.refuse(errno.ENOTSUP, "-f", "image", program.pid))
        self.assert_alive(program)

    def test_not_dumpable(self):
        program = self.start(LIBC + "assert libc.prctl(4, 0, 0, 0, 0) == 0")
        done = self.checkpoint("-f", "image", program.pid)
        self.assertEqual(errno.EPERM, done.returncode)
        self.assertIn("not dumpable", done.stderr)
        self.assert_alive(program)

    def test_not_under_cr_run(self):
        program = self.spawn("sleep", "1000")
        said = self.refuse(errno.ENOTSUP, "-f", "image", program.pid)
        self.assertIn("not started under cr_run", said)
        self.assertIsNone(program.poll())
        gone = self.spawn("true")
        gone.wait()
        self.refuse(errno.ESRCH, "-f", "image", gone.pid)

    def test_other_user(self):
        if os.geteuid() != 0:
            said = self.refuse(errno.EPERM, "-f", "image", 1)
            self.assertIn("somebody else", said)
            return
        program = self.start()
        os.chmod(self.directory, 0o777)
        done = self.checkpoint("-f", "image", program.pid, user=1000, group=1000, extra_groups=[])
        self.assertIn(done.returncode, (errno.EPERM, errno.EACCES), done.stderr)
        self.assert_alive(program)

    def test_second_stop_while_saving(self):
        """Stopped by somebody just then: refused by name, or saved, and never waited for."""
        program = self.start(BIG)
        for number in range(5):
            checkpoint = self.spawn(case.command("cr_checkpoint"), "-q", "--nosync", "-f",
                                    f"image.{number}", program.pid, stderr=subprocess.PIPE)
            os.kill(program.pid, signal.SIGSTOP)
            code = checkpoint.wait(case.PATIENCE)
            said = checkpoint.stderr.read()
            self.assertTrue(code == 0 or "stopped" in said, said)
            os.kill(program.pid, signal.SIGCONT)
            self.assert_alive(program)


class Files(case.Case):
    """Mapped files that are other than they were."""

    MAP = """
import mmap
file = open('mapped', 'rb')
mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
file.close()
"""

    def test_changed_file(self):
        with open(self.path("mapped"), "wb") as file:
            file.write(b"a" * 8192)
        program = self.start(self.MAP, "print(mapped[:1].decode(), flush=True)")
        self.save("-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.end(restarted)
        for contents, what in ((b"b" * 8192, " has other contents"),
                               (b"a" * 4096, " has shrunk"), (None, ": No such file")):
            os.unlink(self.path("mapped"))
            if contents:
                with open(self.path("mapped"), "wb") as file:
                    file.write(contents)
            done = self.run_command("cr_restart", "--no-restore-pid", "image")
            self.assertNotEqual(0, done.returncode)
            self.assertIn(f"file {self.path('mapped')}{what}", done.stderr)
        with open(self.path("mapped"), "wb") as file:
            file.write(b"c" * 8192)
        restarted = self.restart("-q", "--force", "image")
        self.assert_alive(restarted)
        self.assertEqual("c\n", restarted.stdout.readline())


class Generations(case.Case):
    def test_no_growth(self):
        """Ten times saved, killed, and brought back: nothing grows."""
        program = self.start("""
import threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
""")
        pid, running, facts = program.pid, program, []
        for generation in range(10):
            self.save("--nosync", "-p", "--kill", "-f", "image", pid)
            self.end(running)
            running = self.restart("-q", "image")
            self.assert_alive(running)
            with open(f"/proc/{running.pid}/task/{running.pid}/children",
                      encoding="ascii") as file:
                pid = int(file.read().split()[0])
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
                mappings = len(maps.readlines())
            facts.append((os.path.getsize(self.path("image")) >> 16,
                          len(os.listdir(f"/proc/{pid}/fd")), mappings,
                          len(os.listdir(f"/proc/{pid}/task"))))
            self.assertEqual(generation + 1, len(facts))
        # The first restart may leave other pages behind than the program had before.
        self.assertEqual([facts[1][1:]] * 9, [fact[1:] for fact in facts[1:]])
        self.assertLessEqual(facts[-1][0], facts[1][0] + 2)


if __name__ == "__main__":
    case.main()
