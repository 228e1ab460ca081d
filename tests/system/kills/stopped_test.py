#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_checkpoint is killed while the stopped program itself passes its pages: it goes on.

    stopped_test.py DIRECTORY-OF-COMMANDS
"""

import os
import signal
import subprocess
import sys
import tempfile

BIN = sys.argv[1]
PROGRAM = """
import signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
memory = bytearray(256 << 20)
for at in range(0, len(memory), 4096):
    memory[at] = 1 + at // 4096 % 250
print("ready", flush=True)
while sys.stdin.readline():
    print("alive", flush=True)
"""


def in_the_middle(checkpoint):
    """Whether it has read many pages, or has ended."""
    if checkpoint.poll() is not None:
        return True
    try:
        with open(f"/proc/{checkpoint.pid}/io", encoding="ascii") as file:
            return int(file.readline().split()[1]) > 32 << 20
    except OSError:
        return False  # it is just ending


def answer_of(program):
    """What the program says when it is asked."""
    try:
        program.stdin.write(b"are you there?\n")
        program.stdin.flush()
    except BrokenPipeError:
        return b""
    return program.stdout.readline()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        program = subprocess.Popen([os.path.join(BIN, "cr_run"), sys.executable, "-c", PROGRAM],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout.readline() == b"ready\n"
        for number in range(3):
            image = os.path.join(scratch, f"image.{number}")
            checkpoint = subprocess.Popen(
                [os.path.join(BIN, "cr_checkpoint"), "--snapshot=stop", "--nosync", "-f", image,
                 str(program.pid)], stdout=subprocess.DEVNULL)
            # Somewhere in the middle of the pages it stops reading, and is gone.
            while not in_the_middle(checkpoint):
                pass
            checkpoint.send_signal(signal.SIGSTOP)
            checkpoint.kill()
            checkpoint.wait()
            if answer_of(program) != b"alive\n":
                print(f"the program ended with status {program.wait()}")
                return 1
        program.stdin.close()
        status = program.wait()
        print(f"the program went on three times and ended with status {status}")
        return status


if __name__ == "__main__":
    sys.exit(main())
