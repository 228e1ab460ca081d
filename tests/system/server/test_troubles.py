#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that dies, has no room, or is none; clients that go away; strangers: the program and its image
are as they would be without a server."""
import errno
import os
import resource
import signal
import socket
import unittest

import serving


class Troubles(serving.Case):
    def assert_unharmed(self, program, image):
        """The program goes on, and its image is whole."""
        self.assert_alive(program)
        self.end(program)
        self.assert_good(image)

    def refuse_second(self, code, program, port=None, **where):
        """The image is made, and not its copy; what was said."""
        done = self.checkpoint("-f", "image", "--second", self.url("a", port), program.pid, **where)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertIn("image is complete, but not its copy at the server", done.stderr)
        return done.stderr

    def test_server_that_is_killed_midway(self):
        program = self.start_large()
        self.serve()
        middle = serving.Middle(self.port, most=3 << 20, then=self.server.kill)
        self.assertIn("the server has ended the connection",
                      self.refuse_second(errno.ECONNRESET, program, middle.port))
        middle.end()
        self.server.wait(serving.PATIENCE)
        self.assertRegex(self.stored()[0], r"\.incoming\.\d+")
        self.serve()
        self.assertEqual([], self.stored())
        self.assert_unharmed(program, "image")

    def test_server_that_is_killed_while_it_replaces(self):
        program = self.start_large()
        self.serve()
        self.save("-f", "first", "--second", self.url("a"), program.pid)
        middle = serving.Middle(self.port, most=3 << 20, then=self.server.kill)
        self.refuse_second(errno.ECONNRESET, program, middle.port)
        middle.end()
        self.server.wait(serving.PATIENCE)
        self.serve()
        self.assertEqual(["a"], self.stored())
        self.assert_unharmed(program, "image")
        self.assert_good(self.url("a"))

    def test_server_that_says_nothing(self):
        """The program does not wait for it."""
        program = self.start()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(serving.PATIENCE)
            saver = self.spawn(serving.case.command("cr_checkpoint"), "-f", "image", "--second",
                               self.url("a", silent.getsockname()[1]), program.pid,
                               stderr=serving.subprocess.PIPE)
            connection, _ = silent.accept()
            self.assertIn("image", self.files())
            self.assert_alive(program)
            self.assertIsNone(saver.poll())
            connection.close()
        self.assertIn("has ended the connection", saver.stderr.read())
        self.assertEqual(errno.EACCES, saver.wait(serving.PATIENCE))
        self.assert_unharmed(program, "image")

    def test_client_that_is_killed_midway(self):
        program = self.start_large()
        self.serve()
        middle = serving.Middle(self.port, most=3 << 20, then=lambda: saver.kill())
        saver = self.spawn(serving.case.command("cr_checkpoint"), "-f", "image", "--second",
                           self.url("a", middle.port), program.pid)
        self.assertEqual(-signal.SIGKILL, saver.wait(serving.PATIENCE))
        middle.end()
        serving.case.wait_until("the end of what was sent", lambda: self.stored() == [])
        self.save("-f", "again", "--second", self.url("a"), program.pid)
        self.assertEqual(["a"], self.stored())
        self.assert_unharmed(program, "image")

    def test_recorded_session(self):
        """Byte for byte what a client has said does nothing a second time."""
        program = self.start()
        self.serve()
        middle = serving.Middle(self.port)
        self.save("-f", "image", "--second", self.url("a", middle.port), program.pid)
        middle.end()
        before = os.stat(self.path("images")).st_mtime_ns
        names = os.listdir(self.path("images"))
        with socket.create_connection(("127.0.0.1", self.port), serving.PATIENCE) as again:
            try:
                for part in middle.recorded:
                    again.sendall(part)
                while again.recv(65536):
                    pass
            except ConnectionError:
                pass
        self.assertEqual((before, names), (os.stat(self.path("images")).st_mtime_ns,
                                           os.listdir(self.path("images"))))
        self.assertNotIn(b"complete", b"".join(middle.recorded))
        self.assert_unharmed(program, self.url("a"))

    def test_quota(self):
        program = self.start()
        self.serve("--quota", "1M")
        self.assertIn("quota is 1048576 bytes, of which 0 are taken", self.refuse_second(errno.EDQUOT, program))
        self.assertEqual([], self.stored())
        self.assert_unharmed(program, "image")

    def test_limit_of_files(self):
        """As a disk that is full once a part has been written."""
        program = self.start_large()
        limit = 2 << 20
        self.serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertIn("images: File too large", self.refuse_second(errno.EFBIG, program))
        self.assertEqual([], self.stored())
        self.assertIn("cr_server: a of node ", self.said())
        self.assert_unharmed(program, "image")

    @unittest.skipUnless(os.geteuid() == 0, "mounts a small file system")
    def test_full_disk(self):
        program = self.start_large()
        os.mkdir(self.path("images"), 0o700)
        script = 'mount -t tmpfs -o size=4m,mode=700 none images || exit 99; exec "$@"'
        self.server_words = ["unshare", "--mount", "sh", "-c", script, "sh"]
        self.serve()
        self.assertIn("the server's disk has room for", self.refuse_second(errno.ENOSPC, program))
        self.assert_unharmed(program, "image")

    def test_other_key(self):
        program = self.start()
        self.serve()
        os.rename(self.path("key"), self.path("theirs"))
        said = self.refuse(errno.ENOENT, "-f", "image", "--second", self.url("a"), program.pid)
        self.assertIn("'cr_server --new-key' makes one", said)
        self.assertNotIn("image", self.files()) # that was known before
        self.assertEqual(0, self.run_command("cr_server", "--new-key").returncode)
        self.assertIn("has another key", self.refuse_second(errno.EACCES, program))
        self.assertEqual([], self.stored())
        self.assert_unharmed(program, "image")

    def test_program_that_would_be_ended(self):
        """What fails for certain is refused before."""
        program = self.start()
        self.serve()
        os.rename(self.path("key"), self.path("theirs"))
        for how in "--kill", "--term":
            said = self.refuse(errno.ENOENT, how, "-f", "image", "--second", self.url("a"), program.pid)
            self.assertIn("--second: ", said)
        self.assertEqual(0, self.run_command("cr_server", "--new-key").returncode)
        said = self.refuse(errno.EACCES, "--kill", "-f", "image", "--second", self.url("a"), program.pid)
        self.assertIn("has another key", said)
        self.end_server()
        said = self.refuse(errno.ECONNREFUSED, "--kill", "-f", "image", "--second", self.url("a"), program.pid)
        self.assertIn("there is no server of images", said)
        self.refuse(errno.ENOENT, "--kill", "-f", "image", "--second", "cryo://host.invalid/a", program.pid)
        self.assert_alive(program)
        self.assertNotIn("image", self.files())

    def test_no_server(self):
        program = self.start()
        self.assertIn("there is no server of images (Connection refused)",
                      self.refuse_second(errno.ECONNREFUSED, program))
        self.assert_unharmed(program, "image")
        done = self.run_command("cr_restart", self.url("a"))
        self.assertEqual(errno.ECONNREFUSED, done.returncode)

    def test_crowd_of_strangers(self):
        program = self.start()
        self.serve()
        crowd = [socket.create_connection(("127.0.0.1", self.port), serving.PATIENCE) for _ in range(40)]
        for one in crowd:
            self.addCleanup(one.close)
        for one in crowd[::2]:
            try:
                one.sendall(b"\x16\x03\x01" + os.urandom(100))
            except ConnectionError:
                pass
        self.save("-f", "image", "--second", self.url("a"), program.pid)
        self.assert_unharmed(program, self.url("a"))

    def test_damaged_image(self):
        program = self.start()
        self.serve()
        self.save("-f", "image", "--second", self.url("a"), program.pid)
        name = next(name for name in os.listdir(self.path("images")) if name != ".lock")
        path = os.path.join(self.path("images"), name)
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        done = self.run_command("cr_restart", self.url("a"))
        self.assertEqual(errno.EBADMSG, done.returncode, done.stderr)
        self.assertIn("is not what was saved (checksum)", done.stderr)
        self.assert_unharmed(program, "image")


if __name__ == "__main__":
    serving.main()
