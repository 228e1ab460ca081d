#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Callbacks: their order, what they may say, and what becomes of those that misbehave.

    test_callbacks.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import errno
import os
import signal
import subprocess

import lab

CR_ETEMPFAIL, CR_EPERMFAIL, CR_ERSTRTABRT, CR_EOMITTED = 2354, 2355, 2362, 2358


class Order(lab.Case):
    def test_last_registered_is_called_first(self):
        program = self.lab.start("s1", "s2", "s3")
        self.save(program)
        entered = ["s3 enter", "s2 enter", "s1 enter"]
        self.lab.await_line("s3 0", program)
        self.assertEqual(self.lab.log(), [*entered, "s1 0", "s2 0", "s3 0"])
        self.bring_back(program, [*entered, "s1 1", "s2 1", "s3 1"])

    def test_thread_context_reaches_its_checkpoint_first(self):
        program = self.lab.start("s1", "t1", "s2", "t2")
        self.save(program)
        log = self.lab.log()
        self.assertEqual(log[:4], ["t2 enter", "t1 enter", "s2 enter", "s1 enter"])
        self.assertEqual(sorted(log[4:]), ["s1 0", "s2 0", "t1 0", "t2 0"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.lab.await_line("t2 1", again)
        self.lab.await_line("s2 1", again)
        self.assertEqual(self.lab.log()[:4], log[:4])
        self.assertEqual(sorted(self.lab.log()[4:]), ["s1 1", "s2 1", "t1 1", "t2 1"])
        self.goes_on(again)
        again.stderr.close()

    def saver(self, program, *options):
        """A running cr_checkpoint."""
        return subprocess.Popen(self.lab.command("cr_checkpoint", "-q", *options, "-f",
                                                 self.lab.image, str(program.pid)),
                                cwd=self.lab.directory)

    def test_signal_context_waits_for_all_thread_contexts_and_the_program_does_not(self):
        program = self.lab.start("s1", "t1:waits", "t2", "o1", "asked")
        saver = self.saver(program)
        self.lab.await_line("t1 enter", program)
        self.lab.touch("ask")
        self.lab.await_line("main runs", program)
        self.assertEqual(self.lab.log(), ["t2 enter", "t1 enter", "main runs"])
        self.lab.touch("go")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.goes_on(program)

    def test_threads_run_their_callbacks_at_the_same_time(self):
        program = self.lab.start("s1:waits", "o1:waits", "o2:waits")
        saver = self.saver(program)
        for name in ("s1", "o1", "o2"):  # none of them goes on before all are there
            self.lab.await_line(f"{name} enter", program)
        self.lab.touch("go")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.goes_on(program)

    def test_nobody_goes_on_before_all_have_come_to_their_checkpoint(self):
        program = self.lab.start("s1", "t1", "o1:waits")
        saver = self.saver(program)
        self.lab.await_line("o1 enter", program)
        self.lab.await_line("s1 enter", program)
        self.lab.touch("go")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        for name in ("s1", "t1", "o1"):
            self.lab.await_line(f"{name} 0", program)
        log = self.lab.log()
        self.assertEqual(log[0], "t1 enter")
        self.assertLess(max(log.index(f"{name} enter") for name in ("s1", "t1", "o1")),
                        min(log.index(f"{name} 0") for name in ("s1", "t1", "o1")))
        self.goes_on(program)

    def test_threads_that_have_ended_take_their_callbacks_along(self):
        program = self.lab.start("s1", "o1:ended", "t1")
        self.save(program)
        self.lab.await_line("s1 0", program)
        self.assertEqual([line for line in self.lab.log() if line.startswith("o1")], [])
        self.goes_on(program)

    def test_child_has_no_callbacks(self):
        program = self.lab.start("s1", "o1", "t1", "child")
        child = int(self.lab.lines()[0].split()[1])
        self.assertNotEqual(child, program.pid)
        done = self.lab.run("cr_checkpoint", "-f", self.lab.image, str(child))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.lab.await_line("own 0", program)
        self.assertEqual(self.lab.log(), ["own enter", "own 0"])
        self.assertEqual(self.lab.end(program), 9)

    def test_registration_waits_for_the_end_of_a_checkpoint(self):
        program = self.lab.start("t1:waits", "registers")
        saver = self.saver(program)
        self.lab.await_line("t1 enter", program)
        self.lab.touch("ask")
        self.lab.await_line("main registers", program)
        self.lab.touch("go")
        self.lab.await_line("main has registered", program)
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.assertEqual(self.lab.log(), ["t1 enter", "main registers", "t1 0",
                                          "main has registered"])
        self.save(program, "--clobber")
        self.lab.await_line("late 0", program)
        self.assertEqual(self.lab.log()[4:6], ["t1 enter", "late enter"])
        self.goes_on(program)

    def test_callbacks_of_several_threads(self):
        program = self.lab.start("s1", "o1", "o2", "o3", "t1", "thread")
        self.save(program)
        log = self.lab.log()
        self.assertEqual(log[0], "t1 enter")
        self.assertEqual(sorted(log[1:5]), ["o1 enter", "o2 enter", "o3 enter", "s1 enter"])
        self.assertEqual(sorted(log[5:]), ["o1 0", "o2 0", "o3 0", "s1 0", "t1 0"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        for name in ("o1", "o2", "o3", "s1", "t1"):
            self.lab.await_line(f"{name} 1", again)
        self.assertEqual(len(self.lab.log()), 10)
        self.goes_on(again)
        again.stderr.close()

    def test_early_return_is_taken_for_ready(self):
        program = self.lab.start("s1", "s2:early", "t1:early", "t2")
        self.save(program)
        self.lab.await_line("t2 0", program)
        self.assertEqual(self.lab.log()[:4], ["t2 enter", "t1 enter", "s2 enter", "s1 enter"])
        self.goes_on(program)

    def test_generations(self):
        program = self.lab.start("s1", "t1")
        for generation in range(1, 5):
            self.save(program, "--clobber")
            self.lab.kill(program)
            program = self.lab.restart("-q")
            self.addCleanup(program.stderr.close)
            self.lab.wait_for(lambda: sorted(self.lab.log()[-2:]) == ["s1 1", "t1 1"]
                              and len(self.lab.log()) == 4 * generation, "restarted callbacks",
                              program)
        self.goes_on(program)


class Votes(lab.Case):
    def rolled_back(self, words, code, outcome, called):
        """The checkpoint fails with CODE, CALLED callbacks hear OUTCOME, the program goes on and
        can still be saved when it wants to."""
        program = self.lab.start(*words)
        self.save(program, code=code)
        self.lab.wait_for(lambda: len(self.lab.log()) >= 2 * len(called), "end of the callbacks")
        self.assertEqual(self.lab.log(), [f"{name} enter" for name in called]
                         + [f"{name} -{outcome}" for name in reversed(called)])
        self.goes_on(program)

    def test_temporary_failure(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                self.rolled_back([f"{context}1", f"{context}2:temp", f"{context}3"], CR_ETEMPFAIL,
                                 CR_ETEMPFAIL, [f"{context}3", f"{context}2"])

    def test_temporary_failure_with_a_code(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                self.rolled_back([f"{context}1:temp=911", f"{context}2"], 911, 911,
                                 [f"{context}2", f"{context}1"])

    def test_omission(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                self.rolled_back([f"{context}1", f"{context}2:omit", f"{context}3"], errno.ESRCH,
                                 CR_EOMITTED, [f"{context}3", f"{context}2"])

    def test_failure_in_thread_context_leaves_signal_context_alone(self):
        self.rolled_back(["s1", "t1:temp"], CR_ETEMPFAIL, CR_ETEMPFAIL, ["t1"])

    def test_failure_in_one_thread_rolls_back_the_others(self):
        program = self.lab.start("o1", "o2:temp=77", "s1", "t1")
        self.save(program, code=77)
        self.lab.await_line("t1 -77", program)
        for line in self.lab.log():
            self.assertRegex(line, "enter$|-77$")
        self.goes_on(program)

    def test_permanent_failure_kills(self):
        for word, code in (("s1:perm", CR_EPERMFAIL), ("t1:perm=300", 300), ("o1:perm", CR_EPERMFAIL),
                           ("s1:fails", CR_EPERMFAIL), ("t1:fails", CR_EPERMFAIL)):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word)
                self.save(program, code=code)
                self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGKILL)

    def test_failure_after_the_image_kills_and_leaves_no_image(self):
        for word in ("s1:cont_fails", "t1:cont_fails"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word, "s9")
                self.save(program, code=CR_EPERMFAIL)
                self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGKILL)

    def test_failure_after_the_image_was_committed_leaves_it(self):
        for word in ("s1:cont_fails", "t1:cont_fails"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word)
                done = self.lab.checkpoint(program, "-S", str(int(signal.SIGCONT)))
                self.assertEqual(done.returncode, CR_EPERMFAIL & 0xff, done.stderr)
                self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGKILL)
                again = self.lab.restart("-q")
                self.lab.await_line(f"{word[:2]} 1", again)
                self.goes_on(again)
                again.stderr.close()

    def test_failure_in_the_restored_copy(self):
        for word in ("s1:rstrt_fails", "t1:rstrt_fails"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word)
                self.save(program)
                self.goes_on(program)
                again = self.lab.restart("-q")
                text = again.communicate(timeout=lab.PATIENCE)[1]
                self.assertEqual(again.returncode, CR_ERSTRTABRT & 0xff, text)
                self.assertIn("callback", text)


class Ends(lab.Case):
    def test_end_before_the_image(self):
        for behaviour, status in (("exit=3", 3), ("crash", -signal.SIGSEGV), ("exec", 5)):
            for context in "sto":
                with self.subTest(f"{context} {behaviour}"), lab.Lab() as self.lab:
                    program = self.lab.start(f"{context}1:{behaviour}")
                    self.save(program, code=errno.ESRCH)
                    self.assertEqual(program.wait(lab.PATIENCE), status)

    def test_end_after_the_image(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:exit_after=20")
                self.save(program)
                self.assertEqual(program.wait(lab.PATIENCE), 20)
                again = self.lab.restart("-q")
                self.assertEqual(again.wait(lab.PATIENCE), 21)
                again.stderr.close()

    def test_crash_after_the_image(self):
        program = self.lab.start("t1:crash_after")
        self.save(program)
        self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGSEGV)
        again = self.lab.restart("-q")
        self.assertEqual(again.wait(lab.PATIENCE), -signal.SIGSEGV)
        again.stderr.close()

    def test_thread_that_ends_in_its_callback(self):
        for word in ("o1:leave", "t1:leave"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start(word, "s1")
                self.save(program, code=CR_ETEMPFAIL)
                # A thread of the program's is gone, with its callbacks; the library's comes again.
                self.save(program, code=0 if word[0] == "o" else CR_ETEMPFAIL)
                self.assertEqual(self.lab.log().count(f"{word[:2]} enter"), 1 + (word[0] == "t"))
                self.goes_on(program)

    def test_child_of_a_callback_ends_with_its_thread(self):
        program = self.lab.start("t1:parts", "t2")
        self.save(program)
        self.lab.await_line("t2 0", program)
        self.assertEqual(self.lab.log(), ["t2 enter", "t1 enter", "t2 -2364", "t1 child has ended",
                                          "t1 0", "t2 0"])
        self.goes_on(program)

    def test_fork_in_a_callback(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:fork")
                self.save(program)
                self.lab.await_line(f"{context}1 0", program)
                self.assertEqual(self.lab.log(), [f"{context}1 enter",
                                                  f"{context}1 child is in none",
                                                  f"{context}1 forked", f"{context}1 0"])
                self.goes_on(program)


class Calls(lab.Case):
    def test_information(self):
        program = self.lab.start("t1:info", "s1:info")
        self.save(program, "--term")
        image = os.path.realpath(self.lab.directory) + "/image"
        for name in ("t1", "s1"):
            mine = [line.split(" ", 1)[1] for line in self.lab.log() if line.startswith(name)]
            self.assertEqual(mine[:6], ["enter", image, str(int(signal.SIGTERM)), "target",
                                        "requester", "no restart"])

    def test_information_about_no_file(self):
        program = self.lab.start("s1:info")
        done = subprocess.run(self.lab.command("cr_checkpoint", "-q", "-F", "1", str(program.pid)),
                              stdout=subprocess.PIPE, check=False, timeout=lab.PATIENCE)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.lab.log()[1:3], ["s1 ", "s1 0"])
        self.goes_on(program)

    def test_information_of_a_restart(self):
        program = self.lab.start("s1:rinfo")
        self.save(program)
        image = os.path.realpath(self.lab.directory) + "/image"
        self.bring_back(program, ["s1 enter", "s1 1", f"s1 {image}", "s1 requester"])

    def test_replaced_callbacks(self):
        program = self.lab.start("s1:replaced", "s2:off", "t1:off", "t2:replaced", "s3:self")
        self.save(program)
        self.lab.await_line("s3 0", program)
        self.assertEqual(self.lab.log(), ["t2 replacement", "s3 enter", "s3 0", "s1 replacement",
                                          "s3 0"])
        self.save(program, "--clobber")
        self.assertEqual(self.lab.log()[5:], ["t2 replacement", "s3 replacement",
                                              "s1 replacement"])
        self.goes_on(program)

    def test_replaced_after_the_image(self):
        """It holds where the call was made: in the program that goes on (0), or in the copy (1)."""
        for context in "st":
            for where in (0, 1):
                with self.subTest(context, where=where), lab.Lab() as self.lab:
                    self.replaced_in(f"{context}1", where)

    def replaced_in(self, name, where):
        rounds = [[f"{name} enter", f"{name} {rc}"] + [f"{name} replaced"] * (rc == where)
                  for rc in (0, 1)]
        nexts = [[f"{name} replacement"],
                 [f"{name} enter", f"{name} 0"] + [f"{name} replaced"] * (where == 0)]
        kept = self.lab.image + ".kept"
        self.save(program := self.lab.start(f"{name}:self_after={where}"))
        self.lab.await_line(rounds[0][-1], program)
        os.rename(self.lab.image, kept)
        self.save(program)
        after = rounds[0] + nexts[where]
        self.lab.wait_for(lambda: len(self.lab.log()) >= len(after), "end", program)
        self.assertEqual(self.lab.log(), after)
        self.lab.kill(program)
        os.replace(kept, self.lab.image)
        again = self.lab.restart("-q")  # the log is what it was, too
        self.addCleanup(again.stderr.close)
        self.lab.await_line(rounds[1][-1], again)
        self.save(again, "--clobber")
        after = rounds[1] + nexts[1 - where]
        self.lab.wait_for(lambda: len(self.lab.log()) >= len(after), "end", again)
        self.assertEqual(self.lab.log(), after)
        self.goes_on(again)

    def test_misuse(self):
        for context in "st":
            with self.subTest(context), lab.Lab() as self.lab:
                program = self.lab.start(f"{context}1:misuse")
                self.save(program)
                self.assertEqual([line.split(" ", 1)[1] for line in self.lab.log()],
                                 ["enter", "register EBUSY", "replace EBUSY", "self EINVAL",
                                  "sections", "section EINVAL", "active", "request EBUSY", "forward",
                                  "forward EINVAL", "forward ESRCH", "0"])
                self.goes_on(program)

    def test_once_in_a_callback(self):
        program = self.lab.start("s1:twice", "s2:twice")
        self.save(program)
        self.lab.await_line("s2 not", program)
        self.assertEqual(self.lab.log(), ["s2 enter", "s1 enter", "s1 0", "s1 not twice", "s2 0",
                                          "s2 not twice"])
        self.goes_on(program)

    def hooks_come_after_callbacks(self, outcome):
        log = self.lab.log()
        for name, event in (("s1", 0), ("t1", 1)):
            self.assertLess(log.index(f"{name} {outcome}"), log.index(f"hook {event + 3 * outcome}"))

    def test_no_hooks_after_a_failure(self):
        for word in ("t1:temp", "s1:temp"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.lab.start("hooks", word, "thread")
                self.save(program, code=CR_ETEMPFAIL)
                self.goes_on(program)
                self.assertNotIn("hook", "".join(self.lab.log()))

    def test_hooks(self):
        program = self.lab.start("hooks", "t1", "thread", "s1")
        self.save(program)
        self.lab.await_line("hook", program, 3)
        self.assertEqual(sorted(line for line in self.lab.log() if "hook" in line),
                         ["hook 0", "hook 1", "hook 2"])
        self.hooks_come_after_callbacks(0)
        self.lab.kill(program)
        again = self.lab.restart("-q")
        for event in (3, 4, 5):
            self.lab.await_line(f"hook {event}", again)
        self.assertEqual(sorted(line for line in self.lab.log() if "hook" in line),
                         ["hook 3", "hook 4", "hook 5"])
        self.hooks_come_after_callbacks(1)
        self.goes_on(again)
        again.stderr.close()


class Omit(lab.Case):
    def test_cr_run_omit(self):
        program = self.lab.start("s1", "t1", run=["--omit"])
        self.save(program, code=errno.ESRCH)
        self.goes_on(program)


if __name__ == "__main__":
    lab.main()
