# SPDX-License-Identifier: Apache-2.0
"""What the tour says: a line with its time for each thing that it does and sees, on the terminal and, if wanted,
in an asciicast (version 2), which asciinema plays.

    with screen.Screen("docs/tour.cast") as out:
        out.step("job", "an MPI job under Slurm")
        out.saw("Submitted batch job 1")
"""

import contextlib
import json
import time

# Colours are for people; a log has plain text.
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_SIZE = {"width": 120, "height": 40}
_LONGEST_PAUSE = 2 # seconds, when it is played


class Screen(contextlib.AbstractContextManager):
    """The current step's name is what a failure is told with."""

    def __init__(self, recording=None):
        self._began = time.monotonic()
        self.name = "beginning"
        self._cast = open(recording, "w", encoding="utf-8") if recording else None
        if self._cast:
            self._record({"version": 2, **_SIZE, "timestamp": int(time.time()),
                          "idle_time_limit": _LONGEST_PAUSE, "title": "Cryo on a cluster of three nodes"})

    def __exit__(self, *_):
        if self._cast:
            self._cast.close()

    def _record(self, what):
        self._cast.write(json.dumps(what, ensure_ascii=False) + "\n")
        self._cast.flush()

    def _line(self, text, bold=False):
        now = time.monotonic() - self._began
        line = f"{now:6.1f} s  {text}"
        print(line, flush=True)
        if self._cast:
            shown = f"{_BOLD}{line}{_PLAIN}" if bold else line
            self._record([round(now, 3), "o", shown + "\r\n"])

    def step(self, name, text):
        """What begins now."""
        self.name = name
        self._line(f"{name}: {text}", bold=True)

    def saw(self, text):
        """What was seen: one line or several."""
        for line in text.rstrip().splitlines():
            self._line(f"    {line.rstrip()}")
