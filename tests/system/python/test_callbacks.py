#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module cryo: callbacks, and critical sections.

    test_callbacks.py COMMANDS MODULES [unittest's arguments]
"""
import os
import signal
import textwrap

import case


class Callbacks(case.Case):
    PROGRAM = """
        words = []
        for number in "12":
            for kind, register in (("before", cryo.before_checkpoint), ("after", cryo.after_checkpoint),
                                   ("again", cryo.after_restart)):
                register(lambda word=f"{kind} {number}": words.append(word))
    """

    def test_order(self):
        self.start(textwrap.dedent(self.PROGRAM) + textwrap.dedent("""
            again = cryo.checkpoint("image")
            say("; ".join(words))
        """))
        self.end()
        self.assertEqual("before 2; before 1; after 1; after 2\n", self.output())
        self.back()
        self.end()
        self.assertEqual("before 2; before 1; again 1; again 2\n", self.output())

    def test_asked_from_outside(self):
        """While the program computes, sleeps, or holds a lock that a callback needs."""
        for what in ("sum(range(1000))", "time.sleep(1000)", "lock_for_a_while()"):
            with self.subTest(what):
                self.start(textwrap.dedent(self.PROGRAM) + textwrap.dedent(f"""
                    lock = threading.Lock()
                    def lock_for_a_while():
                        with lock:
                            time.sleep(0.02)
                    @cryo.after_checkpoint
                    def after():
                        with lock:
                            say("; ".join(words))
                    @cryo.after_restart
                    def again():
                        with lock:
                            say("; ".join(words))
                            os._exit(7)
                    say("ready")
                    while True:
                        {what}
                """))
                self.await_line("ready")
                self.save()
                self.await_line("before 2; before 1; after 1; after 2")
                self.kill()
                self.back()
                self.end(7)
                self.assertIn("before 2; before 1; again 1; again 2", self.output())
                os.unlink(self.path("output"))

    def test_objection(self):
        """No image, no file, and one may ask again."""
        self.start("""
            busy = True
            @cryo.before_checkpoint
            def before():
                if busy:
                    raise RuntimeError("in the middle of a transfer")
            cryo.after_checkpoint(lambda: say("after"))
            try:
                cryo.checkpoint("image")
            except cryo.Error as problem:
                say(problem, problem.code, type(problem.__cause__).__name__)
            say(os.listdir("."))
            say("ready")
            await_file("go")
            busy = False
            say("saved", cryo.checkpoint("image"))
        """)
        self.await_line("after\na callback does not want a checkpoint now: RuntimeError: in the middle of a transfer"
                        " 2354 RuntimeError")
        self.await_line("ready")
        self.assertIn("RuntimeError: in the middle of a transfer", self.output().split("after\n")[0])
        self.assertFalse(os.path.exists(self.path("image")))
        done = self.cryo("cr_checkpoint", "-f", "others", str(self.program.pid))
        self.assertEqual(2354 & 0xff, done.returncode, done.stderr)
        self.touch("go")
        self.end()
        self.assertIn("saved False", self.output())

    def test_failure_in_the_restored_program(self):
        self.start("""
            @cryo.after_restart
            def again():
                raise ConnectionError("the server is gone")
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.back()
        self.end(case.ABORTED)
        self.assertIn("ConnectionError: the server is gone", self.output())
        self.assertNotIn("saved True", self.output())

    def test_failure_where_it_goes_on(self):
        self.start("""
            @cryo.after_checkpoint
            def after():
                raise ValueError("nothing that matters")
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertIn("ValueError: nothing that matters", self.output())
        self.assertIn("saved False", self.output())

    def test_end_of_the_interpreter(self):
        """While others ask for checkpoints: the program ends as it wants to."""
        self.start("""
            import atexit
            def last():
                say("last")
                await_file("go")
            atexit.register(last) # later than the module's own, so it runs before
            cryo.before_checkpoint(lambda: say("before"))
            say("ready")
        """)
        self.await_line("last")
        self.save()
        self.touch("go")
        self.end()
        self.assertIn("before", self.output())


class Sections(case.Case):
    def test_delays_a_checkpoint(self):
        self.start("""
            import ctypes
            status = ctypes.CDLL("libcr.so.0").cr_status
            value = 1
            say("ready")
            with cryo.critical():
                with cryo.critical():
                    while status() != 1: # somebody asks
                        time.sleep(0.005)
                value = 2
                say("inside", os.path.exists("image"))
            say("value", value)
            await_file("go")
        """)
        self.await_line("ready")
        self.save()
        self.assertIn("inside False\n", self.output())
        self.kill()
        self.touch("go")
        self.back()
        self.end()
        self.assertIn("value 2", self.output())

    def test_every_way_out_leaves(self):
        self.start("""
            @cryo.critical()
            def work(value):
                return value + 1
            try:
                with cryo.critical():
                    raise KeyError("x")
            except KeyError:
                pass
            say(work(1), cryo.checkpoint("image"))
        """)
        self.end()
        self.assertIn("2 False", self.output())

    def test_another_thread_waits(self):
        """With callbacks, which run while a thread waits to enter."""
        self.start("""
            cryo.before_checkpoint(lambda: None)
            entered = 0
            def enter():
                global entered
                while not os.path.exists("end"):
                    with cryo.critical():
                        entered += 1
            others = [threading.Thread(target=enter) for _ in range(3)]
            for one in others:
                one.start()
            for _ in range(5):
                cryo.checkpoint("image")
                before = entered
                while entered < before + 100:
                    time.sleep(0.001)
            open("end", "w").close()
            for one in others:
                one.join()
            say("end")
        """)
        self.end()
        self.assertIn("end", self.output())

    def test_interrupted(self):
        """Ctrl-C while the checkpoint waits for another thread's section."""
        self.start("""
            def inside():
                with cryo.critical():
                    open("inside", "w").close()
                    await_file("leave")
            other = threading.Thread(target=inside)
            other.start()
            await_file("inside")
            say("ready")
            try:
                cryo.checkpoint("first")
            except KeyboardInterrupt:
                say("interrupted")
            await_file("leave")
            other.join()
            file = open("kept", "w") # gets no descriptor that means an image
            say("saved", cryo.checkpoint("second"))
            file.write("kept")
            file.close()
        """)
        self.await_line("ready")
        case.wait_until("the wait for the section", lambda: os.path.exists(self.path("first")))
        self.program.send_signal(signal.SIGINT)
        self.await_line("interrupted")
        self.touch("leave")
        self.end()
        os.unlink(self.path("kept"))
        self.touch("kept")
        self.back("second")
        self.end()
        self.assertIn("saved True", self.output())
        with open(self.path("kept"), encoding="ascii") as file:
            self.assertEqual("kept", file.read())


if __name__ == "__main__":
    case.main()
