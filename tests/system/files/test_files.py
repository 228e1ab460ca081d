#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and descriptors as a person decides about them: --relocate, --stdin and its kin, --pipes,
--sockets, --save-files, and what is refused by name.

    test_files.py --bin build/release/bin [TestCase.test_name]
"""
import fcntl
import os
import socket
import subprocess
import unittest

import case


class Files(case.Case):
    """Each test is one program, saved and brought back in a directory of its own."""

    def test_relocate(self):
        self.start("f = open('data', 'w+'); f.write('one '); f.flush()",
                   "f.write('two'); f.close(); open('made', 'w').close()")
        self.save()
        moved = os.path.join(self.top, "other=place")
        os.rename(self.directory, moved)
        os.unlink(os.path.join(moved, "ready"))
        status, printed = self.restart(directory=moved)
        self.assertNotEqual(0, status)
        self.assertIn(self.path("data"), printed)
        # A relocation of another place that only begins alike must not count.
        self.back("--relocate", self.directory[:-1] + "=/nowhere",
                  "--relocate", self.directory + "=" + moved.replace("=", "\\="),
                  directory=moved)
        self.assertEqual("one two", self.read(os.path.join(moved, "data")))
        self.assertTrue(os.path.exists(os.path.join(moved, "made")), "the working directory")

    def test_relocate_is_told_when_wrong(self):
        for wrong in ("nothing", "/a=b", "a=/b", "/a=/b=/c", "/a\\x=/b", ""):
            done = subprocess.run([self.command("cr_restart"), "--relocate", wrong, "image"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(255, done.returncode, wrong)
            self.assertIn("--relocate", done.stderr)

    def test_redirection(self):
        with open(self.path("old"), "wb") as old:
            self.start("print('before', flush=True)",
                       "print('after', flush=True); print('to error', file=sys.stderr)\n"
                       "print(sys.stdin.read(), flush=True)", stdout=old)
        self.save()
        os.unlink(self.path("old"))
        status, printed = self.restart()
        self.assertNotEqual(0, status)
        self.assertIn(self.path("old"), printed)
        new = os.path.join(self.top, "new")
        error = os.path.join(self.top, "error")
        source = os.path.join(self.top, "source")
        with open(source, "w", encoding="ascii") as file:
            file.write("from the source")
        self.back("--stdout", new, "--stderr", error, "--stdin", source)
        self.assertEqual("after\nfrom the source\n", self.read(new))
        self.assertIn("to error", self.read(error))

    def check_redirection_of_one_end(self, pair):
        self.start("import socket\n" + pair +
                   "\nos.dup2(a.fileno(), 0); a.close(); os.write(0, b'said')",
                   "print(sys.stdin.read(), b.recv(9), b.recv(9), flush=True)")
        self.save()
        source = os.path.join(self.top, "source")
        with open(source, "w", encoding="ascii") as file:
            file.write("from the source")
        self.back("--stdin", source)
        self.assertIn("from the source b'said' b''", self.read(self.log.name))

    def test_redirection_of_one_end(self):
        self.check_redirection_of_one_end("a, b = socket.socketpair()")

    def test_redirection_of_a_listener(self):
        """No process listens at what stands for it, and nobody is connected there."""
        source, out = (os.path.join(self.top, name) for name in ("source", "out"))
        with open(source, "w", encoding="ascii") as file:
            file.write("from the source")
        for listener in ("s = socket.socket(socket.AF_UNIX); s.bind('listens'); s.listen()",
                         "s = socket.create_server(('127.0.0.1', 0))"):
            self.start(f"import socket; {listener}\n"
                       "a = socket.socket(s.family); a.connect(s.getsockname())\n"
                       "b, _ = s.accept(); a.send(b'said'); os.dup2(s.fileno(), 0); s.close()",
                       "print(sys.stdin.read(), b.recv(9), flush=True)")
            self.save("--clobber")
            self.back("--stdin", source, "--stdout", out)
            self.assertEqual("from the source b'said'\n", self.read(out))
            for path in (out, self.path("ready"), self.path("go")):
                os.unlink(path)

    def test_who_has_sent_what_waits_is_said_to_be_another(self):
        for option, waits in ((1, "a.send(b'it')"), (1, "pass"), (0, "a.send(b'it')")):
            self.start("import socket; a, b = socket.socketpair()\n"
                       f"b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, {option}); {waits}")
            told = self.save("--clobber")
            self.assertEqual(bool(option) and waits != "pass", "SO_PASSCRED" in told, told)
            os.unlink(self.path("ready"))

    # Where `waits` is a socket with datagrams of `sender`, which is closed.
    DATAGRAMS = ("import socket; new = lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                 "waits, sender = new(), new(); waits.bind('waits')\n")

    def test_datagrams_whose_sender_has_its_name_no_more(self):
        abstract = f"\0files.{os.getpid()}"
        for name in ("sender", abstract):
            for file in ("waits", "sender", "ready"):
                if os.path.exists(self.path(file)):
                    os.unlink(self.path(file))
            self.start(self.DATAGRAMS + f"sender.bind({name!r}); sender.sendto(b'text', 'waits')\n"
                       "sender.close()", "print(waits.recvfrom(9), flush=True)")
            self.save("--clobber")
            if name == "sender":
                os.unlink(self.path(name))
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                other.bind(self.path(name) if name == "sender" else name)
                status, printed = self.restart()
                self.assertNotEqual(0, status)
                self.assertIn("sender" if name == "sender" else "@" + name[1:], printed)
            os.unlink(self.path("go"))
            self.back()
            self.assertIn("(b'text', ", self.read(self.log.name).splitlines()[-1])
            os.unlink(self.path("go"))

    def test_datagrams_of_somebody_outside(self):
        self.start(self.DATAGRAMS + "sender.bind('sender'); sender.sendto(b'first', 'waits')",
                   "waits.setblocking(False)\n"
                   "try: print(waits.recv(9), flush=True)\n"
                   "except BlockingIOError: print('nothing', flush=True)")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.bind(self.path("outside"))
            other.sendto(b"text", self.path("waits"))
            self.assertIn(self.path("outside"), self.refused())
            self.assertIn(self.path("outside"), self.save("--sockets=close"))
            self.back()
        self.assertIn("nothing", self.read(self.log.name))

    # Where `waits` is a UDP socket, and `sender` another one; their addresses are in "ready".
    UDP = ("import socket; new = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
           "waits, sender = new(), new()\n"
           "for one in (waits, sender): one.bind(('127.0.0.1', 0))\n"
           "with open('named', 'w') as file:\n"
           "    print(waits.getsockname()[1], sender.getsockname()[1], file=file)\n"
           "def send():\n"
           "    sender.sendto(b'text', waits.getsockname())\n"
           "    waits.recv(9, socket.MSG_PEEK)\n")

    def ports(self):
        return [int(word) for word in self.read(self.path("named")).split()]

    def test_udp_of_an_address_that_another_has(self):
        self.start(self.UDP + "send(); sender.close()", "print(waits.recvfrom(9), flush=True)")
        address = ("127.0.0.1", self.ports()[1])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(address)
            self.assertIn(f"127.0.0.1:{address[1]}", self.refused())
        self.save()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(address)
            status, printed = self.restart()
            self.assertNotEqual(0, status)
            self.assertIn(f"127.0.0.1:{address[1]}", printed)
        os.unlink(self.path("go"))
        self.back()
        self.assertIn(f"(b'text', {address!r})", self.read(self.log.name))

    def test_udp_to_outside(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            port = other.getsockname()[1]
            self.start(self.UDP + f"send(); sender.connect(('127.0.0.1', {port}))",
                       "sender.send(b'x'); print('sent', flush=True)")
            self.save()
            self.back()
            self.assertIn("sent", self.read(self.log.name))
            self.assertEqual((b"x", ("127.0.0.1", self.ports()[1])), other.recvfrom(9))

    def check_redirection_of_tcp(self, ends):
        self.check_redirection_of_one_end(
            "l = socket.create_server(('127.0.0.1', 0))\n"
            "called = socket.create_connection(l.getsockname())\n"
            f"{ends} = called, l.accept()[0]; l.close()")

    def test_redirection_of_a_caller(self):
        self.check_redirection_of_tcp("a, b")

    def test_redirection_of_who_accepted(self):
        self.check_redirection_of_tcp("b, a")

    def test_redirection_to_own(self):
        with open(self.path("old"), "wb") as old:
            self.start("", "print('hello', flush=True)", stdout=old)
        self.save()
        with open(os.path.join(self.top, "own"), "wb") as own:
            self.back("--stdout=-", stdout=own)
        self.assertEqual("hello\n", self.read(os.path.join(self.top, "own")))
        self.assertEqual("", self.read(self.path("old")))

    def test_locked_by_another(self):
        self.start("import fcntl; f = open('data', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)\n"
                   "g = open('whole', 'w'); fcntl.flock(g, fcntl.LOCK_EX)")
        self.save()
        for name, take in (("data", fcntl.lockf), ("whole", fcntl.flock)):
            with open(self.path(name), "w", encoding="ascii") as file:
                take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                status, printed = self.restart()
                self.assertNotEqual(0, status)
                self.assertIn(self.path(name), printed)
                self.assertIn("lock", printed)
                os.unlink(self.path("go"))
        self.back()

    def test_connection(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.start(f"import socket; s = socket.create_connection(('127.0.0.1', {port}))",
                       "try: s.recv(1); print('received', flush=True)\n"
                       "except OSError as error: print(error.errno, flush=True)")
            refusal = self.refused()
            for word in ("descriptor", f"127.0.0.1:{port}", "--sockets=close"):
                self.assertIn(word, refusal)
            self.save("--sockets=close")
        out = os.path.join(self.top, "out")
        self.assertIn("closed", self.back("--stdout", out))
        self.assertEqual("107\n", self.read(out))  # ENOTCONN

    def test_all_problems_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.start(f"import socket; s = socket.create_connection(('127.0.0.1', {port}))\n"
                       "d = os.open('/dev/kmsg', os.O_WRONLY) if os.access('/dev/kmsg', os.W_OK) "
                       "else os.open('/dev/null', os.O_RDONLY)\n"
                       "p = os.pidfd_open(os.getppid())")
            refusal = self.refused()
        self.assertIn("pidfd", refusal)
        self.assertIn(f"127.0.0.1:{port}", refusal)

    def test_renamed_socket_whose_old_name_is_taken(self):
        """It is bound there for a moment."""
        self.start("import socket; s = socket.socket(socket.AF_UNIX); s.bind('old'); s.listen()\n"
                   "os.rename('old', 'new')", "print(s.getsockname(), flush=True)")
        self.save()
        open(self.path("old"), "w").close()
        status, printed = self.restart()
        self.assertNotEqual(0, status)
        self.assertIn("old stands where a socket was; remove it", printed)
        os.unlink(self.path("old"))
        os.unlink(self.path("go"))
        self.back()
        self.assertEqual("old\n", self.read(self.log.name))
        self.assertTrue(os.path.exists(self.path("new")))
        self.assertFalse(os.path.exists(self.path("old")))

    def test_pipes_to_outside(self):
        ends = [os.pipe(), os.pipe()]
        writers = [end[1] for end in ends]
        self.start("", f"print(os.write({writers[0]}, b'x'), flush=True)\n"
                       f"try: os.write({writers[1]}, b'y')\n"
                       "except BrokenPipeError: print('broken', flush=True)\n"
                       "import signal", pass_fds=writers)
        self.assertIn("a second pipe to a process outside", self.refused("--pipes=refuse"))
        self.assertIn(f"descriptor {writers[1]}, a pipe to a process outside", self.save())
        for end in ends:
            os.close(end[0])
            os.close(end[1])
        out = os.path.join(self.top, "out")
        with open(os.path.join(self.top, "own"), "wb") as own:
            printed = self.back("--stdout", out, stdout=own)
        self.assertIn("closed at its other end", printed)
        self.assertEqual("x", self.read(os.path.join(self.top, "own")))
        self.assertEqual("1\nbroken\n", self.read(out))

    def test_pipes_that_stand_for_standard_streams(self):
        """Those go before what is inherited, whatever number the pipe has."""
        inherited, own = os.pipe(), os.pipe()
        self.start("", "print(sys.stdin.read(), os.read(9, 1), flush=True)",
                   stdin=own[0], pass_fds=[9], preexec_fn=lambda: os.dup2(inherited[0], 9))
        said = self.save()
        self.assertIn("descriptor 9, a pipe to a process outside", said)
        self.assertNotIn("descriptor 0", said)
        given = os.path.join(self.top, "given")
        with open(given, "w+", encoding="ascii") as file:
            file.write("given")
            file.seek(0)
            self.back(stdin=file)
        for end in (*inherited, *own):
            os.close(end)
        self.assertEqual("given b''\n", self.read(self.log.name).splitlines(True)[-1])

    def test_second_fifo_to_outside(self):
        ends = []
        for name in "one", "two":
            os.mkfifo(self.path(name))
            ends.append(os.open(self.path(name), os.O_RDWR))
        self.start("r = [os.open(n, os.O_RDONLY | os.O_NONBLOCK) for n in ('one', 'two')]")
        self.assertIn("--pipes=close", self.refused("--retry=0"))
        self.assertIn("comes back as closed at its other end", self.save("--pipes=close"))
        for end in ends:
            os.close(end)

    def test_fifo_of_two_names(self):
        """Both are there again, whichever was removed."""
        for removed in ((), ("one",), ("two",), ("one", "two")):
            with self.subTest(removed):
                self.start("os.mkfifo('one', 0o640); os.link('one', 'two')\n"
                           "w, r = os.open('one', os.O_RDWR), os.open('two', os.O_RDONLY)\n"
                           "os.write(w, b'kept')",
                           "same = [os.stat(n).st_ino for n in ('one', 'two')] + "
                           "[os.fstat(f).st_ino for f in (w, r)]\n"
                           "print(os.read(r, 9), len(set(same)), os.stat('one').st_nlink, flush=True)")
                self.save()
                for name in removed:
                    os.unlink(self.path(name))
                self.back()
                self.assertEqual("b'kept' 1 2", self.read(self.log.name).splitlines()[-1])
                for name in ("one", "two", "ready", "go"):
                    os.unlink(self.path(name))

    def test_fifo_of_three_names(self):
        """The third is told."""
        self.start("os.mkfifo('one'); os.link('one', 'two'); os.link('one', 'three')\n"
                   "all = [os.open(n, os.O_RDWR) for n in ('one', 'two', 'three', 'three')]",
                   "print(*(os.path.exists(n) for n in ('one', 'two', 'three')), flush=True)")
        said = self.save()
        self.assertEqual(1, said.count("FIFO "), said)
        self.assertRegex(said, "FIFO .*/one will not have its further name .*/three")
        for name in ("one", "two", "three"):
            os.unlink(self.path(name))
        self.back()
        self.assertEqual("True True False", self.read(self.log.name).splitlines()[-1])

    def test_fifo_whose_other_name_is_something_else_now(self):
        self.start("os.mkfifo('one'); os.link('one', 'two')\n"
                   "w, r = os.open('one', os.O_RDWR), os.open('two', os.O_RDONLY)")
        self.save()
        os.unlink(self.path("two"))
        os.mkfifo(self.path("two"))
        status, printed = self.restart()
        self.assertNotEqual(0, status)
        self.assertRegex(printed, "FIFO .*/two: this was another name")
        for name in ("one", "two"):
            os.unlink(self.path(name))
        os.symlink("nowhere", self.path("two"))
        status, printed = self.restart()
        self.assertNotEqual(0, status)
        self.assertRegex(printed, "FIFO .*/two: this was another name")
        self.assertFalse(os.path.exists(self.path("one")), "what was made is removed again")

    def test_fifo_whose_other_name_cannot_be(self):
        """Its directory is gone, or is where a link of another user leads: it is back by the first."""
        for spoil in ("gone", "link"):
            if spoil == "link" and os.geteuid() != 0:
                continue
            with self.subTest(spoil):
                self.start("os.mkdir('place'); os.mkfifo('one'); os.link('one', 'place/two')\n"
                           "w, r = os.open('one', os.O_RDWR), os.open('place/two', os.O_RDONLY)\n"
                           "os.write(w, b'kept')",
                           "print(os.read(r, 9), os.stat('one').st_nlink, flush=True)")
                self.save()
                for name in ("place/two", "one"):
                    os.unlink(self.path(name))
                os.rmdir(self.path("place"))
                if spoil == "link":
                    os.mkdir(self.path("elsewhere"))
                    os.symlink("elsewhere", self.path("place"))
                    os.lchown(self.path("place"), 12345, 12345)
                self.assertRegex(self.back(), "FIFO .*/one does not get its other name, .*/place/two")
                self.assertEqual("b'kept' 1", self.read(self.log.name).splitlines()[-1])
                for name in ("one", "ready", "go"):
                    os.unlink(self.path(name))
        self.assertEqual([], os.listdir(self.path("elsewhere")) if os.geteuid() == 0 else [])

    @unittest.skipUnless(os.geteuid() == 0, "mounts are root's")
    def test_fifo_with_two_paths_by_a_mount(self):
        """A mount of its directory gives it no second name."""
        for name in ("place", "again"):
            os.mkdir(self.path(name))
        mount = ["mount", "--bind", self.path("place"), self.path("again")]
        if subprocess.run(mount, check=False).returncode != 0:
            self.skipTest("no mounts here")
        try:
            self.start("os.mkfifo('place/one')\n"
                       "w, r = os.open('place/one', os.O_RDWR), os.open('again/one', os.O_RDONLY)\n"
                       "os.write(w, b'kept')", "print(os.read(r, 9), flush=True)")
            self.save()
        finally:
            subprocess.run(["umount", self.path("again")], check=True)
        self.assertNotIn("other name", self.back())
        self.assertEqual("b'kept'", self.read(self.log.name).splitlines()[-1])

    def test_save_files(self):
        self.start("f = open('data', 'r+' if os.path.exists('data') else 'w+')\n"
                   "f.write('saved'); f.flush()",
                   "f.write(' and more'); f.seek(0); print(f.read(), flush=True)")
        os.chmod(self.path("data"), 0o640)
        self.save("--save-files")
        out = os.path.join(self.top, "out")
        for spoiled in ("something longer than that", "", None):
            if spoiled is None:
                os.unlink(self.path("data"))
            else:
                with open(self.path("data"), "w", encoding="ascii") as file:
                    file.write(spoiled)
            before = set(os.listdir(self.directory))
            self.back("--stdout", out)
            self.assertEqual("saved and more", self.read(self.path("data")))
            self.assertEqual("saved and more\n", self.read(out))
            self.assertEqual(0o640, os.stat(self.path("data")).st_mode & 0o7777)
            self.assertEqual(before | {"data", "go", "done"}, set(os.listdir(self.directory)))
            os.unlink(out)
            os.unlink(self.path("go"))

    def test_saved_file_that_is_there_stays_the_same_file(self):
        # As SQLite looks: by inode number. Its POSIX lock must outlast the writing.
        self.start("import fcntl; f = open('data', 'w+'); f.write('saved'); f.flush()\n"
                   "fcntl.lockf(f, fcntl.LOCK_EX); number = os.stat('data').st_ino",
                   "print(number == os.stat('data').st_ino == os.fstat(f.fileno()).st_ino)\n"
                   "if os.fork() == 0:\n"
                   "    try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                   "    except OSError: print('locked', flush=True)\n"
                   "    os._exit(0)\n"
                   "os.wait(); f.seek(0); print(f.read(), flush=True)")
        self.save("--save-files")
        out = os.path.join(self.top, "out")
        for spoiled in ("something longer", "x", ""):
            with open(self.path("data"), "w", encoding="ascii") as file:
                file.write(spoiled)
            before = set(os.listdir(self.directory))
            self.back("--stdout", out)
            self.assertEqual("True\nlocked\nsaved\n", self.read(out))
            self.assertEqual(before | {"go", "done"}, set(os.listdir(self.directory)))
            os.unlink(out)
            os.unlink(self.path("go"))

    def test_shared_memory_that_is_gone(self):
        name = f"/dev/shm/cryo.{os.getpid()}"
        self.addCleanup(lambda: os.path.exists(name) and os.unlink(name))
        self.start(f"import mmap; f = open({name!r}, 'w+b'); f.truncate(4096)\n"
                   "m = mmap.mmap(f.fileno(), 4096); m[0:5] = b'saved'",
                   f"print(m[0:5].decode(), open({name!r}).read(5), flush=True)")
        self.save()
        os.unlink(name)
        out = os.path.join(self.top, "out")
        self.back("--stdout", out)
        self.assertEqual("saved saved\n", self.read(out))

    def test_failed_restart_leaves_saved_files_alone(self):
        self.start("import fcntl; g = open('whole', 'w'); fcntl.flock(g, fcntl.LOCK_EX)\n"
                   "f = open('data', 'w+'); f.write('saved'); f.flush()")
        self.save("--save-files")
        with open(self.path("data"), "w", encoding="ascii") as file:
            file.write("newer")
        before = set(os.listdir(self.directory))
        with open(self.path("whole"), "r+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status, _ = self.restart()
        self.assertNotEqual(0, status)
        self.assertEqual("newer", self.read(self.path("data")))
        self.assertEqual(before | {"go"}, set(os.listdir(self.directory)))

    def test_listener_in_use(self):
        self.start("import socket; s = socket.create_server(('127.0.0.1', 0))\n"
                   "open('port', 'w').write(str(s.getsockname()[1]))")
        self.save()
        port = int(self.read(self.path("port")))
        with socket.create_server(("127.0.0.1", port)):
            status, printed = self.restart()
        self.assertNotEqual(0, status)
        self.assertIn(f"127.0.0.1:{port}", printed)


if __name__ == "__main__":
    case.main()
