#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that save themselves: cr_self_register, and the backend self.

    test_self.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import unittest

import lab
import processes

END = 7  # the client's exit status if its memory is as it should be


def waits_for(pid):
    """Whether a checkpoint listens where this program looks."""
    with open("/proc/net/unix", encoding="ascii") as sockets:
        return re.search(rf"@cryo-self\.\S+\.{pid}\.\w+$", sockets.read(), re.MULTILINE)


def state(pid):
    """The letter of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith("State:"))


class Self(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def start(self, *words):
        return self.lab.start(*words, client="self")

    def save(self, program, *options):
        done = self.lab.checkpoint(program, "--backend=self", *options)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def begin(self, program, image):
        """A checkpoint that is under way."""
        one = subprocess.Popen(self.lab.command("cr_checkpoint", "-v", "--backend=self", "-f", image,
                                                str(program.pid)), stderr=subprocess.PIPE, text=True)
        self.addCleanup(one.stderr.close)
        self.await_word(one, "waiting")
        return one

    def refuse(self, code, program, *options):
        """A checkpoint that fails; the program goes on, and there is no image."""
        done = self.lab.checkpoint(program, "--backend=self", *options)
        self.assertEqual(code % 256, done.returncode, done.stderr)
        self.assertFalse([name for name in os.listdir(self.lab.directory)
                          if not name.startswith("log")])
        self.assertIsNone(program.poll())
        return done.stderr

    def restart(self, *options):
        again = self.lab.restart(*options)
        self.addCleanup(again.stderr.close)
        self.lab.await_line("back", again)
        return again

    def await_word(self, command, word):
        """Reads what the command says until a line has the word."""
        while word not in (line := command.stderr.readline()):
            self.assertTrue(line, f"no '{word}'")

    def number(self, start):
        """That of the last line of the log that begins so."""
        return int([line for line in self.lab.lines()
                    if line.startswith(start)][-1].rsplit(" ", 1)[1])

    def test_goes_on_and_comes_back(self):
        program = self.start()
        self.save(program)
        self.lab.await_line("went on", program)
        saved = self.number("saved")
        self.lab.kill(program)
        again = self.restart()
        self.assertEqual(saved, self.number("back"))
        self.assertEqual(END, self.lab.end(again))

    def test_it_is_started_as_it_was(self):
        os.environ["SELF_VALUE"] = "of its own"
        self.addCleanup(os.environ.pop, "SELF_VALUE", None)
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        program = self.start("large")
        first = self.lab.lines()
        self.save(program, "--kill")
        program.wait(lab.PATIENCE)
        os.umask(before)
        del os.environ["SELF_VALUE"]
        at = len(self.lab.lines())
        again = subprocess.Popen(self.lab.command("cr_restart", "-q", self.lab.image), cwd="/",
                                 stdin=subprocess.DEVNULL)
        self.lab.await_line("back", again)
        second = self.lab.lines()[at:]
        self.assertIn("word large value of its own of 0 0", second)
        self.assertEqual(first[:-1], second[:-1])
        self.assertEqual(END, self.lab.end(again))

    def test_again_and_again(self):
        program = self.start()
        for _ in range(4):
            self.save(program, "--clobber", "--kill")
            program.wait(lab.PATIENCE)
            program = self.lab.restart()
            self.addCleanup(program.stderr.close)
            self.lab.await_line(f"back {self.number('saved')}", program)
        self.assertEqual(END, self.lab.end(program))
        self.assertEqual(1, len({line for line in self.lab.lines() if "descriptors" in line}))

    def test_stop_and_term(self):
        program = self.start()
        self.save(program, "--stop")
        self.lab.wait_for(lambda: state(program.pid) == "T", "stop", program)
        self.assertNotIn("went on 0", self.lab.log())
        program.send_signal(signal.SIGCONT)
        self.lab.await_line("went on", program)
        self.save(program, "--clobber", "--term")
        self.assertEqual(-signal.SIGTERM, program.wait(lab.PATIENCE))
        again = self.lab.restart("--stop")
        self.addCleanup(again.stderr.close)
        self.await_word(again, "is back")
        self.lab.wait_for(lambda: state(self.lab.pid_of(again)) == "T", "stop", again)
        os.kill(self.lab.pid_of(again), signal.SIGCONT)
        self.assertEqual(END, self.lab.end(again))

    def test_large_and_compressed(self):
        program = self.start("large")
        self.save(program, "--snapshot=stop", "--compress=always")
        self.assertLess(os.path.getsize(self.lab.image), 2_000_000)
        self.lab.kill(program)
        verified = self.lab.run("cr_inspect", "--verify", self.lab.image)
        self.assertEqual(0, verified.returncode, verified.stdout)
        self.assertEqual(END, self.lab.end(self.restart()))

    def test_threads_at_points(self):
        program = self.start("threads")
        for count in range(1, 6):
            self.save(program, "--clobber")
            self.lab.await_line("went on", program, count)
        self.lab.kill(program)
        self.assertEqual(END, self.lab.end(self.restart()))

    def test_saving_fails(self):
        program = self.start("fails")
        self.lab.touch("full")
        said = self.refuse(errno.ENOSPC, program)
        self.assertIn("its own function to save failed", said)
        self.lab.await_line(f"not saved {errno.ENOSPC}", program)
        os.unlink(self.lab.path + ".full")
        self.save(program)
        self.assertEqual(END, self.lab.end(program))

    def test_restoring_fails(self):
        program = self.start("refuses")
        self.save(program, "--kill")
        program.wait(lab.PATIENCE)
        failed = self.lab.run("cr_restart", self.lab.image)
        self.assertEqual(errno.EDOM, failed.returncode, failed.stderr)
        self.assertIn("its own function to restore failed", failed.stderr)
        self.assertEqual([], processes.children(os.getpid()))

    def test_ends_before_it_takes_its_data(self):
        program = self.start("late")
        self.lab.touch("begin")
        self.save(program)
        self.lab.end(program)
        os.unlink(self.lab.path + ".begin")
        again = self.lab.run("cr_restart", self.lab.image)
        self.assertEqual(errno.ECHILD, again.returncode, again.stderr)
        self.assertIn("has ended before it read", again.stderr)
        self.assertEqual([], processes.children(os.getpid()))

    def test_never_at_a_point(self):
        program = self.start("never")
        self.assertIn("--time", self.refuse(errno.ETIME, program, "--time=1"))
        waiting = subprocess.Popen(self.lab.command(
            "cr_checkpoint", "-v", "--backend=self", "-f", self.lab.image, str(program.pid)),
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiting.stderr.close)
        self.lab.wait_for(lambda: waits_for(program.pid), "checkpoint", program)
        self.assertIn("another checkpoint", self.refuse(errno.EBUSY, program, "--time=1"))
        self.assertEqual(END, self.lab.end(program))
        self.assertEqual(errno.ESRCH, waiting.wait(lab.PATIENCE))

    def test_two_checkpoints_wait(self):
        """They wait for the same point, and each has its turn."""
        program = self.start("gated")
        waiting = []
        for number in ("1", "2"):
            waiting.append(self.begin(program, self.lab.image + number))
            self.lab.wait_for(lambda: waits_for(program.pid), "checkpoint", program)
        self.lab.touch("open")
        self.assertEqual([0, 0], [one.wait(lab.PATIENCE) for one in waiting])
        self.assertEqual(2, len([line for line in self.lab.lines() if line.startswith("saved")]))
        for number in ("1", "2"):
            good = self.lab.run("cr_inspect", "--verify", self.lab.image + number)
            self.assertEqual(0, good.returncode, good.stdout)
        self.assertEqual(END, self.lab.end(program))

    def test_a_checkpoint_that_was_waiting_is_killed(self):
        program = self.start("late")
        waiting = self.begin(program, self.lab.image)
        waiting.kill()
        waiting.wait()
        self.lab.touch("begin")
        self.save(program)
        self.assertEqual(END, self.lab.end(program))

    def test_it_goes_elsewhere_while_it_is_waited_for(self):
        program = self.start("late")
        waiting = self.begin(program, self.lab.image)
        self.lab.touch("begin")
        self.assertEqual(0, waiting.wait(lab.PATIENCE))
        self.lab.kill(program)
        again = self.restart()
        self.assertEqual(2, self.lab.lines().count("directory / 0"))
        self.assertEqual(END, self.lab.end(again))

    def test_it_goes_on_while_the_image_is_written(self):
        program = self.start("large")
        with subprocess.Popen(self.lab.command("cr_checkpoint", "--backend=self", "-F", "1",
                                               "--compress=none", str(program.pid)),
                              stdout=subprocess.PIPE) as writing:  # into a pipe that nobody reads
            self.lab.await_line("went on", program)
            self.lab.touch("end")
            self.assertEqual(END, program.wait(5))  # half of what a point waits for a command
            writing.kill()

    def test_child_of_one_that_is_saving_itself(self):
        program = self.start("forks")
        first = self.begin(program, self.lab.image + "1")
        self.lab.await_line("child", program)
        done = self.lab.run("cr_checkpoint", "--backend=self", "-f", self.lab.image,
                            str(self.number("child")))
        self.assertEqual(0, done.returncode, done.stderr)
        self.lab.touch("go")
        self.assertEqual(0, first.wait(lab.PATIENCE))
        self.assertEqual(END, self.lab.end(program))

    def test_file_named_as_its_page(self):
        name = os.path.join(self.lab.directory, "memfd:cryo-self." + "0" * 32)
        with open(name, "w", encoding="ascii"):
            os.truncate(name, 4096)
        program = self.start("maps")
        self.save(program)
        self.assertEqual(END, self.lab.end(program))

    def test_files_may_not_have_a_page(self):
        """The kernel would end a program that makes a larger one."""
        program = self.start("late")
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (4095, 4095))
        self.lab.touch("begin")
        self.lab.await_line(f"error {errno.EFBIG}", program)
        self.assertEqual(END, self.lab.end(program))

    def test_options_that_mean_nothing_to_it(self):
        program = self.start()
        for words in (["--delta"], ["--save-all"], ["--pipes=refuse"], ["--sockets=close"],
                      ["--pgid"], ["--sid"]):
            self.refuse(errno.ENOTSUP, program, *words)
        self.save(program)
        for words in (["--backend=user"], ["--lazy"], ["--relocate=/a=/b"], ["--stdin=/dev/null"]):
            refused = self.lab.run("cr_restart", *words, self.lab.image)
            self.assertEqual(errno.ENOTSUP, refused.returncode, refused.stderr)

    def test_one_that_does_not_take_part(self):
        program = subprocess.Popen(self.lab.command("cr_run", "cat"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        program.stdin.write(b"there\n")
        program.stdin.flush()
        self.assertEqual(b"there\n", program.stdout.readline())
        self.assertIn("does not save itself", self.refuse(errno.ENOTSUP, program))
        program.communicate()

    def test_through_a_pipe(self):
        program = self.start()
        with subprocess.Popen(self.lab.command("cr_checkpoint", "--backend=self", "--kill", "-F",
                                               "1", str(program.pid)),
                              stdout=subprocess.PIPE) as saver:
            again = subprocess.Popen(self.lab.command("cr_restart", "-q", "-F", "0"),
                                     stdin=saver.stdout, cwd=self.lab.directory)
        program.wait(lab.PATIENCE)
        self.lab.await_line("back", again)
        self.assertEqual(END, self.lab.end(again))

    def test_another_backend_saves_it_too(self):
        program = self.start()
        done = self.lab.checkpoint(program, "--kill")
        self.assertEqual(0, done.returncode, done.stderr)
        program.wait(lab.PATIENCE)
        again = self.lab.restart("--no-restore-pid")
        self.addCleanup(again.stderr.close)
        self.await_word(again, "goes on")
        self.save(again, "--clobber", "--kill")
        again.wait(lab.PATIENCE)
        self.assertEqual(END, self.lab.end(self.restart()))

    def test_told_as_json(self):
        program = self.start()
        done = self.save(program, "--json")
        self.assertEqual("self", json.loads(done.stdout)["backend"])
        summary = self.lab.run("cr_inspect", self.lab.image)
        self.assertEqual(0, summary.returncode, summary.stderr)
        self.assertIn("self", summary.stdout)
        self.assertEqual(END, self.lab.end(program))


if __name__ == "__main__":
    lab.main()
