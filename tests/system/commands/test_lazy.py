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


if __name__ == "__main__":
    case.main()
