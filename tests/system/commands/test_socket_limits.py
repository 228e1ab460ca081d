#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A call on a socket with a time limit, when a checkpoint has ended it: what is left of the time is
waited for elsewhere, so that it does not begin anew, and the call is made again."""
import os

import case

RECVFROM, PPOLL = "45", "271"
SETUP = """
import socket, struct, threading
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 86400, 0))
def answer():
    print("got", one.recv(1).decode(), flush=True)
threading.Thread(target=answer, daemon=True).start()
"""


def calls(pid):
    """In which system calls the threads sleep."""
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as text:
            found.add(text.read().split()[0])
    return found


class SocketLimits(case.Case):
    def await_call(self, pid, number):
        case.wait_until(f"a thread in the call {number}", lambda: number in calls(pid))

    def test_rest_of_the_time(self):
        program = self.start(SETUP, each="if line.strip() == 'send': other.send(b'x')")
        self.await_call(program.pid, RECVFROM)
        self.save("-f", "first", program.pid)
        self.await_call(program.pid, PPOLL)
        self.save("--kill", "-f", "second", program.pid)
        for image in ("first", "second"):
            restarted = self.restart("-q", image)
            self.assert_alive(restarted)
            with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children", encoding="ascii") as text:
                pid = int(text.read().split()[0])
            self.await_call(pid, PPOLL)
            self.assert_alive(restarted, "send")
            self.assertEqual("got x\n", restarted.stdout.readline())
            self.end(restarted)


if __name__ == "__main__":
    case.main()
