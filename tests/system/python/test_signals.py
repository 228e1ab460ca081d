#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module cryo: Ctrl-C, and handlers that raise, wherever a program waits for a checkpoint.

    test_signals.py COMMANDS MODULES [unittest's arguments]
"""
import os
import signal
import textwrap

import case


# A checkpoint that waits for another thread's section, until the test interrupts it: what comes of the
# request is known when the section has been left.
BROKEN_OFF = """
def break_off(image):
    other = enter_elsewhere()
    try:
        cryo.checkpoint(image)
    except KeyboardInterrupt:
        say("interrupted")
    await_file("leave")
    other.join()

"""


class Signals(case.Case):
    def start(self, code, **how):
        super().start(BROKEN_OFF + textwrap.dedent(code), **how)

    def interrupt(self):
        self.program.send_signal(signal.SIGINT)

    def break_off(self):
        """What the program waits for in its break_off()."""
        self.await_line("asked")
        self.interrupt()
        self.await_line("interrupted")
        self.touch("leave")

    def test_while_a_checkpoint_waits_for_a_section(self):
        self.start("""
            break_off("first")
            file = open("kept", "w") # gets no descriptor that means an image
            say("saved", cryo.checkpoint("second"))
            file.write("kept")
            file.close()
        """)
        self.break_off()
        self.end()
        os.unlink(self.path("kept"))
        self.touch("kept")
        self.back("second")
        self.end()
        self.assertIn("saved True", self.output())
        with open(self.path("kept"), encoding="ascii") as file:
            self.assertEqual("kept", file.read())

    def test_while_another_one_is_under_way(self):
        """Neither the wait to enter a section nor that to save itself outlasts Ctrl-C."""
        self.start("""
            other = enter_elsewhere()
            say("ready")
            await_request()
            try:
                say("enters")
                with cryo.critical():
                    say("entered")
            except KeyboardInterrupt:
                say("interrupted")
            try:
                say("saves")
                cryo.checkpoint("first")
            except KeyboardInterrupt:
                say("interrupted again")
            await_file("leave")
            other.join()
            await_file("go")
            say("saved", cryo.checkpoint("second"))
        """)
        self.await_line("ready")
        saver = self.begin_to_save()
        self.await_line("enters")
        self.interrupt()
        self.await_line("interrupted")
        self.await_line("saves")
        self.interrupt()
        self.await_line("interrupted again")
        self.assertIsNone(saver.poll())
        self.touch("leave")
        self.assertEqual(0, saver.wait(case.PATIENCE))
        self.touch("go")
        self.end()
        self.assertIn("saved False", self.output())
        self.assertNotIn("entered", self.output())

    def test_handlers_that_raise_around_sections(self):
        """Wherever that happens, the section has been left, or was not entered."""
        self.start("""
            class Tick(Exception):
                pass
            def tick(*_):
                raise Tick
            signal.signal(signal.SIGALRM, tick)
            for _ in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0002)
                    while True:
                        with cryo.critical():
                            pass
                except Tick:
                    pass
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertIn("saved False", self.output())

    def test_as_a_request_returns(self):
        """Nothing of it is left behind, whatever becomes of it."""
        self.start("""
            request = cryo._cryo.request
            def interrupted(*words):
                request(*words)
                signal.raise_signal(signal.SIGINT)
            def count():
                return len(os.listdir("/proc/self/fd"))
            cryo.checkpoint("image")
            before = count()
            cryo._cryo.request = interrupted
            try:
                cryo.checkpoint("first")
            except KeyboardInterrupt:
                say("interrupted", count() > before)
            cryo._cryo.request = request
            while count() > before:
                cryo.checkpoint("image")
            say("first", os.path.getsize("first") > 0)
        """)
        self.end()
        self.assertIn("interrupted True\nfirst True", self.output())

    def test_a_request_that_fails_later(self):
        """Its file, which was made for it, does not stay."""
        self.start("""
            busy, called = True, threading.Event()
            @cryo.before_checkpoint
            def before():
                wanted = busy
                called.set()
                if wanted:
                    raise RuntimeError("later")
            break_off("first")
            called.wait()
            busy = False
            while os.path.exists("first"):
                cryo.checkpoint("second")
            say("gone")
        """)
        self.break_off()
        self.await_line("gone")
        self.end()

    def test_two_threads_after_an_interruption(self):
        """One of them ends the request that was left: both find it, and the other one goes on."""
        self.start("""
            import select
            break_off("first")
            reap, request = cryo._cryo.reap, cryo._cryo.request
            left, past, both = set(cryo._unfinished), threading.Event(), threading.Barrier(2)
            select.select(left, [], []) # a handle is readable when the request is complete
            say("left", len(left))
            class Found(dict):
                def pop(self, *words):
                    both.wait()
                    return super().pop(*words)
            def reap_late(handle):
                if handle in left:
                    say("reaps")
                    if reaping: # the other one, too
                        past.set()
                    reaping.append(handle)
                    past.wait()
                    left.discard(handle) # whose number a later one may have
                return reap(handle)
            def ask(*words):
                past.set() # no thread asks before it has looked for what was left
                request(*words)
            reaping = []
            cryo._unfinished = Found(cryo._unfinished)
            cryo._cryo.reap, cryo._cryo.request = reap_late, ask
            def save(image):
                say("saved", cryo.checkpoint(image))
            savers = [threading.Thread(target=save, args=[image]) for image in ("second", "third")]
            for one in savers:
                one.start()
            for one in savers:
                one.join()
            say("unfinished", len(cryo._unfinished))
        """)
        self.break_off()
        self.end()
        self.assertIn("left 1\n", self.output())
        self.assertEqual(1, self.output().count("reaps"), self.output())
        self.assertEqual(2, self.output().count("saved False"), self.output())
        self.assertIn("unfinished 0\n", self.output())


if __name__ == "__main__":
    case.main()
