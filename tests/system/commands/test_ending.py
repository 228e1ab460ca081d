#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A member that is ending: its memory is gone, and it is no zombie yet. The kernel shows its files to
root alone then, as if it were somebody else's."""
import contextlib
import errno
import os
import socket
import threading

import case
from waiting import wait_until

# At its end the child closes the FIFO, and waits in the kernel for as long as that is locked.
FAMILY = """
import os, signal
opened, opens = os.pipe()
if os.fork() == 0:
    os.open("fifo", os.O_RDWR)
    os.write(opens, str(os.getpid()).encode())
    signal.pause()
os.close(opens)
with open("child", "wb") as file: file.write(os.read(opened, 16))
os.close(opened)
"""


@contextlib.contextmanager
def locked(fifo):
    """While data is moved from it into a socket that is full."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(4096))
        ours.setblocking(True)
        os.write(fifo, b"x")

        def move():
            with contextlib.suppress(ConnectionError):
                os.splice(fifo, ours.fileno(), 1)
        mover = threading.Thread(target=move)
        mover.start()
        wait_until("the move", lambda: case.state(mover.native_id) == "S")
        with theirs:
            yield
        mover.join()


def has_memory(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            return maps.read() != ""
    except (FileNotFoundError, ProcessLookupError):
        return False


class Ending(case.Case):
    def test_member_that_waits_at_its_end(self):
        os.mkfifo(self.path("fifo"))
        program = self.start(FAMILY)
        with open(self.path("child"), encoding="ascii") as file:
            child = int(file.read())
        fifo = os.open(self.path("fifo"), os.O_RDWR)
        with locked(fifo):
            case.kill(child)
            wait_until("its memory is gone", lambda: not has_memory(child))
            said = self.refuse(errno.EBUSY, program.pid)
            self.assertIn(f"process {child} is ending", said)
            self.assertEqual("D", case.state(child))
        os.close(fifo)
        self.assert_alive(program)
        self.save("-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")


if __name__ == "__main__":
    case.main(plain_user=True)
