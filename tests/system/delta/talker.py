# SPDX-License-Identifier: Apache-2.0
"""A program that answers each line with a line.

    program = Talker("cr_run", PROGRAM)     # or cr_restart; it and its group are gone after kill()
    program.tell("store 1")
"""
import os
import signal
import subprocess


class Talker:
    def __init__(self, *words, **how):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True, **how)
        self.pid = self.process.pid

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended with {self.process.wait()}")
        return line

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def tell(self, text):
        """What it answers."""
        self.say(text)
        return self.answer()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
