# SPDX-License-Identifier: Apache-2.0
"""Waits for a condition. A test that waits in vain says for what.

    numbers = wait_until("its first numbers", self.numbers)      # what the condition gave
    wait_until("its end", self.ended, describe=lambda: processes.describe(os.getpid()))
"""
import time

PATIENCE = 60


def wait_until(what, condition, patience=PATIENCE, failure=AssertionError, describe=None):
    """`describe` gives what else a person who reads of the failure wants to know."""
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise failure(f"waited {patience} s for {what}" + (f"\n{describe()}" if describe else ""))
        time.sleep(0.005)
    return value
