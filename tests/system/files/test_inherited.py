#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program has from whoever started its cr_run: connections, pidfds, nothing.

    test_inherited.py --bin build/release/bin [TestCase.test_name]
"""
import os
import socket
import subprocess

import case
import filters  # of ../programs, which `case` has made known


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

    def test_inherited_fifos(self):
        """One stands for standard input at the restart; the other is no reason to refuse."""
        ours = []
        for name in ("first", "second"):
            os.mkfifo(self.path(name))
            both = os.open(self.path(name), os.O_RDWR)
            ours += [both, os.open(self.path(name), os.O_RDONLY)]
        numbers = ours[1::2]
        self.start("", f"for fd in {numbers}: print(os.read(fd, 1), flush=True)", pass_fds=numbers)
        saved = self.save()
        self.assertRegex(saved, "a pipe to a process outside .*comes back as closed")
        for fd in ours:
            os.close(fd)
        self.back()
        self.assertEqual(["b''", "b''"], self.read(self.log.name).splitlines()[-2:])

    def test_inherited_fifo_that_the_program_opens_again(self):
        """What it has opened is its own, and so it is in the restored program."""
        ends, inherited = [], []
        for name in ("first", "second"):
            os.mkfifo(self.path(name))
            ends.append(os.open(self.path(name), os.O_RDWR))
            inherited.append(os.open(self.path(name), os.O_RDONLY))
        self.start("own = [os.open(name, os.O_RDONLY) for name in ('first', 'second')]",
                   pass_fds=inherited)
        self.assertIn("--pipes=close", self.refused("--retry=0"))
        self.end()
        os.unlink(self.path("ready"))
        self.start("", f"for name, number in zip(('first', 'second'), {inherited}):\n"
                   "    os.close(number)\n"
                   "    own = os.open(name, os.O_RDONLY)\n"
                   "    if own != number: os.dup2(own, number); os.close(own)\n"
                   "open('again', 'w').close()\n"
                   "while not os.path.exists('end'): time.sleep(0.01)", pass_fds=inherited)
        self.save()
        with subprocess.Popen([self.command("cr_restart"), "-q", "--no-restore-pid", self.image],
                              stdin=subprocess.DEVNULL, start_new_session=True) as restarted:
            with open(self.path("go"), "w", encoding="ascii"):
                case.wait_until("the opens", lambda: os.path.exists(self.path("again")))
            with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children",
                      encoding="ascii") as children:
                pid = children.read().split()[0]
            done = subprocess.run([self.command("cr_checkpoint"), "--retry=0", "-f",
                                   self.path("other"), pid], capture_output=True, text=True,
                                  check=False)
            with open(self.path("end"), "w", encoding="ascii"):
                self.assertEqual(0, restarted.wait(case.PATIENCE))
        self.assertNotEqual(0, done.returncode)
        self.assertIn("--pipes=close", done.stderr)
        for end in (*ends, *inherited):
            os.close(end)

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

    def test_standard_stream_in_the_way(self):
        ours = socket.socketpair()
        for options, says in (((), True), (("--quiet",), False)):
            done = subprocess.run([self.command("cr_run"), *options, "true"], stdin=ours[0],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stdout))
            self.assertEqual(says, done.stderr.startswith(
                "cr_run: standard input: a connection (socket)"), done.stderr)
            self.assertEqual(says, bool(done.stderr))
        for one in ours:
            one.close()

    def test_ranks_of_a_node(self):
        """What is in the way of all, the first of them says."""
        ours = socket.socketpair()
        for rank in "0", "1":
            environment = {**os.environ, "OMPI_COMM_WORLD_RANK": rank,
                           "OMPI_COMM_WORLD_LOCAL_RANK": rank}
            done = subprocess.run([self.command("cr_run"), "true"], stdin=ours[0], text=True,
                                  capture_output=True, check=False, env=environment)
            self.assertEqual(0, done.returncode)
            self.assertEqual(rank == "0", "standard input" in done.stderr, done.stderr)
        for one in ours:
            one.close()

    def test_filter_in_the_way(self):
        for rules, says in (({}, ""), ({filters.KCMP: filters.KILL},
                                       "cr_run: true cannot be saved: the seccomp filter here")):
            done = subprocess.run([self.command("cr_run"), "true"], capture_output=True, text=True,
                                  check=False, preexec_fn=filters.put_on(rules))
            self.assertEqual(0, done.returncode)
            self.assertTrue(done.stderr.startswith(says) and (says or not done.stderr), done.stderr)

    def test_nothing_inherited(self):
        self.start()
        self.assertEqual("", self.read(self.log.name))


if __name__ == "__main__":
    case.main()
