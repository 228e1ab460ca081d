# SPDX-License-Identifier: Apache-2.0
"""cr_metrics, with a directory of its own, and what it answers.

    class Mine(serving.Case):
        def test_it(self):
            self.write("cryo-412.prom", serving.program(412))
            self.serve()
            print(self.get("/metrics").text)
"""
import collections
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from waiting import PATIENCE  # noqa: E402  pylint: disable=wrong-import-position

NOBODY = 65534
Answer = collections.namedtuple("Answer", "status text headers")


def program(pid, checkpoints=3, complete_at=1800000000):
    """The file of a keeper."""
    labels = f'{{pid="{pid}",command="solver"}}'
    return (f"# HELP cryo_checkpoints_total x\n# TYPE cryo_checkpoints_total counter\n"
            f"cryo_checkpoints_total{labels} {checkpoints}\n"
            f"cryo_last_checkpoint_timestamp_seconds{labels} {complete_at}.000\n")


class Case(unittest.TestCase):
    BIN = "" # where the commands are

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="cryo-metrics.")
        self.addCleanup(shutil.rmtree, self.place)
        os.chmod(self.place, 0o755)
        self.errors = tempfile.TemporaryFile()
        self.addCleanup(self.errors.close)
        self.server = None
        self.server_words = [] # in front of it
        self.port = None

    def path(self, name):
        return os.path.join(self.place, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def command(self, *words):
        return [os.path.join(self.BIN, "cr_metrics"), *words]

    def serve(self, *words, listen="127.0.0.1:0", **how):
        self.server = subprocess.Popen( # pylint: disable=consider-using-with
            [*self.server_words, *self.command("--listen", listen, "--directory", self.place, *words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True, **how)
        self.addCleanup(self.end)
        line = self.server.stdout.readline()
        found = re.fullmatch(r"cr_metrics: http://(.*):(\d+)/metrics\n", line)
        self.assertTrue(found, (line, self.said()))
        self.port = int(found[2])
        return found[1]

    def end(self):
        """Returns the exit status."""
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
        self.server.stdout.close()
        return self.server.wait(PATIENCE)

    def said(self):
        """On standard error."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def ask(self, method, path, **more):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, **more)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), answer.headers)
        finally:
            connection.close()

    def get(self, path="/metrics"):
        return self.ask("GET", path)

    def value(self, name):
        """Of the one line of that name; None: there is none."""
        found = re.findall(rf"(?m)^{name}(?:{{.*}})? (.*)$", self.get().text)
        self.assertLess(len(found), 2)
        return float(found[0]) if found else None


def main():
    Case.BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
