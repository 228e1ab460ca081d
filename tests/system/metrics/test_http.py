#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_metrics: what it serves, to whom, and what hostile clients and files cannot do to it.

    test_http.py DIRECTORY-OF-COMMANDS
"""
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

import serving
import processes
from serving import NOBODY, program
from waiting import PATIENCE, wait_until

IDLE = 200


class Served(serving.Case):
    def test_page(self):
        self.write("cryo-412.prom", program(412))
        os.mkdir(self.path("other"))
        self.write("other/cryo-413.prom", program(413, 7))
        self.serve()
        answer = self.get()
        self.assertEqual((200, "text/plain; version=0.0.4; charset=utf-8"),
                         (answer.status, answer.headers["Content-Type"]))
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        for line in (f'cryo_checkpoints_total{{pid="412",command="solver",user="{user}"}} 3',
                     f'cryo_checkpoints_total{{pid="413",command="solver",user="{user}"}} 7',
                     "cryo_metrics_programs 2", f'cryo_metrics_directory_up{{directory="{self.place}"}} 1'):
            self.assertIn(f"\n{line}\n", answer.text)
        self.assertEqual(1, answer.text.count("# TYPE cryo_checkpoints_total counter\n"))
        self.assertRegex(answer.text, r'\ncryo_build_info{version="\d+\.\d+\.\d+"} 1\n')
        self.assertIn(self.value("cryo_node_events_up"), (0, 1)) # whether the module is there
        if promtool := shutil.which("promtool"):
            judged = subprocess.run([promtool, "check", "metrics"], input=answer.text, text=True, capture_output=True,
                                    check=False)
            self.assertEqual(0, judged.returncode, judged.stdout + judged.stderr)

    def test_program(self):
        """From its first checkpoint to its end."""
        self.serve()
        script = "import os, time\nwhile not os.path.exists('end'): time.sleep(0.005)\n"
        work = self.path("work")
        os.mkdir(work)
        running = subprocess.Popen( # pylint: disable=consider-using-with
            [os.path.join(self.BIN, "cr_run"), "--interval", "200ms", "--into", "run", "--metrics", self.place,
             sys.executable, "-S", "-c", script], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.errors)
        self.addCleanup(processes.kill_family, os.getpid()) # the keeper, too, which becomes ours
        wait_until("two checkpoints", lambda: (self.value("cryo_checkpoints_total") or 0) >= 2)
        self.assertGreater(self.value("cryo_written_bytes_total"), self.value("cryo_image_bytes"))
        self.assertGreater(self.value("cryo_stopped_seconds_total"), 0)
        self.assertLess(abs(time.time() - self.value("cryo_metrics_file_timestamp_seconds")), PATIENCE)
        with open(os.path.join(work, "end"), "xb"):
            pass
        self.assertEqual(0, running.wait(PATIENCE))
        wait_until("the end of its lines", lambda: self.value("cryo_checkpoints_total") is None)

    def test_commands(self):
        """What is saved and brought back by hand."""
        self.serve()
        work = self.path("work")
        os.mkdir(work)
        variables = {**os.environ, "CRYO_METRICS": self.place}

        def run(name, *words):
            return subprocess.run([os.path.join(self.BIN, name), *words], cwd=work, env=variables, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)

        def value(name, command):
            user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
            found = re.search(rf'(?m)^cryo_command_{name}{{command="{command}",user="{user}"}} (.*)$', self.get().text)
            return found and float(found[1])

        script = "import os, time\nopen('begun', 'w').close()\n" \
                 "while not os.path.exists('end'): time.sleep(0.005)\n"
        running = subprocess.Popen( # pylint: disable=consider-using-with
            [os.path.join(self.BIN, "cr_run"), sys.executable, "-S", "-c", script], cwd=work, env=variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(processes.kill_family, os.getpid())
        wait_until("its begin", lambda: os.path.exists(os.path.join(work, "begun")))
        rehearsed = run("cr_checkpoint", "--rehearse", str(running.pid))
        self.assertEqual(0, rehearsed.returncode, rehearsed.stderr)
        self.assertEqual(["work"], os.listdir(self.place))
        saved = run("cr_checkpoint", "--kill", "-f", "image", str(running.pid))
        self.assertEqual(0, saved.returncode, saved.stderr)
        running.wait(PATIENCE)
        self.assertNotEqual(0, run("cr_checkpoint", "-f", "image", str(running.pid)).returncode)
        with open(os.path.join(work, "end"), "xb"):
            pass
        back = run("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(0, back.returncode, back.stderr)
        self.assertNotEqual(0, run("cr_restart", "missing").returncode)
        wait_until("the counts", lambda: value("runs_total", "cr_restart") == 1)
        self.assertEqual(1, value("runs_total", "cr_checkpoint"))
        self.assertEqual(1, value("failures_total", "cr_checkpoint"))
        self.assertEqual(1, value("failures_total", "cr_restart"))
        self.assertGreater(value("stopped_seconds_total", "cr_checkpoint"), 0)
        self.assertEqual(os.stat(os.path.join(work, "image")).st_size, value("written_bytes_total", "cr_checkpoint"))
        self.assertLess(abs(time.time() - value("last_timestamp_seconds", "cr_restart")), PATIENCE)
        os.chmod(self.place, 0o777)
        refused = run("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(0, refused.returncode, refused.stderr)
        self.assertIn("cr_restart: CRYO_METRICS: ", refused.stderr)

    def test_other_pages(self):
        self.serve()
        self.assertEqual((200, "healthy\n"), self.get("/-/healthy")[:2])
        self.assertEqual(200, self.get("/metrics?name=value").status)
        for path in "/", "/metrics/", "/metrics/below", "//metrics", "/../metrics", "/etc/passwd", "*":
            self.assertEqual(404, self.get(path).status, path)

    def test_methods(self):
        self.serve()
        head = self.ask("HEAD", "/metrics")
        self.assertEqual((200, ""), head[:2])
        self.assertGreater(int(head.headers["Content-Length"]), 0)
        for method in "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "ANYTHING":
            answer = self.ask(method, "/metrics")
            self.assertEqual((405, "GET, HEAD"), (answer.status, answer.headers["Allow"]), method)
        self.assertEqual(405, self.ask("POST", "/metrics", body=b"cryo_restarts_total 1\n").status)

    def test_one_request_a_connection(self):
        self.serve()
        self.assertEqual("close", self.get().headers["Connection"])

    def test_new_file_is_served(self):
        self.serve()
        self.assertIsNone(self.value("cryo_checkpoints_total"))
        self.write("cryo-1.prom", program(1))
        wait_until("it", lambda: self.value("cryo_checkpoints_total") == 3)
        os.unlink(self.path("cryo-1.prom"))
        wait_until("its end", lambda: self.value("cryo_checkpoints_total") is None)


class Hostile(serving.Case):
    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.addCleanup(client.close)
        return client

    def assert_answers(self):
        self.assertEqual(200, self.get().status)

    def test_bytes_that_are_no_request(self):
        self.serve()
        for sent in (b"\n\n\n\n", b"nonsense\r\n\r\n", b"\0" * 1000, b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                     b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\nHost: x\r\n\r\n",
                     b"GET /metrics HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
            client = self.connect()
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            got = b""
            try:
                while part := client.recv(1 << 16):
                    got += part
            except ConnectionResetError:
                pass
            self.assertNotIn(b"cryo_build_info", got, sent)
            self.assert_answers()

    def test_long_requests(self):
        self.serve()
        self.assertEqual(414, self.get("/" + "a" * 40_000).status)
        self.assertEqual(431, self.ask("GET", "/metrics", headers={"X": "y" * 40_000}).status)
        self.assert_answers()

    def test_slow_client(self):
        """Whose bytes never end has an end all the same, and so has one that does not read."""
        self.serve()
        slow = self.connect()
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        silent = self.connect()

        def is_closed():
            try:
                slow.sendall(b"X: y\r\n")
            except OSError as problem:
                self.assertIn(problem.errno, (errno.EPIPE, errno.ECONNRESET))
                return True
            self.assert_answers() # meanwhile
            return False

        wait_until("the end of the connection", is_closed)
        self.assertEqual(b"", silent.recv(1))

    def test_many_clients(self):
        """The oldest have to go, so that others are served."""
        self.serve()
        clients = [self.connect() for _ in range(IDLE)]
        self.assert_answers()
        self.assertEqual(b"", clients[0].recv(1))
        descriptors = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        self.assertLess(descriptors, 100)

    def test_files(self):
        self.write("cryo-1.prom", program(1))
        os.symlink("/etc/passwd", self.path("cryo-2.prom"))
        os.mkfifo(self.path("cryo-3.prom"))
        self.write("cryo-4.prom", program(5))
        self.write("cryo-6.prom", "x" * (1 << 20))
        self.write("cryo-7.prom", program(7).replace("solver", 'x",user="root'))
        self.write("cryo-8.prom", program(8).replace("cryo_checkpoints_total", "node_boots_total"))
        self.write("cryo-9.prom", program(9), 0o666)
        os.mkdir(self.path("cryo-10.prom"))
        os.symlink("/proc", self.path("link"))
        self.serve()
        text = self.get().text
        self.assertEqual(1, text.count("\ncryo_checkpoints_total{"))
        for unwanted in "root:", "node_boots", "xxx", 'pid="5"', 'user="root",user':
            self.assertNotIn(unwanted, text)
        refused = {reason: int(count) for reason, count in
                   re.findall(r'(?m)^cryo_metrics_refused{user=".*",reason="(.*)"} (\d+)$', text)}
        self.assertEqual({"form": 3, "kind": refused["kind"], "mode": 1, "size": 1},
                         {reason: count for reason, count in refused.items() if reason != "unreadable"})
        self.assertEqual(8, sum(refused.values()), refused)
        said = self.said()
        self.assertIn("cryo-9.prom: is not used: other users may write to it; protect it with chmod go-w", said)
        self.assert_answers()
        self.assertEqual(said, self.said()) # once

    def test_sparse_file_that_is_endless(self):
        self.write("cryo-1.prom", "")
        os.truncate(self.path("cryo-1.prom"), 1 << 40)
        self.serve()
        self.assertIn('reason="size"} 1\n', self.get().text)

    def test_clients_that_do_not_read(self):
        """They share one copy of the page."""
        os.mkdir(self.path("many"))
        for pid in range(1, 1001):
            self.write(f"many/cryo-{pid}.prom", program(pid))
        self.serve()
        self.assertEqual(1000, self.value("cryo_metrics_programs"))

        def memory():
            with open(f"/proc/{self.server.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        size = len(self.get().text)
        before = memory()
        for _ in range(50):
            client = self.connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assert_answers()
        self.assertLess(memory() - before, 20 * size)

    @unittest.skipIf(os.geteuid() != 0, "it takes root to have a file system of one's own")
    def test_other_file_system(self):
        os.mkdir(self.path("mounted"))
        mounting = 'mount -t tmpfs -o mode=755 none "$0/mounted" && cp "$0/cryo-1.prom" "$0/mounted/cryo-2.prom" && ' \
                   'exec "$@"'
        self.write("cryo-1.prom", program(1))
        self.server_words = ["unshare", "-m", "sh", "-c", mounting, self.place]
        self.serve()
        text = self.get().text
        self.assertEqual(1, text.count("\ncryo_checkpoints_total{"))
        self.assertIn('reason="unreadable"} 1\n', text)

    @unittest.skipIf(os.geteuid() != 0, "only root makes files of other users")
    def test_files_of_others(self):
        os.mkdir(self.path("theirs"))
        self.write("theirs/cryo-1.prom", program(1))
        self.write("theirs/cryo-2.prom", program(2))
        self.write("cryo-3.prom", program(3))
        for name in "theirs", "theirs/cryo-1.prom", "cryo-3.prom":
            os.chown(self.path(name), NOBODY, NOBODY)
        self.serve()
        text = self.get().text
        self.assertIn('\ncryo_checkpoints_total{pid="1",command="solver",user="nobody"} 3\n', text)
        self.assertEqual(1, text.count("\ncryo_checkpoints_total{"))
        for user in "nobody", "root":
            self.assertIn(f'\ncryo_metrics_refused{{user="{user}",reason="owner"}} 1\n', text)


class Started(serving.Case):
    def refused(self, wanted, *words):
        done = subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=PATIENCE)
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, wanted)
        self.assertEqual("", done.stdout)
        return done.returncode

    def test_port_that_is_taken(self):
        self.serve()
        code = self.refused(r"^cr_metrics: --listen 127\.0\.0\.1:\d+: Address already in use; another program .*"
                            r"name another port", "--listen", f"127.0.0.1:{self.port}", "-d", self.place)
        self.assertEqual(errno.EADDRINUSE, code)

    def test_addresses(self):
        for address in ("9464", "127.0.0.1", "127.0.0.1:", ":9464", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:x",
                        "::1:9464", "[]:9464", ""):
            self.refused("--listen: wants an address and a port", "--listen", address, "-d", self.place)
        self.refused("cannot assign|Cannot assign", "--listen", "192.0.2.1:9464", "-d", self.place)
        self.assertEqual("127.0.0.1", self.serve(listen="127.0.0.1:0"))

    def test_directories(self):
        self.refused("missing: No such file", "-l", "127.0.0.1:0", "-d", self.path("missing"))
        os.symlink(self.place, self.path("link"))
        self.refused("symbolic link", "-l", "127.0.0.1:0", "-d", self.path("link"))
        self.write("file", "")
        self.refused("Not a directory", "-l", "127.0.0.1:0", "-d", self.path("file"))
        os.chmod(self.place, 0o777)
        self.refused(r"other users may rename what is in it \(mode 0777\)", "-l", "127.0.0.1:0", "-d", self.place)

    def test_every_address_is_said(self):
        self.serve(listen="0.0.0.0:0")
        self.assertIn("is reached by other machines, without a password or encryption", self.said())

    def test_loopback_is_not_said(self):
        self.serve()
        self.assertNotIn("other machines", self.said())

    def test_end(self):
        """At once, whatever clients do."""
        self.serve()
        with socket.create_connection(("127.0.0.1", self.port)):
            self.assert_alive()
            self.assertEqual(0, self.end())

    def assert_alive(self):
        self.assertEqual(200, self.get("/-/healthy").status)

    @unittest.skipIf(os.geteuid() != 0, "root has privileges to give up")
    def test_privileges_are_given_up(self):
        self.serve()
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            status = file.read()
        for name in "CapPrm", "CapEff", "CapAmb":
            self.assertRegex(status, rf"(?m)^{name}:\s0+$")
        self.assertRegex(status, r"(?m)^NoNewPrivs:\s1$")

    @unittest.skipIf(os.geteuid() != 0, "root is one who can be another user")
    def test_plain_user(self):
        os.mkdir(self.path("theirs"))
        self.write("theirs/cryo-1.prom", program(1))
        for name in "theirs", "theirs/cryo-1.prom":
            os.chown(self.path(name), NOBODY, NOBODY)
        self.serve(user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        self.assertIn('user="nobody"} 3\n', self.get().text)


if __name__ == "__main__":
    processes.adopt_orphans()
    serving.main()
