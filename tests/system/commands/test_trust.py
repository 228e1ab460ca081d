#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong, the answer is clear, the last image is good, and the program goes on."""
import errno
import glob
import os
import shutil
import signal
import struct
import subprocess
import unittest

import case
import held
import needs
import processes

ENOSUPPORT = 2356 & 0xff  # CR_ENOSUPPORT
EVERSION = 2357 & 0xff  # CR_EVERSION
# Listens where an agent would.
STRANGER = """
import os, signal, socket, sys
signal.signal(signal.SIGRTMAX, lambda *_: None)
place = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
path = f"/tmp/cryo.{os.getpid()}.{os.urandom(8).hex()}"
place.bind(path)
door = os.open(path, os.O_PATH)
os.unlink(path)
place.listen()
print("ready", flush=True)
while True:
    peer = place.accept()[0]
    peer.recv(5000)
    peer.send(sys.argv[1].encode())
    while peer.recv(5000):
        pass
"""
BIG = "memory = bytearray(b'x' * (24 << 20))"
LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"

def program_of_32_bits():
    """One that waits for ever: pause()."""
    code = b"\xb8\x1d\0\0\0\xcd\x80\xeb\xf7"
    base, size = 0x08048000, 84 + len(code)
    return (b"\x7fELF\1\1\1" + bytes(9) +
            struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0) +
            struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 4096) + code)


def static_program():
    """The same of 64 bits, without a dynamic loader."""
    code = b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"
    base, size = 0x400000, 120 + len(code)
    return (b"\x7fELF\2\1\1" + bytes(9) +
            struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0) +
            struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + code)


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
        saver = held.Saver(self, program, "memory written", ("-f", "place/image"))
        os.rmdir(self.path("place"))
        code, said = saver.let_go()
        self.assertEqual(errno.ENOENT, code, said)
        self.assertIn("place/image", said)
        self.assert_alive(program)

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
        if needs.unmet(["reads_filters"]):
            self.assertIn("seccomp", self.refuse(errno.ENOTSUP, "-f", "image", program.pid))
        else:
            self.save("-f", "image", program.pid)
        self.assert_alive(program)

    @unittest.skipIf(os.geteuid() == 0, "root saves its own: test_users.py")
    def test_not_dumpable(self):
        program = self.start(LIBC + "assert libc.prctl(4, 0, 0, 0, 0) == 0")
        self.assertIn("not dumpable", self.refuse(errno.EPERM, "-f", "image", program.pid))
        self.assert_alive(program)

    def test_not_under_cr_run(self):
        program = self.spawn("sleep", "1000")
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn("not started under cr_run", said)
        self.assertIsNone(program.poll())
        gone = self.spawn("true")
        gone.wait()
        self.refuse(errno.ESRCH, "-f", "image", gone.pid)

    def test_child_outside(self):
        """One that was executed without Cryo by one that was not."""
        program = self.start("import subprocess\n"
                             "child = subprocess.Popen(['sleep', '1000'], env={'CRYO_OUTSIDE': '1'})")
        child = processes.children(program.pid)[0]
        case.wait_until("its execution", lambda: case.status(child, "Name") == "sleep")
        for pid in (program.pid, child):
            said = self.refuse(ENOSUPPORT, "-f", "image", pid)
            self.assertIn(f"process {child} does not receive Cryo's requests: it was not started under "
                          f"cr_run, as its parent {program.pid} was", said)
            self.assertIn("CRYO_OUTSIDE", said)
        self.assert_alive(program)
        os.kill(child, signal.SIGKILL)
        case.wait_until("its end", lambda: case.state(child) == "Z")
        self.save("-f", "image", program.pid)

    def test_action_reset(self):
        program = self.start(LIBC + "libc.syscall(13, 64, ctypes.c_char_p(bytes(32)), None, 8)")
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn(f"process {program.pid} does not receive Cryo's requests: it has reset the "
                      "action", said)
        self.assertIn("cr_run --signal", said)
        self.assert_alive(program)

    def run_file(self, name, mode):
        """Starts the test's own program NAME under cr_run; waits until it runs."""
        os.chmod(self.path(name), mode)
        program = self.spawn(case.command("cr_run"), self.path(name), "1000",
                             stderr=subprocess.PIPE)
        case.wait_until("its execution", lambda: program.poll() is not None or
                        os.readlink(f"/proc/{program.pid}/exe") == self.path(name))
        return program

    def test_setuid(self):
        """A plain user's, or another's when we are root: its library is not preloaded."""
        shutil.copy("/bin/sleep", self.path("privileged"))
        if os.geteuid() == 0:
            os.chmod(self.directory, 0o755)
            os.chown(self.path("privileged"), 1000, 1000)
        program = self.run_file("privileged", 0o6755)
        if case.status(program.pid, "Uid").split()[:2] != ["0", "1000"]:
            return  # our own: executing it gained nothing, or this file system does not allow it
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn("setuid", said)
        case.await_sleep(program.pid)
        self.assertIn("setuid", program.stderr.readline())

    @unittest.skipUnless(os.geteuid() == 0, "it takes root to have several ids")
    def test_ids_that_differ(self):
        """Who is not all three of a process's user ids does not save it, though it may be inspected."""
        os.chmod(self.directory, 0o777)
        user = {"user": 1000, "group": 1000, "extra_groups": []}
        for ids in ((1000, 1000, 1001), (1000, 1001, 1000), (1001, 1000, 1000)):
            program = self.start(f"import ctypes, os\nos.setresgid(1000, 1000, 1000)\n"
                                 f"os.setresuid(*{ids})\nctypes.CDLL(None).prctl(4, 1, 0, 0, 0)")
            done = self.run_command("cr_checkpoint", "-f", "image", program.pid, **user)
            self.assertEqual(errno.EPERM, done.returncode, done.stderr)
            self.assertNotIn("image", self.files())
            self.assert_alive(program)
            self.end(program)

    def test_setuid_child(self):
        """Root's program, executed by a plain user's; where we are one, our own gains nothing."""
        shutil.copy("/bin/sleep", self.path("privileged"))
        os.chmod(self.path("privileged"), 0o4755)
        if os.geteuid() != 0 or os.statvfs(self.directory).f_flag & os.ST_NOSUID:
            return
        os.chmod(self.directory, 0o777)
        build = os.path.dirname(os.path.dirname(case.command("cr_run")))
        library = glob.glob(os.path.join(build, "lib*", "**", "libcr_run.so"), recursive=True)[0]
        for file in (case.command("cr_run"), case.command("cr_checkpoint"), library):
            copy = self.path(os.path.relpath(file, build))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy(file, copy)
        user = {"user": 1000, "group": 1000, "extra_groups": []}
        program = self.spawn(self.path("bin/cr_run"), "/usr/bin/python3", "-S", "-c",
                             "import subprocess; subprocess.run(['./privileged', '1000'])",
                             stderr=subprocess.DEVNULL, **user)
        case.wait_until("its child", lambda: [
            pid for pid in processes.children(program.pid)
            if os.readlink(f"/proc/{pid}/exe") == self.path("privileged")])
        child = processes.children(program.pid)[0]
        self.assertEqual(["1000", "0"], case.status(child, "Uid").split()[:2])
        done = subprocess.run([self.path("bin/cr_checkpoint"), "-f", "image", str(program.pid)],
                              cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=case.PATIENCE, **user)
        self.assertIn(done.returncode, (errno.EPERM, ENOSUPPORT), done.stderr)
        self.assertIn(f"process {child}", done.stderr)
        self.assertIn("setuid", done.stderr)
        self.assertFalse(os.path.exists(self.path("image")))
        case.await_sleep(program.pid)
        case.await_sleep(child)

    def test_other_protocol(self):
        """Who answers at an agent's address in words that are none of ours."""
        for answer in (b"x", b"x" * 64, b"x" * 5000):
            with self.subTest(len(answer)):
                program = self.spawn("/usr/bin/python3", "-S", "-c", STRANGER, answer.decode())
                self.assertEqual("ready\n", program.stdout.readline())
                said = self.refuse(EVERSION, "-f", "image", program.pid)
                self.assertIn(f"process {program.pid}: its agent answers in another protocol", said)
                self.assertIsNone(program.poll())

    def test_static_child(self):
        with open(self.path("static"), "wb") as file:
            file.write(static_program())
        os.chmod(self.path("static"), 0o755)
        program = self.start("import subprocess\n"
                             f"child = subprocess.Popen([{self.path('static')!r}])")
        child = processes.children(program.pid)[0]
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn(f"process {child} is statically linked", said)
        self.assertIn("link it dynamically", said)
        self.assertIn("--backend=criu", said)
        self.assert_alive(program)
        case.await_sleep(child)
        os.kill(child, signal.SIGKILL)
        case.wait_until("its end", lambda: case.state(child) == "Z")
        self.save("-f", "image", program.pid)

    def test_32_bits(self):
        with open(self.path("small"), "wb") as file:
            file.write(program_of_32_bits())
        try:
            program = self.run_file("small", 0o755)
        except OSError:
            return  # gone: this kernel runs none
        if program.poll() is not None:
            return
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn("32-bit", said)
        case.await_sleep(program.pid)

    def test_many_at_once(self):
        """Whatever comes at any moment: each is answered, and the program goes on."""
        program = self.start()
        for _ in range(3):
            asked = [self.spawn(case.command("cr_checkpoint"), "-q", "--nosync", "-f",
                                f"image.{number}", program.pid, stderr=subprocess.PIPE)
                     for number in range(8)]
            for one in asked:
                code = one.wait(case.PATIENCE)
                self.assertIn(code, (0, errno.EBUSY), one.stderr.read())
        self.assert_alive(program)
        self.end(program)
        saved = next(number for number, one in enumerate(asked) if one.returncode == 0)
        self.assert_good(f"image.{saved}")

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


    def build_library(self, build_id):
        return subprocess.run(
            ["cc", "-x", "c", "-shared", "-fPIC", f"-Wl,--build-id={build_id}", "-o",
             self.path("library.so"), "-"], check=False, text=True,
            input="int one(void) { return 1; }").returncode == 0

    @unittest.skipUnless(shutil.which("cc"), "no compiler here")
    def test_changed_library(self):
        """Of the same name, another build."""
        self.assertTrue(self.build_library("0x1234"))
        program = self.start(f"import ctypes; library = ctypes.CDLL({self.path('library.so')!r})",
                             "if line == 'call\\n': print(library.one(), flush=True)")
        self.save("-f", "image", program.pid)
        self.end(program)
        os.rename(self.path("library.so"), self.path("old.so"))
        self.assertTrue(self.build_library("0x5678"))
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(errno.EINVAL, done.returncode)
        self.assertIn(f"{self.path('library.so')} is another build", done.stderr)
        restarted = self.restart("-q", "--force", "image")
        self.assert_alive(restarted, "call")
        self.assertEqual("1\n", restarted.stdout.readline())
        # A library of the saved build is good, by whatever way it came there.
        shutil.copy(self.path("old.so"), self.path("library.so"))
        os.utime(self.path("library.so"), (1, 1))
        self.assert_good("image")

    def test_image_that_is_removed(self):
        """While the memory of a lazy restart is still mapped from it."""
        program = self.start(
            BIG, "if line == 'look\\n': print(len(memory), set(memory), flush=True)")
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "--lazy", "image")
        self.assert_alive(restarted)
        os.unlink(self.path("image"))
        self.assert_alive(restarted, "look")
        self.assertEqual(f"{24 << 20} {{{ord('x')}}}\n", restarted.stdout.readline())
        # The next image has it all.
        with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children",
                  encoding="ascii") as children:
            (pid,) = children.read().split()
        self.save("--nosync", "-f", "second", pid)
        self.end(restarted)
        restarted = self.restart("-q", "second")
        self.assert_alive(restarted, "look")
        self.assertEqual(f"{24 << 20} {{{ord('x')}}}\n", restarted.stdout.readline())


if __name__ == "__main__":
    case.main()
