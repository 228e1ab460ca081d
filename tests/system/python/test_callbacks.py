#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module cryo: callbacks, and critical sections.

    test_callbacks.py COMMANDS MODULES [unittest's arguments]
"""
import os
import re
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

    def test_two_threads_register_the_first(self):
        """At once, as a checkpoint waits: each is called once."""
        self.start("""
            words = []
            def register(word):
                cryo.before_checkpoint(lambda: words.append(word))
            def waits(thread):
                with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
                    return file.read().split()[0] == "202" # futex
            first = enter_elsewhere()
            say("ready")
            await_request()
            others = [threading.Thread(target=register, args=[word]) for word in "ab"]
            for one in others:
                one.start()
            for _ in range(2):
                while not all(map(waits, others)):
                    time.sleep(0.005)
            open("leave", "w").close()
            for one in [first, *others]:
                one.join()
            await_file("saved")
            words.clear()
            cryo.checkpoint("image")
            say("called:", *sorted(words))
        """)
        self.await_line("ready")
        self.assertEqual(0, self.begin_to_save().wait(case.PATIENCE))
        self.touch("saved")
        self.end()
        self.assertIn("called: a b\n", self.output())

    def test_wrong_functions(self):
        """A call of them does nothing that matters here."""
        self.start("""
            def generator():
                yield
            async def coroutine():
                pass
            for function in generator, coroutine:
                for use in cryo.before_checkpoint, cryo.after_checkpoint, cryo.after_restart, cryo.critical():
                    try:
                        use(function)
                    except TypeError as problem:
                        say("refused:", problem)
        """)
        self.end()
        self.assertEqual(8, self.output().count("refused: "), self.output())

    def test_exit_and_a_hook_that_fails(self):
        """What a callback raises is told in any case, and the others are called."""
        self.start("""
            busy = True
            @cryo.before_checkpoint
            def before():
                if busy:
                    sys.exit("not now")
            def hook(_):
                raise LookupError("the hook's own")
            @cryo.after_checkpoint
            def after():
                raise ValueError("nothing that matters")
            cryo.after_checkpoint(lambda: say("after"))
            try:
                cryo.checkpoint("image")
            except cryo.Error as problem:
                say(problem)
            busy = False
            threading.excepthook = hook
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        output = self.output()
        self.assertRegex(output, r"(?m)^Exception in a callback of Cryo's: SystemExit\('not now'\)$")
        self.assertIn("a callback does not want a checkpoint now: SystemExit: not now\n", output)
        self.assertIn("LookupError: the hook's own", output)
        self.assertEqual(2, len(re.findall("(?m)^after$", output)), output)
        self.assertIn("saved False", output)

    def test_child_made_in_a_callback(self):
        """It is in the callback still, and in no section that it could not leave."""
        self.start("""
            @cryo.before_checkpoint
            def before():
                with cryo.critical():
                    child = os.fork()
                if child != 0:
                    say("child:", os.waitpid(child, 0)[1])
                    return
                try:
                    cryo.checkpoint("other")
                except cryo.Error as problem:
                    say("refused:", problem)
                os._exit(0)
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertRegex(self.output(), "refused: .* callback .*\nchild: 0\nsaved False")

    def test_sub_interpreter(self):
        """Takes no part, and its end changes nothing."""
        self.start("""
            try:
                import _interpreters as interpreters
            except ImportError:
                import _xxsubinterpreters as interpreters
            cryo.before_checkpoint(lambda: say("before"))
            one = interpreters.create()
            interpreters.run_string(one, "import cryo; print('available', cryo.available(), flush=True)")
            interpreters.destroy(one)
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertEqual("available False\nbefore\nsaved False\n", self.output())

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

    def test_end_while_a_checkpoint_waits(self):
        """For a thread for which the program does not wait."""
        self.start("""
            cryo.before_checkpoint(lambda: None)
            enter_elsewhere("never", daemon=True)
            say("ready")
            await_request()
        """)
        self.await_line("ready")
        saver = self.begin_to_save()
        self.end()
        saver.wait(case.PATIENCE) # what it finds depends on how far the interpreter was


class Sections(case.Case):
    def test_delays_a_checkpoint(self):
        self.start("""
            value = 1
            say("ready")
            with cryo.critical():
                with cryo.critical():
                    await_request()
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

    def test_child_made_inside(self):
        """Leaves where its parent does, and can be saved."""
        self.start("""
            with cryo.critical():
                with cryo.critical():
                    child = os.fork()
                with cryo.critical():
                    pass
            if child == 0:
                say("child", cryo.checkpoint("image"))
                os._exit(0)
            say("parent", os.waitpid(child, 0)[1], cryo.checkpoint("parents"))
        """)
        self.end()
        self.assertIn("child False\nparent 0 False\n", self.output())

    def test_left_by_another_thread(self):
        self.start("""
            def leave():
                try:
                    cryo.critical().__exit__(None, None, None)
                except RuntimeError as problem:
                    say("refused:", problem)
            with cryo.critical():
                other = threading.Thread(target=leave)
                other.start()
                other.join()
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertRegex(self.output(), "refused: this thread is in no critical section.*\nsaved False")

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


if __name__ == "__main__":
    case.main()
