#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where an image goes, and what becomes of the one that was there: -c -f -F -d, --atomic --backup
--clobber --noclobber."""
import errno
import os
import subprocess
import sys

import case

COUNTER = os.path.abspath(sys.argv.pop())  # sync_counter.c


class Destinations(case.Case):
    def test_file_in_the_working_directory(self):
        program = self.start()
        name = f"context.{program.pid}"
        for option in ([], ["-c"], ["--cwd"]):
            self.save(*option, program.pid)
            self.assertEqual([name], self.files())
        self.assertEqual(0o400, os.stat(self.path(name)).st_mode & 0o7777)
        self.assert_alive(program)
        self.end(program)
        self.assert_good(name)
        self.assert_good("-f", name)

    def test_existing_file(self):
        program = self.start()
        self.save("-f", "image", program.pid)
        first = os.stat(self.path("image")).st_ino
        self.assertIn("exists", self.refuse(errno.EEXIST, "--noclobber", "-f", "image",
                                            program.pid))
        self.assertEqual(first, os.stat(self.path("image")).st_ino)
        for option in ([], ["--atomic"], ["--clobber"], ["--noclobber", "--atomic"]):
            before = os.stat(self.path("image")).st_ino
            self.save(*option, "-f", "image", program.pid)
            self.assertNotEqual(before, os.stat(self.path("image")).st_ino, option)
        self.assertEqual(["image"], self.files())

    def test_backup(self):
        program = self.start()
        inodes = []
        for _ in range(3):
            self.save("--backup", "-f", "image", program.pid)
            inodes.append(os.stat(self.path("image")).st_ino)
        self.assertEqual(["image", "image.~1~", "image.~2~"], self.files())
        self.assertEqual(inodes, [os.stat(self.path(name)).st_ino
                                  for name in ("image.~1~", "image.~2~", "image")])
        self.save("--backup=2", "-f", "image", program.pid)
        self.assertEqual(["image", "image.~2~", "image.~3~"], self.files())
        for _ in range(2):
            last = os.stat(self.path("image")).st_ino
            self.save("--backup=before", "-f", "image", program.pid)
            self.assertEqual(last, os.stat(self.path("before")).st_ino)
        self.assertEqual(["before", "image", "image.~2~", "image.~3~"], self.files())
        self.end(program)
        self.assert_good("image.~2~")

    def test_whether_the_disk_is_waited_for(self):
        """By the calls that wait for it."""
        program = self.start()

        def waits(*words):
            counts = self.path("counts")
            self.assertEqual(0, self.checkpoint(*words, program.pid, env={
                **os.environ, "LD_PRELOAD": COUNTER, "COUNT_SYNCS": counts}).returncode)
            if not os.path.exists(counts):
                return 0
            size = os.path.getsize(counts)
            os.unlink(counts)
            return size
        # The file, and the directory that has its name now; of a directory of images, each file.
        for where, least in ((["-f", "image"], 2), (["-d", "place"], 3)):
            for options in ([], ["--sync"], ["--nosync", "--sync"]):
                self.assertGreaterEqual(waits(*options, *where), least, (options, where))
            for options in (["--nosync"], ["--sync", "--nosync"]):
                self.assertEqual(0, waits(*options, *where), (options, where))
        with open(self.path("open"), "wb") as out:
            for option, expected in (("--sync", 1), ("--nosync", 0)):
                os.ftruncate(out.fileno(), 0)
                done = self.checkpoint(option, "-F", out.fileno(), program.pid, env={
                    **os.environ, "LD_PRELOAD": COUNTER, "COUNT_SYNCS": self.path(option)},
                    pass_fds=[out.fileno()])
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(expected == 1, os.path.exists(self.path(option)))
        self.end(program)
        self.assert_good("image")

    def test_contents_of_files(self):
        """--save-none takes back what was said before it."""
        program = self.start()
        sizes = {}
        for options in ((), ("--save-all",), ("--save-all", "--save-none"),
                        ("--save-none", "--save-exe"), ("--save-exe",)):
            self.save("--nosync", *options, "-f", "image", program.pid)
            sizes[options] = os.path.getsize(self.path("image"))
        some = 1 << 20  # what the program writes meanwhile is less
        self.assertGreater(sizes["--save-all",], sizes[()] + some)
        self.assertLess(sizes["--save-all", "--save-none"], sizes[()] + some)
        self.assertGreater(sizes["--save-none", "--save-exe"], sizes[()] + some)
        self.assertLess(abs(sizes["--save-none", "--save-exe"] - sizes["--save-exe",]), some)

    def test_descriptor(self):
        program = self.start()
        with open(self.path("piped"), "wb") as out:
            checkpoint = self.spawn(case.command("cr_checkpoint"), "-v", "-F", "1", program.pid,
                                    stderr=subprocess.PIPE, text=False)
            while part := checkpoint.stdout.read(1 << 16):
                out.write(part)
        self.assertEqual(0, checkpoint.wait())
        self.assertIn(b"descriptor 1", checkpoint.stderr.read())
        with open(self.path("written"), "wb") as out:
            done = self.checkpoint("-q", "--fd", out.fileno(), program.pid,
                                   pass_fds=[out.fileno()])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        with open(self.path("read"), "wb"), open(self.path("read"), "rb") as only_read:
            done = self.checkpoint("--fd", only_read.fileno(), program.pid,
                                   pass_fds=[only_read.fileno()])
        self.assertEqual(errno.EBADF, done.returncode)
        self.assert_alive(program)
        self.end(program)
        self.assert_good("piped")
        self.assert_good("written")

    def test_descriptor_whose_reader_goes_away(self):
        program = self.start()
        read, write = os.pipe()
        os.close(read)
        done = self.checkpoint("-F", write, program.pid, pass_fds=[write])
        os.close(write)
        self.assertEqual(errno.EPIPE, done.returncode)
        self.assert_alive(program)

    def test_directory(self):
        program = self.start()
        self.save("-d", "place", program.pid)
        self.assertEqual([f"context.{program.pid}", "tree.cryo"],
                         sorted(os.listdir(self.path("place"))))
        self.refuse(errno.EEXIST, "--noclobber", "-d", "place", program.pid)
        self.save("-d", "place/", program.pid)
        self.assertEqual(["place"], self.files())
        self.save("--backup", "-d", "place", program.pid)
        self.assertEqual(["place", "place.~1~"], self.files())
        os.mkdir(self.path("empty"))
        self.save("-d", "empty", program.pid)
        os.mkdir(self.path("mine"))
        os.mkdir(self.path("mine/diary"))
        self.assertIn("other files", self.refuse(errno.ENOTEMPTY, "-d", "mine", program.pid))
        self.assertEqual(["diary"], os.listdir(self.path("mine")))
        self.assert_alive(program)
        self.end(program)
        for name in ("place", "place.~1~", "empty"):
            self.assert_good(name)

    def test_what_is_no_file(self):
        program = self.start()
        os.mkfifo(self.path("fifo"))
        self.assertIn("no regular file", self.refuse(errno.EINVAL, "-f", "fifo", program.pid))
        with subprocess.Popen(["cat"], stdin=os.open(self.path("fifo"), os.O_RDWR),
                              stdout=subprocess.DEVNULL) as reader:
            self.save("--clobber", "-f", "fifo", program.pid)
            reader.kill()
        self.assertEqual(["fifo"], self.files())
        self.refuse(errno.EISDIR, "-f", ".", program.pid)
        self.refuse(errno.ENOENT, "-f", "absent/image", program.pid)

    def test_usage(self):
        for words in ([], ["-f", "a", "-F", "3", "1"], ["-c", "-d", "a", "1"], ["-p", "-s", "1"],
                      ["--no-such-option", "1"], ["--signal=NONE", "1"], ["0"], ["many"]):
            self.refuse(255, *words)
        for option in ("--help", "-?", "-h", "--version"):
            done = self.checkpoint(option)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertTrue(done.stdout)


if __name__ == "__main__":
    case.main()
