#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--lazy: memory comes from the image when it is touched, and is all there in the next image."""
import os

import case

MIB = 96
SETUP = f"""
import zlib
memory = bytearray({MIB} << 20)
for at in range(0, len(memory), 4096):
    memory[at:at + 8] = at.to_bytes(8, 'little')
def answer(word):
    if word == 'change':
        for at in range(0, len(memory), 1 << 20):
            memory[at + 9] = (memory[at + 9] + 1) % 256
    print(zlib.crc32(memory), flush=True)
"""


class Lazy(case.Case):
    def ask(self, program, word):
        program.stdin.write(word + "\n")
        program.stdin.flush()
        self.assertEqual(f"echo {word}\n", program.stdout.readline())
        return int(program.stdout.readline())

    def program(self):
        return self.start(SETUP, "answer(line.strip())")

    def child_of(self, restarted):
        with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children",
                  encoding="ascii") as file:
            return int(file.read().split()[0])

    def mapped_from(self, pid, name):
        """MiB of the file that are mapped."""
        total = 0
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if os.path.join(self.directory, name) in line:
                    start, end = line.split()[0].split("-")
                    total += int(end, 16) - int(start, 16)
        return total >> 20

    def test_generations(self):
        """Changed, saved and brought back again: nothing is lost, nothing depends on old images."""
        program = self.program()
        self.ask(program, "change")
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        checksum = None
        for generation in range(3):
            restarted = self.restart("-q", "--lazy", "image")
            if checksum is not None:
                self.assertEqual(checksum, self.ask(restarted, "same"))
            else:
                self.ask(restarted, "same")
            child = self.child_of(restarted)
            # What came from a file without a name is a file's, and is read at once.
            if generation < 2:
                self.assertGreaterEqual(self.mapped_from(child, "image"), MIB - 8)
            checksum = self.ask(restarted, "change")
            # The old image is replaced, or gone, while it is mapped.
            if generation == 1:
                os.unlink(self.path("image"))
            self.save("--nosync", "-p", "-f", "image", child)
            self.assertEqual(checksum, self.ask(restarted, "same"))
            self.end(restarted)
            self.assertGreaterEqual(os.path.getsize(self.path("image")), MIB << 20)
        restarted = self.restart("-q", "--eager", "image")
        self.assertEqual(checksum, self.ask(restarted, "same"))
        self.assertEqual(0, self.mapped_from(self.child_of(restarted), "image"))

    def test_what_is_eager(self):
        program = self.program()
        checksum = self.ask(program, "change")
        self.save("--nosync", "--compress=always", "-f", "packed", program.pid)
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("--lazy", "packed", stderr=-1)
        self.assertEqual(checksum, self.ask(restarted, "same"))
        self.assertLess(self.mapped_from(self.child_of(restarted), "packed"), 8)
        restarted = self.restart("--lazy", "image", stderr=-1)
        self.assertEqual(checksum, self.ask(restarted, "same"))
        restarted.stdin.close()
        self.assertEqual(0, restarted.wait(case.PATIENCE))
        self.assertIn("not verified", restarted.stderr.read())

    def test_memory_that_becomes_executable(self):
        """The next image has all of it, though a program's code is left out where a file has it."""
        setup = """
import ctypes, mmap, zlib
memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at:at + 8] = (at + 1).to_bytes(8, 'little')
def answer(word):
    if word == 'change':
        where = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(where), ctypes.c_size_t(len(memory)), 7):
            print(0, flush=True)
    print(zlib.crc32(memory), flush=True)
"""
        program = self.start(setup, "answer(line.strip())")
        checksum = self.ask(program, "same")
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "--lazy", "image")
        self.assertEqual(checksum, self.ask(restarted, "change"))
        self.save("--nosync", "-f", "image", self.child_of(restarted))
        self.end(restarted)
        restarted = self.restart("-q", "--eager", "image")
        self.assertEqual(checksum, self.ask(restarted, "same"))
        self.end(restarted)
        # Executable at the checkpoint, it is read at once.
        restarted = self.restart("-q", "--lazy", "image")
        self.assertEqual(checksum, self.ask(restarted, "same"))
        self.assertEqual(0, self.mapped_from(self.child_of(restarted), "image"))

    def test_memory_that_grows(self):
        """realloc() of a block that comes from the image, to beyond the end of that."""
        setup = """
import os, zlib
memory = bytearray(8 << 20)
for at in range(0, len(memory), 4096):
    memory[at:at + 8] = (at + 1).to_bytes(8, 'little')
def answer(word):
    if word == 'change':
        memory.extend(bytes(os.path.getsize('image') + (1 << 20)))
    print(zlib.crc32(memory[:8 << 20]), flush=True)
"""
        program = self.start(setup, "answer(line.strip())")
        checksum = self.ask(program, "same")
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "--lazy", "image")
        self.assertEqual(checksum, self.ask(restarted, "same"))
        self.assertGreaterEqual(self.mapped_from(self.child_of(restarted), "image"), 7)
        self.assertEqual(checksum, self.ask(restarted, "change"))


if __name__ == "__main__":
    case.main()
