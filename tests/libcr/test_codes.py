#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flags and error codes of requests that need another process.

    test_codes.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import glob
import os
import shutil
import unittest

import lab
from lab import processes


class Codes(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def good(self, word, client="codes"):
        """All that a client looks at is as it should be."""
        program = self.lab.start(self.lab.image, word, "ids" if processes.keep_ids() else "",
                                 client=client)
        self.assertEqual(program.wait(lab.PATIENCE), 0, self.lab.log())

    def test_traced_and_tracing_processes(self):
        self.good("traced")

    def test_contents_of_files(self):
        self.good("contents")

    def test_default_destination(self):
        self.good("place")

    def test_timeout(self):
        self.good("time")

    def test_request_that_is_not_complete(self):
        self.good("wait")

    def test_processes_that_cannot_be_saved(self):
        self.good("strangers")

    def test_no_descriptors_left(self):
        self.good("full")

    def test_no_processes_left(self):
        self.good("processes")

    def test_no_memory(self):
        self.good("", "memory")

    def test_many_requests(self):
        self.good("many")

    def test_most_callbacks(self):
        self.good("callbacks")

    def test_image_of_another_architecture(self):
        self.good("machine", "restarts")

    def test_logs_of_two_requests(self):
        self.good("logs")

    def test_full_disk(self):
        self.good("disk")

    def test_deprecated_request_by_descriptor(self):
        self.good("fd")

    def test_ids_that_are_in_use(self):
        self.good("ids", "restarts")

    def test_groups_and_sessions(self):
        self.good("groups", "restarts")

    def test_relocation(self):
        self.good("relocate", "restarts")

    def test_signals(self):
        self.good("signal", "restarts")

    def test_restart_that_fails_later(self):
        self.good("later", "restarts")

    def test_library_without_commands(self):
        if self.lab.with_cr_run:
            return  # it comes from where cr_run is
        build = os.path.dirname(self.lab.commands)
        found = glob.glob(os.path.join(build, "lib*", "**", "libcr.so.0"), recursive=True)[0]
        shutil.copy(found, self.lab.directory)
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = self.lab.directory
        try:
            self.good("nowhere")
        finally:
            del os.environ["LD_LIBRARY_PATH"]
            if before is not None:
                os.environ["LD_LIBRARY_PATH"] = before


if __name__ == "__main__":
    lab.main()
