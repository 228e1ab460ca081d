#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and contents that would make a terminal do things, or look like a line of the command's own:
what each command says of them is plain text."""
import json
import os
import shutil

import case

# Sets a terminal's title, rings, goes back to the line's start, begins a line, and turns it around;
# the last two are the same in the upper half of Unicode, and of eight bits.
HOSTILE = b"\033]0;mine\a\r\nall is well: \xe2\x80\xae\xc2\x9b31m\x9b31m"
NAME = os.fsdecode(HOSTILE)
FORBIDDEN = [code for code in (*range(0x20), 0x7f, *range(0x80, 0xa0), 0x202e) if code != 0x0a]

MPI_COMMANDS = ("ompi-checkpoint", "ompi-restart", "opal-checkpoint", "opal-restart")


class HostileText(case.Case):
    def assert_plain(self, done, *said):
        """Nothing that a terminal obeys, and no line that the name has begun."""
        for text in (done.stdout, done.stderr):
            decoded = text.decode("utf-8")  # and so no byte that is none
            self.assertFalse([hex(ord(c)) for c in decoded if ord(c) in FORBIDDEN], decoded)
            self.assertFalse([line for line in decoded.splitlines()
                              if line.startswith("all is well")], decoded)
        for one in said:
            self.assertIn(one, (done.stdout + done.stderr).decode())

    def run_it(self, name, *words, **where):
        return self.run_command(name, *words, text=False, **where)

    def test_names_of_files_that_are_not_there(self):
        self.assert_plain(self.run_it("cr_run", "--no-mpi", "./" + NAME), "\\x1b]0;mine\\x07\\x0d\\n")
        for name in ("cr_restart", "cr_inspect"):
            done = self.run_it(name, NAME)
            self.assertNotEqual(0, done.returncode)
            self.assert_plain(done, "\\x1b]0;mine")
        for words in (("verify", NAME), ("list", NAME), ("apply", NAME, NAME, NAME)):
            self.assert_plain(self.run_it("cr_delta", *words))
        for name in MPI_COMMANDS:
            self.assert_plain(self.run_it(name, NAME))

    def test_words_that_are_no_options(self):
        """As of files in `command *`."""
        for name in ("cr_run", "cr_checkpoint", "cr_restart", "cr_inspect", "cr_delta", *MPI_COMMANDS):
            with self.subTest(name):
                done = self.run_it(name, "--" + NAME)
                self.assertNotEqual(0, done.returncode)
                self.assert_plain(done)
                done = self.run_it(name, NAME, NAME, NAME, NAME)
                self.assertNotEqual(0, done.returncode)
                self.assert_plain(done)

    def test_program(self):
        """Its name, its file, and what it has open, in messages, in --json, and of its image."""
        shutil.copy(os.path.realpath("/bin/sleep"), os.path.join(os.fsencode(self.directory), HOSTILE))
        program = self.spawn(case.command("cr_run"), "./" + NAME, "1000")
        case.wait_until("the program", lambda: os.fsencode(os.readlink(
            f"/proc/{program.pid}/exe")).endswith(b"/" + HOSTILE))
        for options in ((), ("-v",), ("--json",)):
            done = self.run_it("cr_checkpoint", *options, "--clobber", "-f", "image" + NAME, program.pid)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assert_plain(done)
        self.assertIn(NAME.encode("utf-8", "replace").split(b"?")[0],
                      json.loads(done.stdout)["image"].encode())
        self.end(program)
        image = "image" + NAME
        for options in ((), ("--json",), ("--maps",), ("--files",), ("--records",), ("--verify",)):
            with self.subTest(options):
                done = self.run_it("cr_inspect", *options, image)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assert_plain(done)
        done = self.run_it("cr_restart", "absent" + NAME)
        self.assertNotEqual(0, done.returncode)
        self.assert_plain(done, "\\x1b]0;mine", "No such file")

    def test_refused_program(self):
        """Several problems, a line each, one of them with such a name."""
        path = os.path.join(os.fsencode(self.directory), HOSTILE)
        program = self.start("import ctypes, os\n"
                             f"path = {path!r}\n"
                             "open(path, 'w').close()\n"
                             "fd = os.open(path, os.O_PATH)\n"
                             "os.unlink(path)\n"
                             "ring = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))\n"
                             "ctypes.CDLL(None).prctl(15, b'\\033[31m\\nall')")
        done = self.run_it("cr_checkpoint", "-f", "image", program.pid)
        self.assertNotEqual(0, done.returncode)
        self.assert_plain(done, "\n  ", "\\x1b]0;mine")
        self.assert_alive(program)

    def test_damaged_image(self):
        with open(self.path("image"), "wb") as file:
            file.write(HOSTILE * 1000)
        for name, *words in (("cr_restart",), ("cr_inspect",), ("cr_inspect", "--verify"),
                             ("cr_delta", "verify"), ("cr_delta", "list")):
            done = self.run_it(name, *words, "image")
            self.assertNotEqual(0, done.returncode)
            self.assert_plain(done)


if __name__ == "__main__":
    case.main()
