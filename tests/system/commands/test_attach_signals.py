#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals and --attach: those of the program, and those that end the command."""
import signal

import attaching
import case


class Signals(attaching.Attaching):
    def test_alarms(self):
        self.comes_back("alarms")

    def test_all_blocked(self):
        self.comes_back("blocks")

    def test_vector_registers(self):
        self.comes_back("busy")

    def end_command(self, what, how):
        """As soon as it traces the program, wherever that stands then."""
        program = self.run_plain(what)
        saver = self.spawn(case.command("cr_checkpoint"), "--attach", "-f", "image", program.pid)
        case.wait_until("its tracer or its end", lambda:
                        attaching.tracer(program.pid) == saver.pid or saver.poll() is not None)
        saver.send_signal(how)
        saver.wait()
        self.assertNotEqual(saver.pid, attaching.tracer(program.pid))
        self.assert_alive(program)
        self.attach(program, "-f", "image")
        self.assert_alive(program)
        self.end(program)

    def test_killed_command(self):
        for what in ("threads", "busy", "alarms", "loader") * 3:
            with self.subTest(what):
                self.end_command(what, signal.SIGKILL)

    def test_interrupted_command(self):
        for what in ("threads", "busy", "alarms"):
            with self.subTest(what):
                self.end_command(what, signal.SIGINT)


if __name__ == "__main__":
    attaching.main()
