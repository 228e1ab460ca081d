#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that executes another one again and again is never ended by a checkpoint that comes
then, whichever way it does it."""
import subprocess

import case

TIMES = 300
# Executes itself with a smaller number, by exec or by the number of the system call.
BY_EXEC = "$n or exit 0; exec @next;"
BY_NUMBER = """
$n or exit 0;
my @variables = map { "$_=$ENV{$_}" } keys %ENV;
my ($arguments, $environment) = (pack("p* x8", @next), pack("p* x8", @variables));
syscall(59, $next[0], $arguments, $environment);
"""
SELF = 'my $n = $ARGV[0]; my @next = ("/usr/bin/perl", "-e", $ENV{CODE}, $n - 1);'


class Exec(case.Case):
    def run_through(self, code):
        code = SELF + code
        program = self.spawn(case.command("cr_run"), "/usr/bin/env", f"CODE={code}",
                             "/usr/bin/perl", "-e", code, TIMES, stderr=subprocess.PIPE)
        saved = 0
        while program.poll() is None:
            saved += self.checkpoint("-q", "--nosync", "-f", "image", program.pid).returncode == 0
        self.assertEqual((0, ""), (program.returncode, program.stderr.read()))
        self.assertGreater(saved, 0)

    def test_by_exec(self):
        self.run_through(BY_EXEC)

    def test_by_number(self):
        self.run_through(BY_NUMBER)


if __name__ == "__main__":
    case.main()
