#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that cr_checkpoint and cr_run put into an object store when they are made (--second s3://...)."""
import errno
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "commands"))
import case  # noqa: E402
import objects  # noqa: E402
from case import PATIENCE  # noqa: E402
from processes import exists  # noqa: E402
from waiting import wait_until  # noqa: E402

PLACE = f"s3://{objects.BUCKET}/runs/a"
SERIES = f"s3://{objects.BUCKET}/solver"
MEMORY = "import random; random.seed(1); kept = random.randbytes(3 << 20)"


class Second(case.Case):
    def setUp(self):
        super().setUp()
        self.server = objects.Server(self)

    def places(self, place=f"s3://{objects.BUCKET}"):
        done = self.run_command("cr_store", "list", "--json", place, env=self.server.environment())
        self.assertEqual(0, done.returncode, done.stdout)
        return json.loads(done.stdout)["places"]

    def assert_good_there(self, place=PLACE):
        restarted = self.restart("-q", place, env=self.server.environment())
        self.assert_alive(restarted)
        self.end(restarted)


class Saved(Second):
    def put(self, program, *words, place=PLACE, code=0, **changes):
        """What it has said."""
        env = changes.pop("env", None) or self.server.environment(**changes)
        done = self.checkpoint(*words, "--second", place, program.pid, env=env)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertNotIn(objects.SECRET, done.stdout + done.stderr)
        return done.stderr if code or "--json" not in words else json.loads(done.stdout)

    def test_there_and_back(self):
        program = self.start(MEMORY)
        said = self.put(program, "-f", "image", "--json")
        self.assertEqual(("image", PLACE), (said["image"], said["second"]))
        self.assert_alive(program)
        listed = self.places()
        self.assertEqual([(PLACE, True, os.path.getsize(self.path("image")))],
                         [(one["place"], one["complete"], one["bytes"]) for one in listed])
        # A later one replaces it; by its own name it is beside it.
        self.assertEqual("", self.put(program, "-f", "image"))
        self.assertEqual([PLACE], [one["place"] for one in self.places()])
        said = self.put(program, "-f", "image", "--json", place=f"s3://{objects.BUCKET}/runs/")
        self.assertEqual(f"s3://{objects.BUCKET}/runs/image", said["second"])
        self.end(program)
        os.unlink(self.path("image"))
        self.assert_good_there()

    def test_ended_program(self):
        program = self.start(MEMORY)
        self.put(program, "-f", "image", "--kill")
        program.wait(PATIENCE)
        os.unlink(self.path("image"))
        self.assert_good_there()

    def test_delta(self):
        """What it is based on is there, too, and was sent once."""
        program = self.start(MEMORY)
        self.put(program, "-f", "first", "--delta")
        with objects.Way(self.server) as way:
            self.put(program, "-f", "second", "--delta", env=way.environment())
            self.assertLess(way.sent, 1 << 20)
        self.end(program)
        self.assertEqual([2], [one["files"] for one in self.places()])
        for name in "first", "second":
            os.unlink(self.path(name))
        self.assert_good_there()

    def test_directory(self):
        program = self.start(MEMORY)
        self.put(program, "-d", "tree")
        self.end(program)
        shutil.rmtree(self.path("tree"))
        self.assert_good_there()

    def test_refused_before(self):
        """Nothing is saved, and nothing ended, if it is known that there will be no copy."""
        program = self.start()
        none = {name: None for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY")}
        for code, text, place, words, changes in (
                (errno.EINVAL, "save to a file", PLACE, ("-F", "1"), {}),
                (errno.EINVAL, "no bucket can have this name", "s3://B/a", (), {}),
                (errno.EACCES, "AWS_ACCESS_KEY_ID", PLACE, (), none),
                (errno.EACCES, "does not belong to the access key", PLACE, ("--kill",),
                 {"AWS_SECRET_ACCESS_KEY": "wrong"}),
                (errno.ENOENT, "there is no such bucket", "s3://nowhere/a", ("--kill",), {}),
                (errno.ECONNREFUSED, "127.0.0.1", PLACE, ("--kill",),
                 {"port": 1, "CRYO_STORE_PATIENCE": "0"})):
            words = words or ("-f", "image")
            said = self.put(program, *words, place=place, code=code, **changes)
            self.assertIn(text, said)
            self.assertIn("--second", said)
        self.assert_alive(program)
        self.assertEqual([], self.files())

    def test_killed_midway(self):
        """The image is complete, the place has what it had, and what is missing can be sent."""
        program = self.start(MEMORY)
        self.put(program, "-f", "first")
        with objects.Way(self.server) as way:
            way.cut(after=1 << 20, then=self.server.kill)
            said = self.put(program, "-f", "second", env=way.environment(CRYO_STORE_PATIENCE="0"),
                            code=errno.ECONNRESET)
        self.assertIn("second is complete, but not its copy in the object store: ", said)
        self.assertIn(f"`cr_store push second {PLACE}` sends it again", said)
        self.assert_alive(program)
        self.end(program)
        self.server.start()
        self.assertEqual(["first"], [one["name"] for one in self.places()])
        self.assert_good_there()
        done = self.run_command("cr_store", "push", "second", PLACE, env=self.server.environment())
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["second"], [one["name"] for one in self.places()])

    def test_without_the_package(self):
        """Its commands are all beside one another."""
        program = self.start()
        os.mkdir(self.path("bin"))
        shutil.copy(case.command("cr_checkpoint"), self.path("bin"))
        done = subprocess.run([self.path("bin/cr_checkpoint"), "--kill", "-f", "image", "--second", PLACE,
                               str(program.pid)], env=self.server.environment(), check=False, capture_output=True,
                              text=True, timeout=PATIENCE, cwd=self.directory)
        self.assertEqual(errno.ENOENT, done.returncode)
        self.assertIn("it is in the package cryo-store", done.stderr)
        self.assert_alive(program)
        self.assertEqual(["bin"], self.files())


class Kept(Second):
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

    def keep(self, *words, env=None):
        code = case.ECHO.format(setup="", each="pass")
        program = self.spawn(case.command("cr_run"), "--interval", "300ms", "--into", "one", "--second", SERIES,
                             *words, "/usr/bin/python3", "-S", "-c", code, stderr=subprocess.PIPE,
                             env=env or self.server.environment())
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def numbers(self):
        """Of the images that are complete there."""
        return sorted(int(one["place"].split(".")[-1]) for one in self.places(SERIES) if one["complete"])

    def await_number(self, least):
        wait_until(f"image {least}", lambda: self.numbers() and self.numbers()[-1] >= least)

    def end_with_keeper(self, program):
        keeper = self.state()["keeper"]
        self.end(program)
        wait_until("the end of the keeper", lambda: not exists(keeper))

    def test_as_many_stay_as_in_the_directory(self):
        program = self.keep()
        self.await_number(4)
        self.assert_alive(program)
        wait_until("what is too old to go", lambda: 1 not in self.numbers() and len(self.numbers()) <= 3)
        self.end_with_keeper(program)
        # Not under the name `latest` as well.
        self.assertEqual({1}, {one["files"] for one in self.places(SERIES) if one["complete"]})
        last = self.numbers()[-1]
        restarted = self.restart("--json", SERIES + "/latest", stderr=subprocess.PIPE, env=self.server.environment())
        said = json.loads(restarted.stderr.readline())
        self.assertEqual(f"{SERIES}/context.{last:06}", said["image"])
        self.assert_alive(restarted)

    def test_goes_on_after_the_loss_of_the_directory(self):
        program = self.keep()
        self.await_number(2)
        self.end_with_keeper(program)
        shutil.rmtree(self.path("one"))
        before = self.numbers()
        done = self.run_command("cr_run", "--interval", "300ms", "--into", "two", "--second", SERIES, "sleep", "1000",
                                env=self.server.environment())
        self.assertNotEqual(0, done.returncode)
        self.assertIn("solver: has images of another run", done.stderr)
        self.assertEqual(before, self.numbers())
        restarted = self.restart("-q", "--interval", "300ms", "--into", "two", "--second", SERIES,
                                 SERIES + "/latest", env=self.server.environment())
        self.await_number(before[-1] + 2)
        self.assert_alive(restarted)
        # What another keeper has sent stays.
        self.assertLessEqual(set(before), set(self.numbers()))
        self.assertEqual(1, self.state("two")["failures"])

    def test_store_that_is_away_for_a_while(self):
        program = self.keep(env=self.server.environment(CRYO_STORE_PATIENCE="0"))
        self.await_number(1)
        self.server.kill()
        self.assertIn(f"automatic checkpoint: copying to {SERIES}: ", program.stderr.readline())
        self.assert_alive(program)
        last = self.state()["made"]
        wait_until("another image here", lambda: self.state()["made"] > last)
        self.server.start()
        self.await_number(last + 1)
        self.assert_alive(program)

    def test_what_is_refused(self):
        for text, place, *words in (
                ("none of --delta", SERIES, "--delta=incremental"),
                ("is a bucket; name a series in it", f"s3://{objects.BUCKET}"),
                ("there is no such bucket", "s3://nowhere/solver")):
            done = self.run_command("cr_run", "--interval", "1s", "--into", "one", "--second", place, *words, "true",
                                    env=self.server.environment())
            self.assertNotEqual(0, done.returncode)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    case.main()
