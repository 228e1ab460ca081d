# SPDX-License-Identifier: Apache-2.0
"""Waits for a condition. A test that waits in vain says for what.

    numbers = wait_until("its first numbers", self.numbers)      # what the condition gave
    wait_until("its end", self.ended, describe=lambda: processes.describe(os.getpid()))
"""
import time

PATIENCE = 60


class Patience:
    """So many seconds in which the machine goes on. One that stands still, as virtual ones do for seconds,
    lets time pass in which nobody can do what is waited for."""

    LONGEST = 1  # second between two looks that counts

    def __init__(self, seconds):
        self.left = seconds
        self.last = time.monotonic()

    def is_over(self):
        """To be asked again and again."""
        now = time.monotonic()
        self.left -= min(now - self.last, self.LONGEST)
        self.last = now
        return self.left < 0


def wait_until(what, condition, patience=PATIENCE, failure=AssertionError, describe=None):
    """`describe` gives what else a person who reads of the failure wants to know."""
    limit = Patience(patience)
    while not (value := condition()):
        if limit.is_over():
            raise failure(f"waited {patience} s for {what}" + (f"\n{describe()}" if describe else ""))
        time.sleep(0.005)
    return value
