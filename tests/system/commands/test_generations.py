#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saved, killed, and brought back in a row."""
import os
import statistics
import sys
import time

import case


class Generations(case.Case):
    COUNT = 50 if os.environ.get("CRYO_SOAK") else 10

    def test_no_growth(self):
        """Saved, killed, and brought back in a row: nothing grows, and it computes what it should."""
        program = self.start("""
import threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
value = 1
def step():
    global value
    value = value * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
    print(value, flush=True)
""", "step()")
        pid, running, facts, value = program.pid, program, [], 1
        for _ in range(self.COUNT):
            self.save("--nosync", "-p", "--kill", "-f", "image", pid)
            self.end(running)
            before = time.monotonic()
            running = self.restart("-q", "image")
            self.assert_alive(running)
            took = time.monotonic() - before
            value = value * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            self.assertEqual(f"{value}\n", running.stdout.readline())
            with open(f"/proc/{running.pid}/task/{running.pid}/children",
                      encoding="ascii") as file:
                pid = int(file.read().split()[0])
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
                mappings = len(maps.readlines())
            facts.append((os.path.getsize(self.path("image")) >> 16,
                          len(os.listdir(f"/proc/{pid}/fd")), mappings,
                          len(os.listdir(f"/proc/{pid}/task")), took))
        # The first restart may leave other pages behind than the program had before.
        self.assertEqual([facts[1][1:4]] * (self.COUNT - 1), [fact[1:4] for fact in facts[1:]])
        self.assertLessEqual(facts[-1][0], facts[1][0] + 2)
        first, last = (statistics.median(fact[4] for fact in part) * 1e3
                       for part in (facts[:self.COUNT // 2], facts[self.COUNT // 2:]))
        print(f"{self.COUNT} generations: {facts[-1][0] * 64} KiB, restarts of {first:.1f} ms in the "
              f"first half, {last:.1f} ms in the second", file=sys.stderr)


if __name__ == "__main__":
    case.main()
