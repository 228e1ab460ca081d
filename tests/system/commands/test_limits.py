#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees of more processes than the commands may have files open at first."""
import errno
import resource

import case

COUNT = 150
# Children without a pipe to us; each ends when its parent does.
FAMILY = f"""
import os
ready, mine = os.pipe()
end, never = os.pipe()
for _ in range({COUNT}):
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.write(mine, b"x")
        os.close(never)
        os.read(end, 1)
        os._exit(0)
seen = 0
while seen < {COUNT}:
    seen += len(os.read(ready, {COUNT} - seen))
"""


def limit(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Limits(case.Case):
    def test_more_than_the_soft_limit(self):
        program = self.start(FAMILY)
        done = self.checkpoint("--nosync", "--json", "--kill", "-f", "image", program.pid,
                               preexec_fn=limit(128, 4096))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f'"processes":{COUNT + 1}', done.stdout)
        self.end(program)
        restarted = self.restart("-q", "image", preexec_fn=limit(128, 4096))
        self.assert_alive(restarted)

    def test_more_than_the_hard_limit(self):
        program = self.start(FAMILY)
        done = self.checkpoint("-f", "image", program.pid, preexec_fn=limit(128, 128))
        self.assertEqual(errno.EMFILE, done.returncode, done.stderr)
        self.assertIn("ulimit -n", done.stderr)
        self.assertEqual([], self.files())
        self.assert_alive(program)


case.main()
