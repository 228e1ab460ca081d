#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Automatic checkpoints that are copied to a server."""
import errno
import json
import os
import signal
import sys

import serving
from serving import PATIENCE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from processes import exists  # noqa: E402
from waiting import wait_until  # noqa: E402


class Keeping(serving.Case):
    def tearDown(self):
        keepers = [self.state(directory).get("keeper") for directory in ("one", "two")]
        for program in self.started:
            self.end(program)
        for keeper in filter(None, keepers): # nothing writes into a directory that is removed
            wait_until("the end of the keeper", lambda pid=keeper: not exists(pid))
        super().tearDown()

    def state(self, directory="one"):
        try:
            with open(self.path(os.path.join(directory, "keeper.json")), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def keep(self, *words):
        code = serving.case.ECHO.format(setup="", each="pass")
        program = self.spawn(serving.case.command("cr_run"), "--interval", "300ms", "--into", "one",
                             "--second", self.url("solver"), *words, "/usr/bin/python3", "-S", "-c", code,
                             stderr=serving.subprocess.PIPE)
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def numbers(self):
        """Of the images that the server has."""
        return sorted(int(name.split(".")[-1]) for name in self.stored() if name.startswith("solver,"))

    def await_number(self, least):
        wait_until(f"image {least}", lambda: self.numbers() and self.numbers()[-1] >= least)

    def end_with_keeper(self, program):
        keeper = self.state()["keeper"]
        self.end(program)
        wait_until("the end of the keeper", lambda: not exists(keeper))

    def test_as_many_stay_as_in_the_directory(self):
        self.serve()
        program = self.keep()
        self.await_number(4)
        self.assert_alive(program)
        wait_until("what is too old to go", lambda: 1 not in self.numbers() and len(self.numbers()) <= 3)
        self.end_with_keeper(program)
        self.assert_good(self.url("solver/latest"))

    def test_goes_on_after_the_loss_of_the_directory(self):
        self.serve()
        program = self.keep()
        self.await_number(2)
        self.end_with_keeper(program)
        serving.case.shutil.rmtree(self.path("one"))
        before = self.numbers()
        restarted = self.restart("-q", "--interval", "300ms", "--into", "two", "--second",
                                 self.url("solver"), self.url("solver/latest"))
        self.await_number(before[-1] + 3)
        self.assert_alive(restarted)
        # What another keeper has sent stays.
        self.assertLessEqual(set(before), set(self.numbers()))
        self.assertEqual(1, self.state("two")["failures"])

    def test_series_of_another_run(self):
        self.serve()
        program = self.keep()
        self.await_number(1)
        self.end_with_keeper(program)
        before = self.stored()
        done = self.run_command("cr_run", "--interval", "300ms", "--into", "two", "--second",
                                self.url("solver"), "sleep", "1000")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("solver: has images of another run", done.stderr)
        self.assertEqual(before, self.stored())

    def test_images_of_a_run_that_began_at_once(self):
        """As if two runs had found the series empty: the other one's images have names that are next."""
        self.serve()
        program = self.keep()
        self.await_number(1)
        keeper = self.state()["keeper"]
        os.kill(keeper, signal.SIGSTOP)
        self.end_server(signal.SIGKILL)
        first = next(name for name in os.listdir(self.path("images")) if name.startswith("solver,"))
        checksum = first.split("~")[2]
        theirs = range(self.numbers()[-1] + 1, self.state()["made"] + 5)
        for number in theirs:
            name = f"solver,context.{number:06}~{number + 100}~{checksum}"
            os.link(self.path(os.path.join("images", first)), self.path(os.path.join("images", name)))
        self.serve()
        os.kill(keeper, signal.SIGCONT)
        self.await_number(theirs[-1] + 3) # by then the first ones after them have gone
        self.assert_alive(program)
        self.assertLessEqual(set(theirs), set(self.numbers()))
        with open(self.path("one/keeper.log"), encoding="utf-8") as log:
            self.assertIn("of another run; name another series with --second", log.read())

    def test_server_that_is_away_for_a_while(self):
        self.serve()
        program = self.keep()
        self.await_number(1)
        port = self.port
        self.end_server(signal.SIGKILL)
        said = program.stderr.readline()
        self.assertIn(f"automatic checkpoint: copying to cryo://127.0.0.1:{port}/solver: ", said)
        self.assert_alive(program)
        last = self.state()["made"]
        wait_until("another image here", lambda: self.state()["made"] > last)
        self.serve()
        self.await_number(last + 1)
        self.assert_alive(program)

    def test_restart_while_the_server_is_away(self):
        """A failure may have taken both. It is saved in its directory again, and copied when the server is back."""
        self.serve()
        program = self.keep()
        self.await_number(1)
        self.end_with_keeper(program)
        port = self.port
        self.end_server(signal.SIGKILL)
        last = self.state()["made"]
        restarted = self.restart("-q", "--interval", "300ms", "--second", self.url("solver"), "one/latest",
                                 stderr=serving.subprocess.PIPE)
        self.assertIn(f"automatic checkpoint: copying to cryo://127.0.0.1:{port}/solver: ",
                      restarted.stderr.readline())
        self.assert_alive(restarted)
        wait_until("another image here", lambda: self.state()["made"] > last)
        self.serve()
        self.await_number(last + 1)
        self.assert_alive(restarted)

    def test_what_is_refused(self):
        self.serve()
        for code, text, *words in (
                (errno.ENOTSUP, "none of --delta", "--second", self.url("solver"), "--delta=incremental"),
                (errno.ENOTSUP, "not to gopher://", "--second", "gopher://host/a"),
                (errno.EINVAL, "wants a series at a server", "--second", self.url("")),
                (errno.EINVAL, "wants a series at a server", "--second", self.url("solver/one"))):
            done = self.run_command("cr_run", "--interval", "1s", "--into", "one", *words, "true")
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertIn(text, done.stderr)
        self.end_server()
        done = self.run_command("cr_run", "--interval", "1s", "--into", "one", "--second", self.url("solver"),
                                "sleep", "1000", timeout=PATIENCE)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("there is no server of images", done.stderr)


if __name__ == "__main__":
    serving.main()
