# SPDX-License-Identifier: Apache-2.0
"""Nodes (nodes.py) whose processes are nobody's below the launcher, as behind a real sshd: what is started there
is the child of a process of the node's own, with process ids of the node's own, and a launcher's ssh only asks for
it. So a node can be killed, stopped, or cut off, and what the launcher's own node does about it reaches nothing there.

    with Nodes(3, directory) as nodes:
        nodes.family("second")              # the processes there
        nodes.cut_off("second")             # until nodes.connect("second")
"""
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

import nodes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system" / "programs"))
import processes  # noqa: E402

SYS_PIDFD_GETFD = 438
CLONE_NEWPID = 0x20000000

# Of what ssh would have, only which host, and the command. Its streams are the command's.
SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in
{cases}*) exit 9 ;;
esac
shift
mkfifo {directory}/$$.ended
printf '%s' "$*" > {directory}/$$.command
(echo $$ > {directory}/$name.asked) # not by this process, whose streams are looked at from then on
read code < {directory}/$$.ended
exit $code
"""


class Init:
    """The first process of a node's own pid namespace, as of a machine: what is started there is its child, and
    ids that it has are nobody's elsewhere. It is told what to start, with the streams."""

    def __init__(self, tasks, words, settings):
        self.tasks, self.words, self.settings = tasks, words, settings
        self.begun = {} # by process: whose ssh has asked for it

    def run(self):
        nodes.inside.mount("-t", "proc", "proc", "/proc")
        while True:
            if select.select([self.tasks], [], [], 0.02)[0]:
                text, streams, _, _ = socket.recv_fds(self.tasks, 1 << 16, 3)
                if not text:
                    os._exit(0)
                self.begin(json.loads(text), streams)
            self.collect()

    def begin(self, task, streams):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0) # no session of its own: run_mpi.py says why
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, 1024)
            os.chdir("/")
            words = [*self.words, "sh", "-c", task["command"]]
            os.execvpe(words[0], words, self.settings)
        for stream in streams:
            os.close(stream)
        self.begun[pid] = task["ssh"]

    def collect(self):
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                code = os.waitstatus_to_exitcode(found[1])
                if (ssh := self.begun.pop(found[0], None)) is not None:
                    self.tasks.send(json.dumps([ssh, code if code >= 0 else 255]).encode())


class Server:
    """What ssh speaks to, in the node's process that sees the other nodes' processes, too."""

    def __init__(self, directory, name, words, settings):
        self.directory = Path(directory)
        self.asked = os.open(self.directory / f"{name}.asked", os.O_RDWR | os.O_NONBLOCK)
        self.ended = {} # by ssh: what it has not been told yet
        self.tasks, of_init = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nodes.inside.leave(CLONE_NEWPID)
        if os.fork() == 0:
            self.tasks.close()
            Init(of_init, words, settings).run()
        of_init.close()

    def run(self):
        while True:
            select.select([self.asked, self.tasks], [], [], 0.02 if self.ended else None)
            with contextlib.suppress(BlockingIOError):
                for line in os.read(self.asked, 4096).split():
                    self.begin(int(line))
            with contextlib.suppress(BlockingIOError):
                ssh, code = json.loads(self.tasks.recv(4096, socket.MSG_DONTWAIT) or "[0, 0]")
                self.ended[ssh] = code
            for ssh in list(self.ended):
                self.tell(ssh)

    def begin(self, ssh):
        """One that has ended is told nothing any more."""
        task = {"ssh": ssh, "command": (self.directory / f"{ssh}.command").read_text()}
        with contextlib.suppress(OSError):
            streams = [stream_of(ssh, number) for number in range(3)]
            socket.send_fds(self.tasks, [json.dumps(task).encode()], streams)
            for stream in streams:
                os.close(stream)

    def tell(self, ssh):
        try:
            told = os.open(self.directory / f"{ssh}.ended", os.O_WRONLY | os.O_NONBLOCK)
        except OSError: # it does not listen yet, or any more
            with contextlib.suppress(ProcessLookupError):
                os.kill(ssh, 0)
                return
            del self.ended[ssh]
            return
        os.write(told, f"{self.ended.pop(ssh)}\n".encode())
        os.close(told)


def stream_of(pid, number):
    process = os.pidfd_open(pid)
    try:
        stream = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, process, number, 0)
    finally:
        os.close(process)
    if stream < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    try:
        return fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 10) # out of the way of those that it becomes
    finally:
        os.close(stream)


class Nodes(nodes.Nodes):
    """`words` stand in front of each command on the others, `settings` are its environment."""

    def __init__(self, count, directory, words=(), settings=None):
        self.directory = directory
        self.of_commands = (list(words), {"PATH": os.environ["PATH"], "HOME": str(directory), "TMPDIR": str(directory),
                                           **(settings or {})})
        for name in nodes.NAMES[1:count]:
            os.mkfifo(f"{directory}/{name}.asked")
        super().__init__(count, directory, lambda name: Server(directory, name, *self.of_commands).run())

    def stand_in(self, script):
        cases = "".join(f"{name} | {nodes.address_of(name)}) name={name} ;;\n" for name in self.others)
        script.write_text(SSH.format(cases=cases, directory=self.directory))
        script.chmod(0o755)
        return script

    def family(self, name):
        """Without its first one, which ends with the node's namespace."""
        return processes.family(self.others[name].pid)[1:]

    def signal(self, name, number):
        """To all of its processes, and to those that they make meanwhile, if it stops or kills them."""
        done = set()
        while more := set(self.family(name)) - done:
            for pid in more:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            done |= more

    def cut_off(self, name):
        nodes.run("ip", "link", "set", name, "down")

    def connect(self, name):
        nodes.run("ip", "link", "set", name, "up")

    def __exit__(self, *arguments):
        for name in self.others:
            self.signal(name, signal.SIGKILL)
        super().__exit__(*arguments)
