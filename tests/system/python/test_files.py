#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module cryo: the file that a program saves itself into, and what may be there already.

    test_files.py COMMANDS MODULES [unittest's arguments]
"""
import os
import stat
import unittest

import case


class Files(case.Case):
    def refuse(self, name):
        self.start(f"""
            try:
                cryo.checkpoint("{name}")
            except cryo.Error as problem:
                say("refused:", problem)
        """)
        self.end()
        return self.await_line("refused: (.*)")[1]

    def test_same_name_again(self):
        """An ordinary user's, too, to whom an image is not writable; also where there is no new one."""
        self.become_plain_user()
        self.start("""
            busy = False
            @cryo.before_checkpoint
            def before():
                if busy:
                    raise RuntimeError("not now")
            for number in range(3):
                say("back" if cryo.checkpoint("image") else "saved", number)
            busy = True
            before = os.stat("image")
            try:
                cryo.checkpoint("image")
            except cryo.Error as problem:
                say(problem)
            say("as it was", os.stat("image").st_mode == before.st_mode, os.path.samestat(os.stat("image"), before))
        """)
        self.end()
        self.assertIn("saved 0\nsaved 1\nsaved 2\n", self.output())
        self.assertIn("RuntimeError: not now\nas it was True True\n", self.output())
        self.assertEqual(0o400, stat.S_IMODE(os.stat(self.path("image")).st_mode))
        self.back()
        self.end()
        self.assertIn("back 2\n", self.output())

    def test_protected_file(self):
        """Another user's file, or one that nobody may read, is not made writable."""
        self.become_plain_user()
        theirs = self.path("theirs")
        with open(theirs, "w", encoding="ascii") as file:
            file.write("theirs")
        os.chmod(theirs, 0o644 if self.user else 0)
        self.assertEqual("theirs: Permission denied", self.refuse("theirs"))
        self.assertEqual(6, os.path.getsize(theirs))

    @unittest.skipUnless(os.geteuid() == 0, "nobody else's files are to be had")
    def test_what_another_user_has_put_there(self):
        for kind, make in ("fifo", os.mkfifo), ("file", os.mknod):
            with self.subTest(kind):
                make(self.path(kind))
                os.chown(self.path(kind), case.PLAIN, case.PLAIN)
                reader = os.open(self.path(kind), os.O_RDONLY | os.O_NONBLOCK)
                self.addCleanup(os.close, reader)
                self.assertRegex(self.refuse(kind), f"^{kind}: belongs to user {case.PLAIN}, .* another file$")
                self.assertEqual(b"", os.read(reader, 1))
                self.assertEqual(case.PLAIN, os.stat(self.path(kind)).st_uid)
                os.unlink(self.path("output"))

    def test_link(self):
        with open(self.path("precious"), "w", encoding="ascii") as file:
            file.write("kept")
        os.symlink("precious", self.path("image"))
        self.assertEqual("image: is a symbolic link, which is not followed: name the image itself",
                         self.refuse("image"))
        self.assertTrue(os.path.islink(self.path("image")))
        with open(self.path("precious"), encoding="ascii") as file:
            self.assertEqual("kept", file.read())


if __name__ == "__main__":
    case.main()
