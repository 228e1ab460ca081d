#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner itself: what it does with programs that hang, die, lack something or disagree, and
with tools that refuse. The tools and programs here are shell scripts made for one test each."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

import processes
import session
import tools

PROTOCOL = """#!/bin/sh
dir=$2
say() { echo "$2" >"$dir/draft"; printf '%s' "$(cat "$dir/draft")" >"$dir/d2"; mv "$dir/d2" "$dir/$1"; }
await() { until [ -e "$dir/$1" ]; do sleep 0.01; done; }
"""
PASSES_TWICE = PROTOCOL + """
say ready.1; await check.1; say verdict.1 PASS; say ready.2; await check.2; say verdict.2 PASS
"""


class RunnerTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def script(self, name, text):
        path = os.path.join(self.scratch.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def run_script(self, text, tool=None, mode="plain", patience=20, **entry):
        program = {"name": "script", "command": [self.script("program", text)], "refused": "",
                   "may_be_refused": "", "checkpoint_options": []} | entry
        return session.Session(program, tool or tools.Plain(), self.scratch.name,
                               patience).run(mode, 2)

    def fake_cryo(self, checkpoint, restart="exit 9"):
        self.script("cr_run", '#!/bin/sh\nexec "$@"\n')
        self.script("cr_checkpoint", f"#!/bin/sh\n{checkpoint}\n")
        self.script("cr_restart", f"#!/bin/sh\n{restart}\n")
        return tools.Cryo(self.scratch.name, "")

    def assert_fails(self, outcome, text):
        self.assertEqual(outcome.kind, "FAIL")
        self.assertIn(text, outcome.text)

    def test_a_program_that_passes_leaves_nothing_behind(self):
        self.assertEqual(self.run_script(PASSES_TWICE).kind, "PASS")
        self.assertEqual(os.listdir(self.scratch.name), ["program"])

    def test_a_program_that_never_gets_ready_is_described_and_killed(self):
        outcome = self.run_script("#!/bin/sh\nsleep 1000 & wait\n", patience=0.5)
        self.assert_fails(outcome, "no ready.1 after 0.5 s")
        self.assertIn("(sleep)", outcome.text)
        self.assertEqual(processes.family(os.getpid()), [])

    def test_only_a_descendant_is_killed(self):
        with subprocess.Popen(["sleep", "1000"]) as one, subprocess.Popen(["sleep", "1000"]) as other:
            processes.kill(other.pid, one.pid)
            self.assertIsNone(other.poll())
            for sleeper in (one, other):
                processes.kill(sleeper.pid, os.getpid())
                self.assertEqual(sleeper.wait(60), -signal.SIGKILL)

    def test_a_program_that_dies_early_is_told_with_what_it_printed(self):
        self.assert_fails(self.run_script("#!/bin/sh\necho my last words; exit 4\n"),
                          "ended with status 4 before ready.1; it printed: my last words")

    def test_a_verdict_must_agree_with_the_exit_status(self):
        self.assert_fails(self.run_script(PASSES_TWICE + "exit 5\n"), "ended with status 5")

    def test_a_failure_is_passed_on(self):
        outcome = self.run_script(PROTOCOL + "say ready.1; await check.1; "
                                  "say verdict.1 'FAIL: thing: expected 1, found 2'; exit 1\n")
        self.assert_fails(outcome, "thing: expected 1, found 2")

    def test_a_lack_is_no_failure(self):
        outcome = self.run_script(PROTOCOL + "say verdict.1 'LACKS: wings'; exit 77\n")
        self.assertEqual(outcome.kind, "LACKS")
        self.assertIn("wings", outcome.text)

    def test_a_program_that_cannot_be_started_fails(self):
        self.assert_fails(self.run_script("", command=["/nonexistent/program"]),
                          "cannot be started")

    def test_continue_takes_a_checkpoint_and_lets_the_program_go_on(self):
        tool = self.fake_cryo('echo "$@" >>' + self.scratch.name + '/calls; touch "$3"')
        outcome = self.run_script(PASSES_TWICE, tool, "continue",
                                  checkpoint_options=["--save-shared"])
        self.assertEqual(outcome.kind, "PASS", outcome.text)
        with open(os.path.join(self.scratch.name, "calls"), encoding="utf-8") as file:
            words = file.read().split()
        self.assertEqual([words[0], words[1], len(words)], ["--save-shared", "-f", 4])

    def test_restart_kills_the_program_and_judges_what_comes_back(self):
        # This cr_restart "brings back" a program that was in its first cycle.
        outcome = self.run_script(PASSES_TWICE, self.fake_cryo(
            'echo "$2" >' + self.scratch.name + "/image",
            'dir=$(dirname "$(cat ' + self.scratch.name + '/image)"); rm "$dir/ready.1"; '
            "exec " + self.scratch.name + '/program --dir "$dir"'), "restart")
        self.assertEqual(outcome.kind, "PASS", outcome.text)

    def test_a_restart_that_fails_is_told(self):
        tool = self.fake_cryo("exit 0", "echo image is broken; exit 9")
        self.assert_fails(self.run_script(PASSES_TWICE, tool, "restart"), "image is broken")

    def test_a_checkpoint_that_fails_is_told(self):
        tool = self.fake_cryo("echo no space >&2; exit 28")
        self.assert_fails(self.run_script(PASSES_TWICE, tool, "restart"),
                          "cr_checkpoint: exit status 28: no space")

    def test_an_expected_refusal_passes_only_if_it_names_the_reason(self):
        tool = self.fake_cryo("echo descriptor 5 is a socket >&2; exit 95")
        self.assertEqual(self.run_script(PASSES_TWICE, tool, "restart", refused="socket").kind,
                         "PASS")
        self.assert_fails(self.run_script(PASSES_TWICE, tool, "restart", refused="pidfd"),
                          "expected a refusal that names pidfd")

    def test_a_refusal_must_leave_nothing_behind(self):
        tool = self.fake_cryo('touch "$2.tmp"; echo a socket >&2; exit 95')
        self.assert_fails(self.run_script(PASSES_TWICE, tool, "restart", refused="socket"),
                          "left image.1.tmp behind")

    def test_a_checkpoint_where_a_refusal_is_expected_fails(self):
        tool = self.fake_cryo('touch "$2"')
        self.assert_fails(self.run_script(PASSES_TWICE, tool, "restart", refused="socket"),
                          "found a checkpoint")

    def test_a_blind_check_is_found_out(self):
        program = {"name": "script", "command": [self.script("program", PASSES_TWICE)]}
        outcome = session.Session(program, tools.Plain(), self.scratch.name,
                                  20).run_sabotage("thing")
        self.assert_fails(outcome, "the check is blind")

    def test_in_a_network_of_its_own_the_ports_of_others_are_free(self):
        takes = ("import processes, socket, sys\n"
                 "if not processes.have_own_network():\n"
                 "    sys.exit(77)\n"
                 "with socket.create_server(('127.0.0.1', int(sys.argv[1]))) as server:\n"
                 "    socket.create_connection(server.getsockname()).close()\n")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = subprocess.run([sys.executable, "-B", "-c", takes, str(taken.getsockname()[1])],
                                  cwd=os.path.dirname(os.path.abspath(__file__)), check=False,
                                  stderr=subprocess.PIPE, text=True)
        if done.returncode == session.LACKS_FEATURE:
            self.skipTest("only root can have a network of its own")
        self.assertEqual((0, ""), (done.returncode, done.stderr))


if __name__ == "__main__":
    processes.adopt_orphans()
    sys.exit(unittest.main())
