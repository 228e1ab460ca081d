# SPDX-License-Identifier: Apache-2.0
"""What the tests of cr_checkpoint --attach share: programs that were not started under cr_run.

    TEST.py BIN PROGRAM STATIC-PROGRAM [--plain-user]
"""
import os
import sys

import case

PROGRAM = STATIC = ""
AGENT = "/cryo_attached.so"


def maps(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as file:
        return file.read()


def tracer(pid):
    return int(case.status(pid, "TracerPid") or 0)


class Attaching(case.Case):
    def run_plain(self, what="threads", program="", **where):
        started = self.spawn(program or PROGRAM, what, **where)
        self.assertEqual("ready\n", started.stdout.readline())
        return started

    def attach(self, program, *words):
        done = self.checkpoint("--attach", *words, program.pid)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def refuse_attach(self, program, *expected, **where):
        done = self.checkpoint("--attach", "-f", "image", program.pid, **where)
        self.assertNotEqual(0, done.returncode)
        for text in expected:
            self.assertIn(text, done.stderr)
        self.assertEqual([], self.files())
        if program.poll() is None:
            self.assertNotIn(AGENT, maps(program.pid))

    def comes_back(self, what):
        """Saved twice, killed, and restarted."""
        program = self.run_plain(what)
        self.attach(program, "-f", "image")
        self.assertIn(AGENT, maps(program.pid))
        self.assert_alive(program)
        self.attach(program, "--kill", "-f", "image")
        program.wait()
        self.assert_good("image")


def main():
    global PROGRAM, STATIC  # pylint: disable=global-statement
    PROGRAM, STATIC = (os.path.abspath(path) for path in sys.argv[2:4])
    del sys.argv[2:4]
    case.main()
