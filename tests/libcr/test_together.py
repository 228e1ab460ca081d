#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several at once: threads that are held for callbacks, and requests during the callbacks of another.

    test_together.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import os
import subprocess

import lab

MOMENT = 2.5  # longer than a signal that is blocked for no reason is waited for


class Together(lab.Case):
    def saver(self, program, image, *options, **environment):
        """A running cr_checkpoint."""
        words = self.lab.command("cr_checkpoint", "-q", *options, "-f", image,
                                 str(self.lab.pid_of(program)))
        return subprocess.Popen(words, cwd=self.lab.directory, env={**os.environ, **environment})

    def test_threads_are_held_until_all_callbacks_have_ended(self):
        program = self.lab.start("t1:lingers", "asked")
        saver = self.saver(program, self.lab.image)
        self.lab.await_line("t1 0", program)
        self.lab.touch("ask")
        self.lab.touch("go")
        self.lab.await_line("main runs", program)
        self.assertEqual(self.lab.log()[-2:], ["t1 through", "main runs"])
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.goes_on(program)

    def test_threads_that_are_not_held_go_on(self):
        program = self.lab.start("t1:lingers", "asked", "free")
        saver = self.saver(program, self.lab.image)
        self.lab.await_line("t1 0", program)
        self.lab.touch("ask")
        self.lab.await_line("main runs", program)
        self.assertNotIn("t1 through", self.lab.log())
        self.lab.touch("go")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.goes_on(program)

    def test_a_request_waits_for_the_one_before(self):
        for word in ("t1:waits", "s1:waits", "t1:lingers"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word, "o1")
                savers = [self.saver(program, f"image.{i}") for i in range(3)]
                self.lab.await_line(f"{word[:2]} enter", program)
                self.lab.touch("go")
                for i, saver in enumerate(savers):
                    self.assertEqual(saver.wait(lab.PATIENCE), 0)
                    self.assertTrue(os.path.exists(f"{self.lab.directory}/image.{i}"))
                self.lab.await_line("o1 0", program, 3)
                self.assertEqual(self.lab.log().count(f"{word[:2]} enter"), 3)
                self.goes_on(program)

    def test_requester_that_dies_in_the_callbacks(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:waits")
                saver = self.saver(program, self.lab.image)
                self.lab.await_line(f"{context}1 enter", program)
                saver.kill()
                saver.wait(lab.PATIENCE)
                self.lab.touch("go")
                self.lab.await_line(f"{context}1 -", program)
                self.assertFalse(os.path.exists(self.lab.image))
                self.save(program)
                self.goes_on(program)

    def test_a_request_waits_for_the_callbacks_of_one_that_has_died(self):
        """Callbacks run with all signals blocked; the program is not taken for a deaf one."""
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:waits")
                first = self.saver(program, self.lab.image)
                self.lab.await_line(f"{context}1 enter", program)
                first.kill()
                first.wait(lab.PATIENCE)
                second = self.saver(program, self.lab.image)
                with self.assertRaises(subprocess.TimeoutExpired):
                    second.wait(MOMENT)
                self.lab.touch("go")
                self.assertEqual(second.wait(lab.PATIENCE), 0)
                self.lab.await_line(f"{context}1 0", program)
                self.goes_on(program)

    def test_a_request_waits_for_the_callbacks_of_a_restart(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:lingers")
                self.lab.touch("go")
                self.assertEqual(self.saver(program, self.lab.image).wait(lab.PATIENCE), 0)
                self.lab.kill(program)
                os.unlink(self.lab.path + ".go")
                again = self.lab.restart("-q")
                self.lab.await_line(f"{context}1 1", again)
                saver = self.saver(again, "other.image")
                with self.assertRaises(subprocess.TimeoutExpired):
                    saver.wait(MOMENT)
                self.lab.touch("go")
                self.assertEqual(saver.wait(lab.PATIENCE), 0)
                self.goes_on(again)
                again.stderr.close()

    def test_a_slow_disk(self):
        """With --sync, callbacks wait for it for as long as it takes; the last option counts."""
        library = os.path.join(lab.Lab.clients, "slow_sync.so")
        for options in (["--sync"], ["--nosync", "--sync"]):
            with self.subTest(options), lab.Lab() as self.lab:
                place = os.path.join(self.lab.directory, "disk")
                program = self.lab.start("s1:looks")
                saver = self.saver(program, self.lab.image, *options, "--stall=1",
                                   LD_PRELOAD=library, SLOW_SYNC=place)
                self.lab.wait_for(lambda at=place: os.path.exists(at + ".begun"), "the disk", saver)
                with self.assertRaises(subprocess.TimeoutExpired):
                    saver.wait(MOMENT)
                self.assertEqual(self.lab.log(), ["s1 enter"])
                with open(place + ".done", "w", encoding="ascii"):
                    self.assertEqual(saver.wait(lab.PATIENCE), 0)
                self.lab.await_line("s1 image", program)
                self.goes_on(program)

    def test_callbacks_that_do_not_wait_for_a_disk(self):
        """By default, or where --nosync is the last option."""
        for options in ([], ["--sync", "--nosync"]):
            with self.subTest(options), lab.Lab() as self.lab:
                place = os.path.join(self.lab.directory, "disk")
                program = self.lab.start("s1")
                saver = self.saver(program, self.lab.image, *options, "--stall=1",
                                   LD_PRELOAD=os.path.join(lab.Lab.clients, "slow_sync.so"),
                                   SLOW_SYNC=place)
                self.lab.await_line("s1 0", program)
                with open(place + ".done", "w", encoding="ascii"):
                    self.assertEqual(saver.wait(lab.PATIENCE), 0)
                self.goes_on(program)


if __name__ == "__main__":
    lab.main()
