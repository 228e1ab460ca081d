#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_delta as a person and as a program would call it.

    test_delta.py CR_DELTA MANUAL_PAGE COMPLETION [--tmpfs]
"""
import errno
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

DELTA = PAGE = COMPLETION = None
TMPFS = []  # how to run something that may mount, where that is possible
BLOCK = 4096
VERBS = ("add", "restore", "list", "merge", "prune", "verify", "sign", "make", "apply")


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-delta-")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.random = random.Random(1)
        self.contents = [None]

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run_it(self, *arguments, status=0, text=True, **how):
        how.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([DELTA, *arguments], capture_output=True, text=text,
                              cwd=self.scratch, check=False, **how)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}\n{done.stderr}")
        return done

    def json_of(self, verb, *arguments, **how):
        answer = json.loads(self.run_it(verb, "--json", *arguments, **how).stdout)
        self.assertEqual(answer["json_version"], 1)
        return answer

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def series(self, count, blocks=50, *options):
        """Versions 1 to count of `file`, in d1, d2, …"""
        content = bytearray(self.random.randbytes(blocks * BLOCK))
        for number in range(1, count + 1):
            at = number * 2 * BLOCK
            content[at:at + BLOCK] = self.random.randbytes(BLOCK)
            self.write("file", content)
            self.contents.append(bytes(content))
            self.run_it("add", "--service", "s", "file", "-o", f"d{number}", *options)

    def damage(self, name, place):
        path = self.path(name)
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))

    def leftovers(self):
        return [name for name in os.listdir(self.scratch) if name.startswith(".")]


class Automatic(Case):
    def test_add_and_restore(self):
        self.series(3)
        for number in (1, 2, 3):
            for what in (str(number), f"d{number}"):
                self.run_it("restore", "--service", "s", what, "-o", "back", "-f")
                self.assertEqual(self.read("back"), self.contents[number])
        self.run_it("restore", "d3", "-o", "alone")  # bases beside it are found
        self.assertEqual(self.read("alone"), self.contents[3])
        out = self.run_it("restore", "--service", "s", "2", "-o", "-", text=False)
        self.assertEqual(out.stdout, self.contents[2])

    def test_the_mode_of_the_file_comes_back(self):
        self.write("file", b"x" * 10000)
        os.chmod(self.path("file"), 0o751)
        self.run_it("add", "--service", "s", "file", "-o", "d1")
        self.run_it("restore", "--service", "s", "1", "-o", "back")
        self.assertEqual(os.stat(self.path("back")).st_mode & 0o7777, 0o751)

    def test_what_is_said(self):
        self.series(2)
        self.assertRegex(self.run_it("list", "--service", "s").stdout,
                         r"(?s)1  complete +50/50.*2  on 1 +1/50 .* 1 2 .*adaptive, B = 1.5")
        answer = self.json_of("list", "--service", "s")
        self.assertEqual([v["number"] for v in answer["versions"]], [1, 2])
        self.assertEqual(answer["versions"][1]["needs"], [1, 2])
        self.assertEqual(answer["versions"][1]["changed"], 1)
        self.assertTrue(all(v["present"] for v in answer["versions"]))
        image = self.json_of("list", "d2")["images"][0]
        self.assertEqual((image["number"], image["base_number"], image["size"], image["blocks"]),
                         (2, 1, 50 * BLOCK, 50))
        self.assertTrue(self.json_of("verify", "--service", "s")["good"])
        added = self.json_of("add", "--service", "s", "file", "-o", "d3")["version"]
        self.assertEqual((added["number"], added["base"], added["changed"]), (3, 1, 1))
        for arguments in (("add", "--service", "s", "file", "-o", "d4"),
                          ("restore", "--service", "s", "4", "-o", "x"),
                          ("verify", "--service", "s"), ("merge", "--service", "s", "4"),
                          ("prune", "--service", "s", "--keep", "1")):
            self.assertEqual(self.run_it(*arguments, "-q").stdout, "", arguments)

    def test_settings_are_kept(self):
        self.series(2, 50, "--block-size", "8K", "--mode", "differential", "--threshold", "2.5",
                    "--most-images", "9", "--package-blocks", "16", "--codec", "zstd")
        answer = self.json_of("list", "--service", "s")
        self.assertEqual([answer[key] for key in ("block_size", "mode", "threshold", "most_images",
                                                  "package_blocks", "codec")],
                         [8192, "differential", 2.5, 9, 16, "zstd"])
        self.run_it("add", "--service", "s", "file", "-o", "d3")
        self.assertEqual(self.json_of("list", "--service", "s")["block_size"], 8192)
        self.run_it("add", "--service", "s", "file", "-o", "d4", "--block-size", "4K")
        self.assertEqual(self.json_of("list", "--service", "s")["versions"][-1]["needs"], [4])

    def test_bases_that_are_missing_or_damaged_are_named(self):
        self.series(3, 50, "--mode", "incremental")
        whole = self.read("d1")
        os.rename(self.path("d1"), self.path("s/elsewhere"))
        for arguments in (("restore", "--service", "s", "3", "-o", "back"),
                          ("restore", "d3", "-o", "back"),
                          ("add", "--service", "s", "file", "-o", "d4"),
                          ("merge", "--service", "s", "3"),
                          ("prune", "--service", "s", "--keep", "1")):
            done = self.run_it(*arguments, status=errno.ENOENT)
            self.assertRegex(done.stderr, r"d1|image [0-9a-f]{32}", arguments)
            self.assertFalse(os.path.exists(self.path("back")))
        self.assertEqual(self.read("d2"), self.read("d2"))
        self.run_it("restore", "--base", "s/elsewhere", "d3", "-o", "back")
        self.assertEqual(self.read("back"), self.contents[3])
        self.assertRegex(self.run_it("list", "--service", "s").stdout, "d1  missing")
        self.run_it("verify", "--service", "s", status=errno.EBADMSG)
        self.write("d1", whole[:-1])
        done = self.run_it("restore", "--service", "s", "3", "-o", "b2", status=errno.EBADMSG)
        self.assertIn("d1", done.stderr)
        self.write("d1", whole)
        self.damage("d1", len(whole) // 2)  # in its pages: found when they are read
        done = self.run_it("restore", "--service", "s", "3", "-o", "b2", status=errno.EBADMSG)
        self.assertRegex(done.stderr, "d1: package .* damaged")
        self.assertFalse(os.path.exists(self.path("b2")))
        self.assertEqual(self.leftovers(), [])

    def test_nothing_is_replaced_unasked(self):
        self.series(2)
        before = self.read("d1")
        for more in ((), ("-f",)):
            done = self.run_it("add", "--service", "s", "file", "-o", "d1", *more,
                               status=errno.EEXIST)
            self.assertIn("version 1", done.stderr)
        self.write("other", b"mine")
        self.run_it("add", "--service", "s", "file", "-o", "other", status=errno.EEXIST)
        self.run_it("restore", "--service", "s", "1", "-o", "other", status=errno.EEXIST)
        self.run_it("add", "--service", "s", "file", "-o", "file", "-f", status=errno.EINVAL)
        done = self.run_it("restore", "--service", "s", "2", "-o", "d1", "-f", status=errno.EEXIST)
        self.assertIn("needs", done.stderr)
        self.assertEqual((self.read("d1"), self.read("other")), (before, b"mine"))
        self.run_it("add", "--service", "s", "file", "-o", "other", "-f")
        self.assertEqual(self.json_of("list", "--service", "s")["versions"][-1]["number"], 3)

    def test_merge_and_prune(self):
        self.series(4, 50, "--mode", "incremental")
        done = self.run_it("merge", "--service", "s", "2", status=errno.EBUSY)
        self.assertIn("base of 3", done.stderr)
        self.run_it("merge", "--service", "s", "4")
        self.assertRegex(self.run_it("prune", "--service", "s", "--keep", "1", "-n").stdout,
                         "(?s)would remove version 1.*version 2.*version 3")
        self.assertTrue(os.path.exists(self.path("d1")))
        self.run_it("prune", "--service", "s", "--keep", "1")
        self.assertEqual([os.path.exists(self.path(f"d{n}")) for n in (1, 2, 3, 4)],
                         [False, False, False, True])
        self.run_it("restore", "--service", "s", "4", "-o", "back")
        self.assertEqual(self.read("back"), self.contents[4])

    def test_a_full_disk(self):
        """No file can grow beyond a limit: errors, nothing half-made, all versions as before."""
        self.series(2)
        self.contents.append(self.random.randbytes(50 * BLOCK))
        self.write("file", self.contents[3])

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5 * BLOCK, 5 * BLOCK))
        before = {name: self.read(name) for name in ("d1", "d2", "s/state")}
        for arguments in (("add", "--service", "s", "file", "-o", "d3"),
                          ("merge", "--service", "s", "2"),
                          ("merge", "--service", "s", "2", "-o", "d3"),
                          ("restore", "--service", "s", "1", "-o", "back"),
                          ("sign", "--block-size", "4K", "file", "-o", "sig")):
            done = subprocess.run([DELTA, *arguments], cwd=self.scratch, capture_output=True,
                                  text=True, check=False, preexec_fn=limit)
            if arguments[0] == "sign":  # small enough
                continue
            self.assertEqual(done.returncode, errno.EFBIG, done.stderr)
            self.assertEqual({name: self.read(name) for name in before}, before)
            self.assertFalse(os.path.exists(self.path("d3")) or os.path.exists(self.path("back")))
        self.assertEqual(self.leftovers(), [])
        self.run_it("add", "--service", "s", "file", "-o", "d3")
        self.run_it("verify", "--service", "s")

    def test_a_disk_that_is_really_full(self):
        if not TMPFS:  # such a machine cannot mount; what the others test is told by its list
            return
        self.series(2, 100)
        script = """set -e
            mount -t tmpfs -o size=700k none full
            cp -a s d1 d2 full/
            cd full
            ! "$0" add --service s --complete ../file -o d3 2> message
            grep -q 'No space left' message
            ! "$0" restore --service s 1 -o back 2> message
            grep -q 'are free there' message
            test ! -e d3 && test ! -e back
            "$0" verify --service s -q
            "$0" restore --service s 2 -o - | cmp - ../file"""
        os.mkdir(self.path("full"))
        done = subprocess.run([*TMPFS, "sh", "-c", script, DELTA], cwd=self.scratch, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_wrong_usage(self):
        for arguments in ((), ("nonsense",), ("add", "file", "-o", "x"), ("add", "--service", "s"),
                          ("verify",), ("list",), ("prune", "--service", "s"),
                          ("prune", "--service", "s", "--keep", "0"),
                          ("add", "--service", "s", "file", "-o", "x", "--block-size", "5000"),
                          ("add", "--service", "s", "file", "-o", "x", "--threshold", "0.5"),
                          ("add", "--service", "s", "file", "-o", "x", "--codec", "gzip"),
                          ("add", "--service", "s", "file", "-o", "x", "--mode", "best")):
            self.run_it(*arguments, status=255)
        self.write("file", b"x")
        done = self.run_it("list", "--service", "none", status=errno.ENOENT)
        self.assertIn("none", done.stderr)
        self.run_it("add", "--service", "s", "/dev/null", "-o", "x", status=errno.EINVAL)
        self.run_it("add", "--service", "s", "absent", "-o", "x", status=errno.ENOENT)
        self.run_it("restore", "file", "-o", "x", status=errno.EBADMSG)
        self.run_it("restore", "--service", "s", "7", "-o", "x", status=errno.ENOENT)


class Controlled(Case):
    def test_sign_make_apply(self):
        old = self.random.randbytes(100 * BLOCK + 17)
        new = old[:30 * BLOCK] + self.random.randbytes(2 * BLOCK) + old[32 * BLOCK:] + b"more"
        self.write("old", old)
        self.write("new", new)
        self.run_it("sign", "old", "-o", "sig", "--block-size", "4K")
        made = self.json_of("make", "--signature", "sig", "new", "-o", "delta")["version"]
        self.assertEqual((made["changed"], made["blocks"]), (3, 101))
        self.run_it("apply", "--base", "old", "delta", "-o", "back")
        self.assertEqual(self.read("back"), new)
        out = self.run_it("apply", "--base", "old", "delta", "-o", "-", text=False)
        self.assertEqual(out.stdout, new)
        self.assertTrue(self.json_of("verify", "delta", "sig", "--base", "old")["good"])
        # A delta can be the base of the next signature, too.
        self.run_it("sign", "back", "-o", "sig2")
        self.run_it("make", "--signature", "sig2", "old", "-o", "reverse")
        self.run_it("apply", "--base", "new", "reverse", "-o", "again")
        self.assertEqual(self.read("again"), old)

    def test_a_wrong_base_is_refused_before_anything_is_written(self):
        self.write("old", b"a" * 10 * BLOCK)
        self.write("new", b"a" * 9 * BLOCK + b"b" * BLOCK)
        self.run_it("sign", "old", "-o", "sig")
        self.run_it("make", "--signature", "sig", "new", "-o", "delta")
        self.write("back", b"precious")
        self.write("wrong", b"a" * 10 * BLOCK + b"a")
        done = self.run_it("apply", "--base", "wrong", "delta", "-o", "back", "-f",
                           status=errno.ESTALE)
        self.assertIn("is not the base of delta", done.stderr)
        self.run_it("apply", "--base", "absent", "delta", "-o", "back", "-f", status=errno.ENOENT)
        self.assertEqual(self.read("back"), b"precious")
        done = self.run_it("restore", "delta", "-o", "x", status=errno.EINVAL)
        self.assertIn("apply --base", done.stderr)
        done = self.run_it("restore", "sig", "-o", "x", status=errno.EINVAL)
        self.assertIn("signature", done.stderr)
        self.run_it("make", "--signature", "delta", "new", "-o", "x", status=errno.EINVAL)
        self.run_it("apply", "--base", "old", "sig", "-o", "x", status=errno.EINVAL)


class Described(Case):
    def options(self, verb):
        text = self.run_it(verb, "--help").stdout
        return set(re.findall(r"(?:^| |,)--([a-z-]+)", text, re.MULTILINE))

    def test_every_option_is_in_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        described = set(re.findall(r"Fl Fl ([\w-]+)", page))
        for verb in VERBS:
            self.assertIn(f".It Cm {verb}\n", page)
            self.assertGreater(len(self.options(verb)), 2)
            self.assertEqual(self.options(verb) - described, set(), verb)

    def complete(self, *words):
        script = ('. /usr/share/bash-completion/bash_completion; . "$1"; shift; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
                  '_cr_delta "$1"; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "-", COMPLETION, DELTA, *words],
                              capture_output=True, text=True, check=False, cwd=self.scratch)
        return done.stdout.split()

    def test_completion(self):
        self.assertEqual(self.complete(""), list(VERBS))
        self.assertEqual(self.complete("add", "--mode", "inc"), ["incremental"])
        self.assertIn("--threshold", self.complete("add", "--"))
        self.assertNotIn("--threshold", self.complete("restore", "--"))
        self.write("something", b"")
        self.assertEqual(self.complete("restore", "some"), ["something"])


if __name__ == "__main__":
    DELTA, PAGE, COMPLETION = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    if "--tmpfs" in sys.argv:
        sys.argv.remove("--tmpfs")
        TMPFS = ["unshare", "--mount", "--map-root-user"]
    unittest.main()
