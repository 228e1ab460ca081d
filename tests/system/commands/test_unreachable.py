#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a plain user's program has open and could not open again: told by its reason."""
import errno
import os

import case


class Unreachable(case.Case):
    def test_directory_that_may_not_be_entered(self):
        closed = os.path.join(self.directory, "closed")
        os.mkdir(closed)
        program = self.start(f"kept = open({closed + '/file'!r}, 'w')")
        os.chmod(closed, 0)
        try:
            said = self.refuse(errno.ENOTSUP, program.pid)
        finally:
            os.chmod(closed, 0o700)
        self.assertIn("a directory that may not be entered", said)
        self.assertIn(closed + "/file", said)
        self.assertEqual(["closed"], self.files())
        self.assert_alive(program)
        self.save("-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")


if __name__ == "__main__":
    case.main(plain_user=True)
