#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the backend criu cannot be had, or fails: test_criu.py BIN"""
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv[1]
ROOT = os.geteuid() == 0
ENOSUPPORT = 2356 & 0xff  # CR_ENOSUPPORT: what Cryo itself says of such a program

# A stand-in for criu: fails as criu does, at the command that is named.
BROKEN = """#!/bin/sh
case $1 in
--version) echo 'Version: 9.9'; exit 0 ;;
esac
[ "$1" = {failing} ] || exit 0
text='Error (criu/some.c:12): the kernel is from the moon'
end='Error (criu/cr-dump.c:99): Dumping FAILED.'
log=
while [ $# -gt 0 ]; do [ "$1" = --log-file ] && log=$2; shift; done
if [ -n "$log" ]; then printf '(00.1) %s\\n%s\\n' "$text" "$end" >"$log"
else printf '%s\\n' "$text" >&2; fi
exit 1
"""

# Saves the program by its word alone; a restore fails, and does not end.
STALLED = """#!/bin/sh
case $1 in
--version) echo 'Version: 9.9' ;;
dump)
    while [ $# -gt 0 ]; do
        [ "$1" = --images-dir ] && echo image >"$2/core.img"
        [ "$1" = --action-script ] && script=$2
        shift
    done
    [ -z "$script" ] || CRTOOLS_SCRIPT_ACTION=post-dump "$script" ;;
restore)
    while [ $# -gt 0 ]; do [ "$1" = --log-file ] && log=$2; shift; done
    echo '(00.1) Error (criu/some.c:12): the file is on the moon' >"$log"
    echo $$ >stalled
    exec sleep 1000 ;;
esac
"""


class Refusals(unittest.TestCase):
    """A program that Cryo does not know, and a criu of which we know what it does."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cryo-criu.")
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        self.program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end)

    def end(self):
        self.program.kill()
        self.program.communicate()

    def criu(self, failing, text=BROKEN):
        path = os.path.join(self.directory, "criu")
        with open(path, "w", encoding="ascii") as file:
            file.write(text.replace("{failing}", failing))
        os.chmod(path, 0o755)
        return path

    def refuse(self, code, *words, criu=None, **where):
        """What is said; nothing is left, and the program goes on."""
        environment = dict(os.environ)
        if criu:
            environment["CRYO_CRIU"] = criu
        before = sorted(os.listdir(self.directory))
        done = subprocess.run([os.path.join(BIN, "cr_checkpoint"), "-f", "image", *words,
                               str(self.program.pid)], cwd=self.directory, check=False,
                              env=environment, capture_output=True, text=True, timeout=60, **where)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertEqual(before, sorted(os.listdir(self.directory)))
        self.program.stdin.write(b"there\n")
        self.program.stdin.flush()
        self.assertEqual(b"there\n", self.program.stdout.readline())
        return done.stderr

    def test_not_installed(self):
        said = self.refuse(errno.ENOENT, "--backend=criu", criu="/nowhere/criu")
        self.assertIn("not installed", said)
        self.assertIn("cr_run", said)
        self.assertNotIn("criu", self.refuse(ENOSUPPORT, criu="/nowhere/criu"))

    def test_the_kernel_cannot(self):
        broken = self.criu("check")
        if not ROOT:
            self.assertIn("root only", self.refuse(errno.EPERM, "--backend=criu", criu=broken))
            return
        said = self.refuse(errno.ENOTSUP, "--backend=criu", criu=broken)
        self.assertIn("criu 9.9 cannot work on this kernel: criu: the kernel is from the moon",
                      said)
        self.assertNotIn("criu", self.refuse(ENOSUPPORT, criu=broken))

    def test_this_kernel(self):
        """Here criu works, and is offered; or not, and the reason is told."""
        works = ROOT and subprocess.run(["criu", "check"], check=False,
                                        capture_output=True).returncode == 0
        said = self.refuse(ENOSUPPORT)
        self.assertEqual(works, "--backend=criu" in said, said)
        if not works:
            said = self.refuse(errno.ENOTSUP if ROOT else errno.EPERM, "--backend=criu")
            self.assertIn("or save the program with cr_run", said)

    def test_dump_fails(self):
        if not ROOT:
            self.refuse(errno.EPERM, "--backend=criu", criu=self.criu("dump"))
            return
        for how in ("--run", "--kill"):
            said = self.refuse(errno.ENOTSUP, "--backend=criu", how, criu=self.criu("dump"))
            self.assertIn("goes on: criu: the kernel is from the moon\n", said)

    def test_restore_does_not_end(self):
        """CRIU before 3.19 may wait for ever for what has failed."""
        if not ROOT:
            return
        environment = {**os.environ, "CRYO_CRIU": self.criu("nothing", STALLED)}

        def run(command, *words):
            return subprocess.run([os.path.join(BIN, command), *words], cwd=self.directory,
                                  env=environment, check=False, capture_output=True, text=True,
                                  timeout=60)
        done = run("cr_checkpoint", "--backend=criu", "-f", "image", str(self.program.pid))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end()
        done = run("cr_restart", "image")
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("criu: the file is on the moon", done.stderr)
        with open(os.path.join(self.directory, "stalled"), encoding="ascii") as pid:
            self.assertFalse(os.path.exists(f"/proc/{pid.read().strip()}"))

    def test_options_that_mean_nothing_to_it(self):
        if not ROOT:
            return
        for words in (["--delta"], ["--save-all"], ["--pipes=refuse"], ["--pgid"], ["--sid"],
                      ["--ptraced-allow"]):
            self.refuse(errno.ENOTSUP, "--backend=criu", *words, criu=self.criu("nothing"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
