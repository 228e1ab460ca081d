#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test --resume, on a tree with three tests of its own: what has ended before an
interruption is counted and not run again.

    test_resume.py scripts/lib
"""
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

LIB = os.path.abspath(sys.argv.pop(1))
RUN = f"""
set -u
. {LIB}/common.sh
. {LIB}/testing.sh
CRYO_TOP=$PWD log=$PWD/build/log spent=0 rounds=1 measure=false regex='' resume=$1
given=() selection=()
if $resume; then check_resumable; fi
begin_results
run_ctest release main.1
{sys.executable} {LIB}/summary.py "${{results[@]}}"
"""


class Resume(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        os.makedirs(os.path.join(self.place.name, "build", "release"))
        os.makedirs(os.path.join(self.place.name, "build", "log"))
        os.mkfifo(self.path("build/pauses"))
        tests = {"unit.passes": "echo >>build/passes",
                 "unit.fails": "echo >>build/fails; exit 1",
                 "unit.waits": "test -e build/goes_on || cat build/pauses"}
        with open(self.path("build/release/CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            for name, command in tests.items():
                command = f"cd {shlex.quote(self.place.name)}; {command}"
                file.write(f'add_test({name} [==[{sys.executable}]==] -IS [==[{LIB}/run_one_test]==] '
                           f"{name} sh -c [==[{command}]==])\n")
            file.write('set_tests_properties(unit.waits PROPERTIES DEPENDS "unit.passes;unit.fails")\n')
        self.write(".gitignore", "build\n")
        self.git("init", "-q")
        self.commit()

    def path(self, name):
        return os.path.join(self.place.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments],
                       cwd=self.place.name, check=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-qm", "x")

    def start(self, resume):
        return subprocess.Popen(["bash", "-c", RUN, "run", resume], cwd=self.place.name, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True)

    def interrupt(self, resume="false"):
        run = self.start(resume)
        with open(self.path("build/pauses"), "wb"):  # until the third test reads
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()

    def test_what_has_ended_is_counted_and_not_repeated(self):
        self.interrupt()
        self.interrupt("true")
        self.write("build/goes_on", "")
        run = self.start("true")
        said = run.communicate()[0]
        self.assertIn("FAILED:  unit.fails", said)
        self.assertIn("cryo: 2 passed, 1 failed, 0 skipped", said)
        self.assertNotEqual(run.returncode, 0)
        for name in ("passes", "fails"):
            self.assertEqual(os.path.getsize(self.path(f"build/{name}")), 1, name)

    def test_a_part_that_has_ended_is_not_run_again(self):
        self.write("build/goes_on", "")
        first = self.start("false").communicate()[0]
        again = self.start("true").communicate()[0]
        self.assertIn("cryo: 2 passed, 1 failed, 0 skipped", first)
        self.assertIn("cryo: 2 passed, 1 failed, 0 skipped", again)
        self.assertEqual(os.path.getsize(self.path("build/passes")), 1)

    def test_another_commit_is_refused(self):
        self.interrupt()
        self.write("more", "")
        run = self.start("true")
        self.assertIn("the tree holds what no commit has", run.communicate()[0])
        self.commit()
        run = self.start("true")
        self.assertIn("no run of this commit", run.communicate()[0])
        self.assertEqual(os.path.getsize(self.path("build/passes")), 1)


if __name__ == "__main__":
    unittest.main()
