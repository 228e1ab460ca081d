#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the commands say: -v -q --json --kmsg-..., a bar on a terminal; and the limit of time."""
import ctypes
import errno
import json
import os
import platform
import pty
import socket
import struct
import subprocess
import time
import unittest

import case
from case import processes

BIG = "memory = bytearray(b'x' * (24 << 20))"

# Says whether the files have the same number.
MOUNTED_OVER = """
import ctypes, os, socket, stat
held = socket.socket(socket.AF_UNIX)
held.bind("place/old")
number = os.stat("place/old").st_ino
assert ctypes.CDLL(None).mount(b"none", b"place", b"tmpfs", 0, None) == 0
os.mknod("place/{name}", stat.S_IFSOCK | 0o600)
print(os.stat("place/{name}").st_ino == number, flush=True)
"""


def kernel_tells_of_tcp():
    """A dump (tcp_diag) of no connections ends without an error."""
    request = struct.pack("=IHHIIBBBBI48x", 72, 20, 0x301, 1, 0, socket.AF_INET, 6, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:
        netlink.send(request)
        return struct.unpack_from("=IH", netlink.recv(65536))[1] != 2  # NLMSG_ERROR


def forbid_kcmp():
    """For preexec_fn, as in some containers; on x86-64."""
    kcmp, allowed, refused = 312, 0x7fff0000, 0x50000 | errno.EPERM
    rules = b"".join(struct.pack("=HBBI", *rule) for rule in (
        (0x20, 0, 0, 0), (0x15, 0, 1, kcmp), (0x06, 0, 0, refused), (0x06, 0, 0, allowed)))
    room = ctypes.create_string_buffer(rules, len(rules))
    program = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(room)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.addressof(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


class Messages(case.Case):
    def test_json(self):
        program = self.start()
        done = self.save("--json", "-f", "image", program.pid)
        said = json.loads(done.stdout)
        self.assertEqual(("image", 1, 1), (said["image"], said["processes"], said["threads"]))
        self.assertEqual(os.path.getsize(self.path("image")), said["bytes"])
        self.assertLessEqual(said["stopped_ns"], said["total_ns"])
        self.assertEqual("committed", said["phases"][-1]["phase"])
        self.assertEqual("", done.stderr)
        done = self.checkpoint("--json", "--noclobber", "-f", "image", program.pid)
        self.assertEqual(errno.EEXIST, done.returncode)
        said = json.loads(done.stdout)["error"]
        self.assertEqual(errno.EEXIST, said["code"])
        self.assertIn("exists", said["text"])
        self.end(program)
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("--json", "image", stderr=said)
        self.assert_alive(restarted)
        case.wait_until("what it says", lambda: os.path.getsize(self.path("said")))
        with open(self.path("said"), encoding="utf-8") as file:
            said = json.loads(file.read())
        self.assertEqual("image", said["image"])
        with open(f"/proc/{said['pid']}/status", encoding="ascii") as file:
            self.assertIn(f"PPid:\t{restarted.pid}\n", file.read())

    def test_reason_as_json(self):
        outside = self.spawn("sleep", "1000")
        done = self.checkpoint("--json", "-f", "image", outside.pid)
        said = json.loads(done.stdout)["error"]
        self.assertEqual((done.returncode, "no-agent"), (said["code"] & 0xff, said["reason"]))
        self.assertNotIn("remark", said)

    def test_several_refused(self):
        """Each begins a line, and what is in the way follows."""
        program = self.start(f"""
import os, time
held = os.pidfd_open({os.getpid()})
told, tell = os.pipe()
if os.fork() == 0:
    held_too = os.pidfd_open({os.getpid()})
    os.write(tell, b"x")
    while True: time.sleep(100)
os.read(told, 1)""")
        child = processes.children(program.pid)[0]
        said = self.refuse(errno.ENOTSUP, "--retry=0", "-f", "image", program.pid)
        for pid in (program.pid, child):
            self.assertRegex(said, rf"(?m)^(cr_checkpoint:| ) .*process {pid} cannot be saved:$")
        self.assertNotIn("\\n", said)

    def test_other_end_in_the_session(self):
        program = self.start("""
import os, socket, time
told, tell = os.pipe()
a, b = socket.socketpair()
listener = socket.create_server(("127.0.0.1", 0))
c, d = socket.create_connection(listener.getsockname()), listener.accept()[0]
listener.close()
if os.fork() == 0:
    a.close(), c.close()
    os.write(tell, b"x")
    while True: time.sleep(100)
b.close(), d.close()
os.read(told, 1)""")
        child = processes.children(program.pid)[0]
        said = self.refuse(errno.ENOTSUP, "--retry=0", "-f", "image", child)
        offer = (f"process {program.pid} has the other end, which is in the same session: "
                 f"cr_checkpoint --sid {program.pid} saves both")
        self.assertRegex(said, f"UNIX stream.*{offer}")
        if kernel_tells_of_tcp():
            self.assertRegex(said, f"TCP.*{offer}")
        self.save("--sid", "-f", "image", program.pid)

    def test_renamed_socket_among_many_files(self):
        os.mkdir(self.path("many"))
        program = self.start("""
import os, socket
def fill(name):
    for i in range(15000): os.close(os.open(f"many/{name}{i}", os.O_CREAT))
one = socket.socket(socket.AF_UNIX)
fill("before")
one.bind("many/old"), os.rename("many/old", "many/new")
fill("after")""")
        self.save("-f", "image", program.pid)

    def test_renamed_socket_that_cannot_be_searched_for(self):
        if os.geteuid() == 0:
            self.skipTest("root may read every directory")
        os.mkdir(self.path("closed"))
        program = self.start("""
import os, socket
one = socket.socket(socket.AF_UNIX)
one.bind("closed/old"), os.rename("closed/old", "closed/new")
os.chmod("closed", 0o311)""")
        said = self.checkpoint("--retry=0", "-f", "image", program.pid).stderr
        os.chmod(self.path("closed"), 0o700)
        self.assertRegex(said, "closed/old.* cannot be searched .*Permission denied")

    def test_socket_file_that_is_mounted_over(self):
        """What lies over it has a socket's file of the same number, with its name or another."""
        if os.geteuid() != 0:
            self.skipTest("mounts")
        os.mkdir(self.path("place"))
        for name in "old", "new":
            program = self.spawn(
                "unshare", "--mount", "sh", "-c", 'mount -t tmpfs none place && exec "$@"', "sh",
                case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                case.ECHO.format(setup=MOUNTED_OVER.format(name=name), each="pass"))
            if program.stdout.readline() == "False\n":
                self.skipTest("a file system does not number its files by itself")
            self.assertEqual("ready\n", program.stdout.readline())
            done = subprocess.run(
                ["nsenter", "--mount", "--target", str(program.pid),
                 case.command("cr_checkpoint"), "--retry=0", "-f", self.path("image"),
                 str(program.pid)],
                cwd=self.directory, capture_output=True, text=True, check=False,
                timeout=case.PATIENCE)
            self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
            self.assertIn("place/old, whose name does not lead to it any more", done.stderr)
            self.end(program)

    def test_sockets_that_have_exchanged_their_names(self):
        program = self.start("""
import os, socket
one, two = (socket.socket(socket.AF_UNIX) for _ in range(2))
one.bind("a"), two.bind("b")
os.rename("a", "c"), os.rename("b", "a"), os.rename("c", "b")
one.listen()""", """
    client = socket.socket(socket.AF_UNIX)
    client.connect("b"), client.close(), one.accept()[0].close()
    print(one.getsockname(), two.getsockname(), *sorted(os.listdir()), flush=True)
""")
        self.save("-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual("a b a b image\n", restarted.stdout.readline())

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of system calls")
    def test_asynchronous_io_where_nobody_tells_who_shares_memory(self):
        program = self.start("""
import ctypes
context = ctypes.c_ulong()
assert ctypes.CDLL(None).syscall(206, 8, ctypes.byref(context)) == 0""")
        done = self.checkpoint("--retry=0", "-f", "image", program.pid, preexec_fn=forbid_kcmp)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("which processes share memory: kcmp(2)", done.stderr)
        self.save("-f", "image", program.pid)

    def test_owner_of_signals_with_a_new_id(self):
        """A member that has the file receives its signals again, whoever else has it."""
        program = self.start("""
import fcntl, os, signal, time
signal.signal(signal.SIGIO, lambda *_: print("signal", flush=True))
told, tell = os.pipe()
fcntl.fcntl(told, fcntl.F_SETOWN, os.getpid())
if os.fork() == 0:
    os.write(tell, b"x")
    while True: time.sleep(100)
os.read(told, 1)
fcntl.fcntl(told, fcntl.F_SETFL, os.O_ASYNC)""", "os.write(tell, b'x')")
        self.save("-f", "image", program.pid)
        self.end(program)
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said)
        self.assert_alive(restarted)
        self.assertEqual("signal\n", restarted.stdout.readline())
        with open(self.path("said"), encoding="utf-8") as said:
            self.assertNotIn("to nobody", said.read())

    def test_verbose_and_quiet(self):
        program = self.start()
        said = self.save("-v", "-f", "image", program.pid).stderr
        for phase in ("stopped", "described", "frozen", "memory written", "committed"):
            self.assertRegex(said, rf"cr_checkpoint: {phase}.* \([\d.]+ .s, [\d.]+ m?s since")
        self.assertIn("backend ", said)
        self.assertRegex(said, r"cr_checkpoint: image: 1 thread, .* stood still for [\d.]+ ms")
        for options in ((), ("-q",)):
            done = self.save(*options, "-f", "image", program.pid)
            self.assertEqual(("", ""), (done.stdout, done.stderr), options)
        self.assertNotEqual("", self.refuse(errno.EEXIST, "-q", "--noclobber", "-f", "image",
                                            program.pid))
        self.end(program)
        restarted = self.restart("-v", "image", stderr=-1)
        self.assert_alive(restarted)
        self.end_of(restarted)
        said = restarted.stderr.read()
        for phase in ("image verified", "planned", "memory sent"):
            self.assertRegex(said, rf"cr_restart: {phase}.* \([\d.]+ .s, ")

    def end_of(self, restarted):
        restarted.stdin.close()
        self.assertEqual(0, restarted.wait(case.PATIENCE))

    def test_one_thread(self):
        program = self.start()
        self.assertIn(": 1 thread, ", self.save("-v", "-f", "image", program.pid).stderr)
        self.end(program)
        done = self.run_command("cr_restart", "--rehearse", "image")
        self.assertIn(": 1 process, ", done.stdout, done.stderr)

    def test_messages_about_a_request(self):
        program = self.start("import socket\n"
                             "pair = [socket.create_server(('127.0.0.1', 0))]\n"
                             "pair.append(socket.create_connection(pair[0].getsockname()))\n"
                             "pair[1].send(b'unread')")
        once = ("--retry=0", "-f", "image", program.pid)
        whole = self.refuse(errno.ENOTSUP, *once)
        self.assertIn("\n  descriptor", whole)
        self.assertEqual(whole, self.refuse(errno.ENOTSUP, "--kmsg-error", *once))
        first = self.refuse(errno.ENOTSUP, "--kmsg-none", *once)
        self.assertEqual(whole.split("\n", maxsplit=1)[0] + "\n", first)
        self.assertIn("backend", self.refuse(errno.ENOTSUP, "--kmsg-warning", *once))
        program = self.start()
        self.assertEqual("", self.save(program.pid).stderr)
        self.assertIn("backend", self.save("--kmsg-warning", program.pid).stderr)
        self.assertEqual("", self.save("--kmsg-warning", "--kmsg-none", program.pid).stderr)

    def test_program_that_ends(self):
        """While it is saved: which one is said, whatever found out."""
        for snapshot in ("stop", "fork"):
            for phase in ("stopped", "described"):
                with self.subTest(snapshot=snapshot, phase=phase):
                    said = self.said_of_ended(self.start(BIG), phase, f"--snapshot={snapshot}",
                                              "-f", "image")
                    self.assertNotIn("image", os.listdir(self.directory), said)

    def test_time(self):
        """A reader that does not read: given up, and the program goes on."""
        program = self.start(BIG)
        read, write = os.pipe()
        begun = time.monotonic()
        done = self.checkpoint("-t", "1", "-F", write, program.pid, pass_fds=[write])
        self.assertEqual(errno.ETIME, done.returncode, done.stderr)
        self.assertGreaterEqual(time.monotonic() - begun, 1)
        self.assertIn("--time", done.stderr)
        os.close(write)
        os.close(read)
        self.assert_alive(program)
        self.save("-t", "60", "-f", "image", program.pid)
        self.refuse(255, "-t", "0", program.pid)

    def test_standard_output_that_is_full(self):
        """What could not be said is an error with a message, and no abort."""
        for name in ("cr_checkpoint", "cr_restart", "cr_run", "cr_inspect", "cr_delta", "cr_status",
                     "cr_top", "cr_metrics", "cr_server", "ompi-checkpoint", "ompi-restart", "opal-checkpoint",
                     "opal-restart"):
            with self.subTest(name), open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([case.command(name), "--help"], stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False,
                                      timeout=case.PATIENCE)
                self.assertGreater(done.returncode, 0, done.stderr)
                self.assertIn("standard output: cannot be written", done.stderr)

    def test_bar(self):
        """On a terminal, for what takes more than a second: here until its reader goes on."""
        program = self.start(BIG)
        read, write = os.pipe()
        terminal, slave = pty.openpty()
        checkpoint = self.spawn(case.command("cr_checkpoint"), "-F", write, program.pid,
                                pass_fds=[write], stderr=slave)
        os.close(write)
        os.close(slave)
        begun = None
        # Slow for a little longer than a second, then as fast as it can.
        while os.read(read, 1 << 16):
            begun = begun or time.monotonic()
            if time.monotonic() - begun < 1.5:
                time.sleep(0.02)
        self.assertEqual(0, checkpoint.wait(case.PATIENCE))
        os.close(read)
        said = os.read(terminal, 1 << 16).decode()
        os.close(terminal)
        self.assertRegex(said, r"descriptor \d+: \[#* *\] \d+ %, [\d.]+ MiB of [\d.]+ MiB, "
                               r"[\d.]+ .iB/s, .* left")
        self.assertTrue(said.rstrip().endswith("\033[K"), "it is gone at the end")


if __name__ == "__main__":
    case.main()
