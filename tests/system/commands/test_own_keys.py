#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keys in the keyrings of a process and of its threads, which are not saved: cr_checkpoint says so."""
import ctypes

import case

# The numbers of the system calls and of the keyrings are those of Linux on x86-64.
CALL = """
import ctypes, threading
call = ctypes.CDLL(None, use_errno=True).syscall
of_thread, of_process = -1, -2
def add(keyring):
    assert call(248, b"user", b"cryo", b"secret", 6, keyring) > 0, ctypes.get_errno()  # add_key
"""
KEY_OF_PROCESS = CALL + "add(of_process)"
KEY_OF_THREAD = CALL + """
added, never = threading.Event(), threading.Event()
def hold():
    try:
        add(of_thread)
    finally:
        added.set()
    never.wait()
threading.Thread(target=hold, daemon=True).start()
added.wait()
"""
NO_KEY = CALL + "assert call(250, 0, of_process, 1) > 0"  # KEYCTL_GET_KEYRING_ID makes it
HOW_MANY = "print(call(250, 11, of_process, None, 0), flush=True)"  # KEYCTL_READ


class OwnKeys(case.Case):
    def setUp(self):
        if ctypes.CDLL(None).syscall(250, 0, -2, 1) < 0:
            self.skipTest("no keyrings here")
        super().setUp()

    def said(self, setup):
        """By a checkpoint of a program with these keys."""
        program = self.start(setup, each=HOW_MANY)
        said = self.save("--nosync", "--kill", "-f", "image", program.pid).stderr
        self.end(program)
        return said, f"process {program.pid} has keys in a process-keyring or thread-keyring"

    def test_of_the_process(self):
        said, notice = self.said(KEY_OF_PROCESS)
        self.assertIn(notice, said)
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual("-1\n", restarted.stdout.readline())

    def test_of_a_thread(self):
        said, notice = self.said(KEY_OF_THREAD)
        self.assertIn(notice, said)

    def test_none(self):
        said, _ = self.said(NO_KEY)
        self.assertNotIn("keyring", said)


case.main()
