#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program has from whoever started its cr_run: connections, pidfds, nothing.

    test_inherited.py --bin build/release/bin [TestCase.test_name]
"""
import os
import socket

import case


class Inherited(case.Case):
    def inherit(self, *sockets):
        """The program has them, and says what it reads from each."""
        numbers = [one.fileno() for one in sockets]
        for number in numbers:
            os.set_inheritable(number, True)
        self.start("import socket",
                   f"for fd in {numbers}:\n"
                   "    try: print(os.read(fd, 1), flush=True)\n"
                   "    except OSError as error: print(error.errno, flush=True)", pass_fds=numbers)
        return numbers

    def test_inherited_sockets(self):
        """Connections of whoever started the program are no reason to refuse it."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = [*socket.socketpair(), socket.create_connection(server.getsockname())]
            numbers = self.inherit(ours[0], ours[2])
            said = self.read(self.log.name)
            self.assertIn(f"inherited descriptors {', '.join(map(str, numbers))} (", said)
            saved = self.save()
        for number in numbers:
            self.assertIn(f"descriptor {number}: a socket, ", saved)
        self.assertEqual(2, saved.count("from whoever started cr_run, comes back as closed"))
        for one in ours:
            one.close()
        self.back()
        self.assertEqual(["b''", "107"], self.read(self.log.name).splitlines()[-2:])

    def test_inherited_socket_that_the_program_connects(self):
        """The connection is the program's own."""
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
            port = server.getsockname()[1]
            ours.set_inheritable(True)
            self.start("import socket\n"
                       f"s = socket.socket(fileno={ours.fileno()}); s.connect(('127.0.0.1', {port}))",
                       pass_fds=[ours.fileno()])
            self.assertIn(f"127.0.0.1:{port}", self.refused("--retry=0"))

    def test_inherited_before_the_last_boot(self):
        """Inodes of another boot name other sockets."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            ours.set_inheritable(True)
            inode = os.fstat(ours.fileno()).st_ino
            boot = self.read("/proc/sys/kernel/random/boot_id").rstrip()
            other = boot.translate(str.maketrans("0123456789abcdef", "fedcba9876543210"))
            self.start(words=["env", f"CRYO_INHERITED={other}:{inode}"], pass_fds=[ours.fileno()])
            self.assertIn(f"127.0.0.1:{server.getsockname()[1]}", self.refused("--retry=0"))
            ours.close()

    def test_connection_that_is_passed_to_another_cr_run(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.start(f"import socket, subprocess\ns = socket.create_connection(('127.0.0.1', {port}))\n"
                       "s.set_inheritable(True)\n"
                       f"c = subprocess.Popen([{self.command('cr_run')!r}, 'sh', '-c', "
                       "'echo; exec sleep 1000'], close_fds=False, stdout=subprocess.PIPE)\n"
                       "c.stdout.readline()")
            self.assertIn(f"127.0.0.1:{port}", self.refused())

    def test_inherited_in_the_way(self):
        pidfd = os.pidfd_open(os.getpid())
        self.start(pass_fds=[pidfd])
        said = self.read(self.log.name)
        self.assertIn(f"cr_run: descriptor {pidfd} (anon_inode:[pidfd]) is inherited", said)
        self.assertIn("pidfd", self.refused())
        os.close(pidfd)

    def test_nothing_inherited(self):
        self.start()
        self.assertEqual("", self.read(self.log.name))


if __name__ == "__main__":
    case.main()
