#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module cryo: programs that save themselves, or cannot.

    test_python.py COMMANDS MODULES [unittest's arguments]
"""
import os
import re
import shutil
import socket
import sys

import case


class Itself(case.Case):
    """Programs that save themselves."""

    def test_in_a_loop(self):
        for run in (True, False): # a program that cr_run has not started takes part from the import on
            with self.subTest(cr_run=run):
                self.start("""
                    total = 0
                    for step in range(1, 1001):
                        total += step
                        if step == 500:
                            again = cryo.checkpoint("image")
                            say("back" if again else "saved", cryo.restarted(), cryo.restarts(), total)
                            if not again:
                                stay()
                    say("total", total, cryo.under_cr_run())
                    os.unlink("image")
                """, run)
                self.await_line("saved False 0 125250")
                self.assertEqual(0o400, os.stat(self.path("image")).st_mode & 0o777)
                self.kill()
                self.back()
                self.end()
                self.assertIn("back True 1 125250\ntotal 500500", self.output())
                self.assertNotIn("saved", self.output())
                os.unlink(self.path("output"))

    def test_generations(self):
        self.start("""
            while cryo.restarts() < 3:
                if not cryo.checkpoint("image"):
                    say("saved", cryo.restarts())
                    stay()
            say("restarts", cryo.restarts())
        """)
        for generation in range(3):
            self.await_line(f"saved {generation}")
            self.kill()
            self.back()
        self.end()
        self.assertIn("restarts 3", self.output())

    def test_in_the_working_directory(self):
        self.start("""
            again = cryo.checkpoint()
            say("back" if again else "saved", os.getpid())
        """)
        self.end()
        image = f"context.{self.await_line('saved .*')[0].split()[1]}"
        self.back(image)
        self.end()
        self.assertIn("back", self.output())

    def test_with_descendants(self):
        self.start("""
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                await_file("go")
                os.write(theirs, str(cryo.restarts()).encode())
                os._exit(0)
            again = cryo.checkpoint("image", tree=True)
            say("back" if again else "saved")
            if not again:
                stay()
            open("go", "w").close()
            say("the child's restarts:", os.read(ours, 10).decode(), os.waitpid(child, 0)[1])
        """)
        self.await_line("saved")
        self.kill()
        self.back()
        self.end()
        self.assertIn("the child's restarts: 1 0", self.output())

    def test_threads(self):
        """Others run on while one saves, and two may do so at once."""
        self.start("""
            counts = [0, 0]
            def count(which):
                while not os.path.exists("end"):
                    counts[which] += 1
            results = []
            def save(which):
                results.append(cryo.checkpoint(f"image{which}"))
            @cryo.before_checkpoint
            def before(): pass
            others = [threading.Thread(target=count, args=[which]) for which in (0, 1)]
            for one in others:
                one.start()
            savers = [threading.Thread(target=save, args=[which]) for which in (0, 1)]
            for one in savers:
                one.start()
            for one in savers:
                one.join()
            say("both", len(results), cryo.restarts())
            before = list(counts)
            while min(now - then for now, then in zip(counts, before)) < 1000:
                time.sleep(0.001)
            open("end", "w").close()
            for one in others:
                one.join()
            say("end", cryo.restarts())
        """)
        self.end()
        for image in "image0", "image1":  # the program from the first may make the second once more
            shutil.copy(self.path(image), self.path(f"{image}.first"))
        for image in "image0.first", "image1.first":
            os.unlink(self.path("end"))
            self.back(image)
            self.end()
            self.assertIn("both 2 1\nend 1", self.output())

    def test_numpy_array(self):
        self.start("""
            import numpy
            numbers = numpy.arange(1_000_000, dtype=float)
            square = numbers[:40_000].reshape(200, 200)
            product = square @ square
            checks = numbers.sum(), product.sum()
            again = cryo.checkpoint("image")
            same = checks == (numbers.sum(), product.sum())
            after = (square @ square == product).all()
            say("back" if again else "saved", same, after)
        """)
        self.end()
        self.assertIn("saved True True", self.output())
        self.back()
        self.end()
        self.assertIn("back True True", self.output())

    def test_child_of_a_fork(self):
        """Has no callbacks, and can save itself."""
        self.start("""
            @cryo.before_checkpoint
            def before():
                say("before", os.getpid() == parent)
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                say("child", cryo.checkpoint("image"))
                os._exit(0)
            say("parent", os.waitpid(child, 0)[1], cryo.checkpoint("parents"))
        """)
        self.end()
        self.assertIn("child False\nbefore True\nparent 0 False", self.output())
        self.back()
        self.end()
        self.assertIn("child True", self.output())


class Refused(case.Case):
    def refusal(self, code, **how):
        self.start(f"""
            try:
                {code}
            except cryo.Error as problem:
                say("refused:", problem)
            say(sorted(os.listdir(".")))
        """, **how)
        self.end()
        self.assertIn("['output', 'program.py']", self.output())
        return re.search(r"(?m)^refused: (.*)$", self.output())[1]

    def test_no_such_directory(self):
        self.assertEqual("nowhere/image: No such file or directory",
                         self.refusal('cryo.checkpoint("nowhere/image")'))

    def test_in_a_section(self):
        self.assertIn("critical section", self.refusal('with cryo.critical(): cryo.checkpoint("image")'))

    def test_what_cannot_be_saved(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            told = self.refusal('cryo.checkpoint("image")', stdin=theirs)
        self.assertRegex(told, r"^process \d+ cannot be saved: descriptor 0: a socket")

    def test_no_job(self):
        self.assertIn("cr_run mpirun", self.refusal("cryo.checkpoint_job()"))

    def test_in_a_callback(self):
        self.start("""
            @cryo.before_checkpoint
            def before():
                with cryo.critical():
                    try:
                        cryo.checkpoint("other")
                    except cryo.Error as problem:
                        say("refused:", problem)
            say("saved", cryo.checkpoint("image"))
        """)
        self.end()
        self.assertRegex(self.output(), "refused: .* callback .*\nsaved False")

    def test_wrong_arguments(self):
        self.start("""
            for wrong in ({"delta": "some"}, {"timeout": -1}, {"timeout": 1.5}, {"timeout": 2 ** 40}):
                try:
                    cryo.checkpoint("image", **wrong)
                except ValueError as problem:
                    say(problem)
            try:
                cryo.before_checkpoint(3)
            except TypeError as problem:
                say(problem)
        """)
        self.end()
        self.assertEqual(5, self.output().count("\n"), self.output())

    def test_without_the_library(self):
        """The module is there, and libcr is not."""
        self.modules = self.path("modules")
        shutil.copytree(case.MODULES, self.modules, ignore=shutil.ignore_patterns("*.so"))
        self.start("""
            cryo.before_checkpoint(lambda: say("never"))
            with cryo.critical():
                pass
            say(cryo.available(), cryo.under_cr_run(), cryo.restarted(), cryo.restarts())
            for save in cryo.checkpoint, cryo.checkpoint_job:
                try:
                    save()
                except cryo.Error as problem:
                    say("refused:", problem)
        """, run=False)
        self.end()
        self.assertRegex(self.output(), "False False False 0\n(refused: Cryo's library cannot be loaded: .*; install the"
                         " package cryo\n){2}")


class Examples(case.Case):
    def test_numpy(self):
        example = os.path.join(case.TOP, "examples", "python", "heat_numpy.py")
        words = [sys.executable, "-B", example, "2000", "500"]
        self.program = self.popen(words)
        self.end()
        natively = self.await_line("2000 steps: .*")[0]
        for name in "output", "heat.image": # without cr_run it saves itself, too
            os.unlink(self.path(name))
        self.program = self.popen([os.path.join(case.BIN, "cr_run"), *words])
        case.wait_until("an image", lambda: os.path.exists(self.path("heat.image"))
                   and os.path.getsize(self.path("heat.image")))
        self.kill()
        self.back("heat.image")
        self.end()
        self.assertIn("restarted 1 times", self.output())
        self.assertIn(natively, self.output())


if __name__ == "__main__":
    case.main()
