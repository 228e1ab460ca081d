#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker puts an image where somebody else will restart one.

What is in it may say anything, that it belongs to the victim too; only the file's owner counts.
"""
import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402


# What a program is allowed, as the kernel sees it.
RIGHTS = """
with open("/proc/self/status") as status:
    print(*(line for line in status if line.startswith(("Uid", "Gid", "Groups", "Cap", "NoNew"))), flush=True)
"""


class Image(case.Case):
    """Paths are relative to a directory in which everybody may make files, as /tmp is."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o1777)

    def image_of(self, uid, *words):
        """An image that says that it belongs to this user, and the file does."""
        program = self.start(**attack.user(uid))
        done = self.checkpoint(*words, program.pid, **attack.user(uid))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)

    def restart_as(self, uid, *words, **where):
        return self.run_command("cr_restart", "--no-restore-pid", *words,
                                **{"input": "there\n", "stdin": None, **attack.user(uid), **where})

    def assert_refused(self, uid, *words, said="--owner 65534", **where):
        done = self.restart_as(uid, *words, **where)
        self.assertEqual(errno.EACCES, done.returncode, done.stdout + done.stderr)
        self.assertNotIn("echo", done.stdout)
        self.assertIn(said, done.stderr)

    def assert_restarted(self, uid, *words, **where):
        done = self.restart_as(uid, *words, **where)
        self.assertEqual((0, "echo there\n"), (done.returncode, done.stdout), done.stderr)

    def test_image_of_another_user(self):
        for uid in (attack.VICTIM, 0):
            with self.subTest(uid=uid):
                self.image_of(uid, "-f", f"image.{uid}")
                self.assert_restarted(uid, f"image.{uid}")
                os.chown(self.path(f"image.{uid}"), attack.ATTACKER, attack.ATTACKER)
                if uid == attack.VICTIM:
                    os.chmod(self.path(f"image.{uid}"), 0o444)
                self.assert_refused(uid, f"image.{uid}")
                self.assert_refused(uid, f"image.{uid}", "--owner", "root")
                self.assert_restarted(uid, "--owner", "nobody", f"image.{uid}")
                self.assert_restarted(uid, "--owner", str(attack.ATTACKER), f"image.{uid}")
                with open(self.path(f"image.{uid}"), "rb") as file:
                    self.assert_refused(uid, "-F", str(file.fileno()), pass_fds=[file.fileno()])

    def test_image_of_root(self):
        """Root could have started the program as anybody."""
        self.image_of(attack.VICTIM, "-f", "image")
        os.chown(self.path("image"), 0, 0)
        os.chmod(self.path("image"), 0o444)
        self.assert_restarted(attack.VICTIM, "image")

    def test_image_that_says_root(self):
        """Its ids and capabilities are root's; whoever restarts it becomes nobody else."""
        program = self.start(setup=f"RIGHTS = {RIGHTS!r}", each="exec(RIGHTS)")
        self.save("-f", "image", program.pid)
        self.end(program)
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER)
        said = self.restart_as(0, "--owner", "nobody", "image").stdout
        self.assertRegex(said, r"Uid:(\s+0){4}\n")  # it does say so
        limited = ("setpriv", "--no-new-privs", "--bounding-set=-all", case.command("cr_restart"))
        for words, nnp in (((case.command("cr_restart"),), "0"), (limited, "1")):
            done = subprocess.run([*words, "--no-restore-pid", "image"], input="there\n", text=True,
                                  capture_output=True, timeout=case.PATIENCE, check=False,
                                  cwd=self.directory, **attack.user(attack.ATTACKER))
            if done.returncode != 0:
                self.assertNotIn("echo", done.stdout)
                self.assertIn("cr_restart: ", done.stderr)
                continue
            rights = dict(re.findall(r"(\w+):\s*(.*)", done.stdout))
            for ids in rights["Uid"], rights["Gid"]:
                self.assertEqual({str(attack.ATTACKER)}, set(ids.split()))
            self.assertLessEqual(set(rights["Groups"].split()), {str(attack.ATTACKER)})
            for kind in "CapInh", "CapPrm", "CapEff", "CapAmb":
                self.assertEqual(0, int(rights[kind], 16), kind)
            self.assertEqual(nnp, rights["NoNewPrivs"])

    def test_image_that_is_forged_at_random(self):
        """Root restarts it, because somebody has asked: it is refused, or is what was saved."""
        self.image_of(attack.ATTACKER, "-f", "image")
        with open(self.path("image"), "rb") as file:
            image = file.read()
        seed = int(os.environ.get("CRYO_SEED", "1"))
        chance = random.Random(seed)
        for turn in range(40):
            forged = bytearray(image)
            kind = turn % 4
            at = chance.randrange(len(image))
            if kind == 0:
                forged[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                del forged[at:]
            elif kind == 2:
                forged[at:at + 8] = b"\xff" * 8
            else:
                other = chance.randrange(len(image))
                forged[at:at + 512] = image[other:other + 512]
            with open(self.path("forged"), "xb") as file:
                file.write(forged)
            os.chown(self.path("forged"), attack.ATTACKER, attack.ATTACKER)
            done = self.restart_as(0, "--owner", "nobody", "forged")
            with self.subTest(turn=turn, seed=seed, said=done.stderr):
                self.assertGreaterEqual(done.returncode, 0)
                if done.returncode == 0:
                    self.assertEqual("echo there\n", done.stdout)
                else:
                    self.assertNotIn("echo", done.stdout)
                    self.assertIn("cr_restart: ", done.stderr)
            os.unlink(self.path("forged"))  # not even root writes to it here (fs.protected_regular)

    def test_image_that_others_may_write(self):
        self.image_of(attack.VICTIM, "-f", "image")
        for mode in (0o606, 0o660, 0o602):
            os.chmod(self.path("image"), mode)
            self.assert_refused(attack.VICTIM, "image", said="chmod go-w")
            self.assert_refused(attack.VICTIM, "--owner", str(attack.VICTIM), "image",
                                said="chmod go-w")

    def test_pipe(self):
        """Who starts both ends knows what comes."""
        self.image_of(attack.VICTIM, "-f", "image")
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER)
        with open(self.path("image"), "rb") as file:
            with subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
                fd = cat.stdout.fileno()
                self.assert_restarted(attack.VICTIM, "-F", str(fd), pass_fds=[fd])

    def test_symbolic_link(self):
        self.image_of(attack.VICTIM, "-f", "image")
        os.symlink("image", self.path("link"))
        done = self.restart_as(attack.VICTIM, "link")
        self.assertEqual(errno.ELOOP, done.returncode, done.stderr)

    def test_directory(self):
        self.image_of(attack.VICTIM, "-d", "tree")
        self.assert_restarted(attack.VICTIM, "tree")
        os.chmod(self.path("tree"), 0o777)
        self.assert_refused(attack.VICTIM, "tree", said="chmod go-w")
        os.chmod(self.path("tree"), 0o755)
        os.chown(self.path("tree"), attack.ATTACKER, attack.ATTACKER)
        self.assert_refused(attack.VICTIM, "tree")
        os.chown(self.path("tree"), attack.VICTIM, attack.VICTIM)
        os.symlink("tree", self.path("link"))
        done = self.restart_as(attack.VICTIM, "link")
        self.assertEqual(errno.ELOOP, done.returncode, done.stderr)
        for name in os.listdir(self.path("tree")):
            path = self.path(os.path.join("tree", name))
            os.chown(path, attack.ATTACKER, attack.ATTACKER)
            os.chmod(path, 0o444)
            with self.subTest(name=name):
                self.assert_refused(attack.VICTIM, "tree")
            os.chown(path, attack.VICTIM, attack.VICTIM)
        self.assert_restarted(attack.VICTIM, "tree")

    def test_base(self):
        """The victim's own delta, and an attacker's base beside it."""
        program = self.start("memory = bytearray(b'x' * (4 << 20))", **attack.user(attack.VICTIM))
        for name, more in (("base", ()), ("delta", ("--delta=incremental", "--base", "base"))):
            done = self.checkpoint("-f", name, *more, program.pid, **attack.user(attack.VICTIM))
            self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        self.assert_restarted(attack.VICTIM, "delta")
        shutil.copy(self.path("base"), self.path("copy"))
        os.unlink(self.path("base"))
        os.chown(self.path("copy"), attack.ATTACKER, attack.ATTACKER)
        os.chmod(self.path("copy"), 0o444)
        self.assert_refused(attack.VICTIM, "delta")
        self.assert_refused(attack.VICTIM, "--base", "copy", "delta")
        self.assert_restarted(attack.VICTIM, "--owner", "nobody", "delta")

    def about(self, name):
        done = self.run_command("cr_inspect", "--json", name)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)["snapshots"][0]["images"][0]

    def base_of(self, name):
        """The id of the image that this one is a delta of, or None."""
        base = self.about(name)["header"].get("base_id")
        return base if base and set(base) != {"0"} else None

    def save_as_victim(self, program, name, *words):
        done = self.checkpoint("-f", name, *words, program.pid, **attack.user(attack.VICTIM))
        self.assertEqual(0, done.returncode, done.stderr)
        return self.about(name)["header"]["id"]

    def give_to_attacker(self, name):
        os.chown(self.path(name), attack.ATTACKER, attack.ATTACKER)
        os.chmod(self.path(name), 0o444)

    def test_base_that_nobody_named(self):
        """The newest image of the program is the attacker's: nothing is left to it."""
        program = self.start("memory = bytearray(b'x' * (4 << 20))", **attack.user(attack.VICTIM))
        own = self.save_as_victim(program, "own", "--delta")
        self.save_as_victim(program, "foreign")
        self.give_to_attacker("foreign")
        self.save_as_victim(program, "delta", "--delta=incremental")
        self.assertEqual(own, self.base_of("delta"))
        os.mkdir(self.path("shared"))
        os.chmod(self.path("shared"), 0o1777)
        os.rename(self.path("foreign"), self.path("shared/foreign"))
        self.save_as_victim(program, "shared/complete", "--delta=incremental")
        self.assertIsNone(self.base_of("shared/complete"))
        self.end(program)
        self.assert_restarted(attack.VICTIM, "delta")
        self.assert_restarted(attack.VICTIM, "shared/complete")

    def test_base_of_another_user_that_was_named(self):
        """Pages are left to it that are equal; what it says of the tracker is not believed."""
        program = self.start("memory = bytearray(b'x' * (4 << 20))", **attack.user(attack.VICTIM))
        self.save_as_victim(program, "first", "--delta")
        foreign = self.save_as_victim(program, "foreign", "--delta=incremental")
        self.give_to_attacker("foreign")
        self.save_as_victim(program, "delta", "--delta=incremental", "--base", "foreign")
        self.assertEqual(foreign, self.base_of("delta"))
        self.assertEqual(0, self.about("delta")["records"]["page_tracker"][0]["clean"])
        self.end(program)
        self.assert_refused(attack.VICTIM, "delta")
        self.assert_restarted(attack.VICTIM, "--owner", "nobody", "delta")

    def test_in_a_namespace(self):
        """There the owners of all files look alike."""
        self.image_of(attack.VICTIM, "-f", "image")
        if self.restart_as(attack.VICTIM, "--restore-pid", "--pidns", "image").returncode != 0:
            self.skipTest("no namespaces here")
        os.chmod(self.path("image"), 0o444)
        os.chown(self.path("image"), 0, 0)
        self.assertEqual(0, self.restart_as(attack.VICTIM, "--restore-pid", "--pidns",
                                            "image").returncode)
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER)
        self.assert_refused(attack.VICTIM, "--restore-pid", "--pidns", "image")


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
