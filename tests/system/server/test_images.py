#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that are sent to a server, and come back from it."""
import errno
import json
import os
import signal
import stat

import serving


class Images(serving.Case):
    def test_there_and_back(self):
        program = self.start()
        self.serve(listen="127.0.0.1:0") # a port that the system chooses
        done = self.checkpoint("-f", "image", "--second", self.url("solver/monday"), program.pid)
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
        self.assert_alive(program)
        self.assertEqual(["solver,monday"], self.stored())
        self.end(program)
        os.unlink(self.path("image"))
        self.assert_good(self.url("solver/monday"))
        self.assert_good(self.url("solver/latest"))
        name = os.listdir(self.path("images"))
        name.remove(".lock")
        self.assert_good("images/" + name[0])  # it is what was sent

    def test_a_later_one_replaces_it(self):
        program = self.start()
        self.serve()
        for word in "first", "second":
            self.assert_alive(program, word)
            self.save("--second", self.url("a"), program.pid)
        self.assertEqual(["a"], self.stored())
        self.end(program)
        self.assert_good(self.url("a"))

    def test_the_last_of_a_series(self):
        self.serve()
        for name in "z", "a": # not the last by its name
            program = self.start(each=f"print({name!r}, flush=True)")
            self.save("--second", self.url(f"series/{name}"), program.pid)
            self.end(program)
        restarted = self.restart("-q", self.url("series/latest"))
        self.assert_alive(restarted)
        self.assertEqual("a\n", restarted.stdout.readline())
        done = self.run_command("cr_restart", self.url("other/latest"))
        self.assertEqual(errno.ENOENT, done.returncode)
        self.assertIn("has no image of that series", done.stderr)

    def test_over_the_servers_end(self):
        program = self.start()
        self.serve()
        self.save("--second", self.url("a"), program.pid)
        self.end_server()
        self.end(program)
        self.serve()
        self.assert_good(self.url("a"))

    def test_other_ways_to_come_back(self):
        program = self.start()
        self.serve()
        self.save("--second", self.url("a"), program.pid)
        done = self.run_command("cr_restart", "--rehearse", self.url("a"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(self.url("a") + ": comes back as it was saved", done.stdout)
        self.end(program)
        for how in ("--pidns",), ("--no-restore-pid", "--lazy"):
            restarted = self.spawn(serving.case.command("cr_restart"), "-q", *how, "-f", self.url("a"))
            self.assert_alive(restarted)
            self.end(restarted)

    def test_what_is_said(self):
        program = self.start()
        self.serve()
        done = self.save("--json", "--second", self.url("a"), program.pid)
        said = json.loads(done.stdout)
        self.assertEqual((f"context.{program.pid}", self.url("a")), (said["image"], said["second"]))
        self.end(program)
        restarted = self.restart("--json", self.url("a"), stderr=serving.subprocess.PIPE)
        said = json.loads(restarted.stderr.readline())
        self.assertEqual(self.url("a"), said["image"])

    def test_a_program_that_is_ended(self):
        program = self.start()
        self.serve()
        self.save("--term", "--second", self.url("a"), program.pid)
        self.assertEqual(-signal.SIGTERM, program.wait(serving.PATIENCE))
        self.assert_good(self.url("a"))

    def test_what_is_there(self):
        program = self.start()
        self.serve("--quota", "1G")
        for name in "solver/monday", "solver/tuesday", "alone":
            self.save("-f", "image", "--second", self.url(name), program.pid)
        said = self.run_command("cr_server", "--list", self.url("")).stdout.splitlines()
        self.assertEqual(["alone", "solver/monday", "solver/tuesday"], [line.split()[0] for line in said[:-1]])
        self.assertRegex(said[-1], r"^[\d.]+ MiB of 1\.0 GiB are taken$")
        said = self.run_command("cr_server", "--list", self.url("solver/")).stdout.splitlines()
        self.assertEqual(3, len(said))
        self.assertEqual(0, self.run_command("cr_server", "--remove", self.url("solver/monday")).returncode)
        self.assertEqual(["alone", "solver,tuesday"], self.stored())
        done = self.run_command("cr_server", "--remove", self.url("solver/monday"))
        self.assertEqual(errno.ENOENT, done.returncode)

    def test_what_cannot_be_sent(self):
        program = self.start()
        self.serve()
        for code, text, *words in (
                (errno.EINVAL, "wants an image at a server", "--second", "elsewhere"),
                (errno.ENOTSUP, "not to gopher://", "--second", "gopher://host/a"),
                (errno.EINVAL, "names no image", "--second", self.url("series/")),
                (errno.EINVAL, "without a dot in front", "--second", self.url("../a")),
                (errno.EINVAL, "save to a file", "--second", self.url("a"), "-F", "1"),
                (errno.EINVAL, "save to a file", "--second", self.url("a"), "-d", "directory"),
                (errno.ENOTSUP, "without --delta", "--second", self.url("a"), "--delta=auto")):
            self.assertIn(text, self.refuse(code, *words, program.pid), words)
        self.assertEqual([], self.stored())
        self.assertEqual(["images", "key", "said"], self.files())
        for name, text in (("", "names no image"), ("a/b/c", "is named NAME or SERIES/NAME")):
            done = self.run_command("cr_restart", self.url(name))
            self.assertEqual(255, done.returncode)
            self.assertIn(text, done.stderr)
        done = self.run_command("cr_restart", self.url("a"))
        self.assertEqual(errno.ENOENT, done.returncode)
        self.assertIn("a: the server has no such image", done.stderr)

    def test_the_directory(self):
        self.serve()
        self.assertEqual(0o700, stat.S_IMODE(os.stat(self.path("images")).st_mode))
        done = self.run_command("cr_server", "--directory", "images", "--listen", "127.0.0.1:0")
        self.assertEqual(errno.EBUSY, done.returncode)
        self.assertIn("another cr_server keeps its images there", done.stderr)
        done = self.run_command("cr_server", "--directory", "more", "--listen", f"127.0.0.1:{self.port}")
        self.assertEqual(errno.EADDRINUSE, done.returncode)
        self.assertIn("another program listens there", done.stderr)
        os.mkdir(self.path("open"), 0o755)
        done = self.run_command("cr_server", "--directory", "open")
        self.assertEqual(errno.EACCES, done.returncode)
        self.assertIn("chmod 700", done.stderr)
        self.end_server()

    def test_the_key(self):
        done = self.run_command("cr_server", "--new-key")
        self.assertEqual(errno.EEXIST, done.returncode)
        self.assertIn("is not replaced", done.stderr)
        os.chmod(self.path("key"), 0o640)
        done = self.run_command("cr_server")
        self.assertEqual(errno.EACCES, done.returncode)
        self.assertIn("it is no secret any more", done.stderr)


if __name__ == "__main__":
    serving.main()
