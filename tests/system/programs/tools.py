# SPDX-License-Identifier: Apache-2.0
"""The ways to save and bring back a test program. A new one is one class here.

A tool says which MODES it can do, how it starts a program, saves it, and brings it back. `plain`
does nothing in between and shows that the programs themselves are right.
"""

import os
import subprocess

import processes


class ToolFailed(Exception):
    """A step of the tool went wrong; the text says which and what was printed."""


class Tool:
    """What every tool can do."""
    modes = ()

    def start(self, command, **where):
        """Starts the program under the tool."""
        return subprocess.Popen(command, **where)

    def pid_of(self, started):
        """The program's own pid: that of what was started, unless the tool stays in between."""
        return started.pid

    def checkpoint(self, pid, image, options):
        """Saves the process into IMAGE; it goes on running."""
        raise NotImplementedError

    def restart(self, image, **where):
        """Brings it back. What is returned exits as the program does."""
        raise NotImplementedError


class Plain(Tool):
    """No checkpoint at all."""
    modes = ("plain",)


class Cryo(Tool):
    """cr_run, cr_checkpoint and cr_restart out of one directory, or out of PATH."""
    modes = ("restart", "continue", "rollback", "generations")
    patience = 120

    def __init__(self, directory, backend, restart_options=(), checkpoint_options=()):
        self.directory = directory
        # "kmod+user": saved by one, brought back by the other.
        saver, _, restorer = backend.partition("+")
        self.saver = [*(["--backend", saver] if saver else []), *checkpoint_options]
        self.restorer = [*(["--backend", restorer or saver] if saver else []), *restart_options]

    def _command(self, name):
        return os.path.join(self.directory, name) if self.directory else name

    def start(self, command, **where):
        return subprocess.Popen([self._command("cr_run"), *command], **where)

    def checkpoint(self, pid, image, options):
        command = [self._command("cr_checkpoint"), *self.saver, *options, "-f", image, str(pid)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=self.patience)
        except subprocess.TimeoutExpired as late:
            raise ToolFailed(f"{' '.join(command)}: not done after {self.patience} s") from late
        if done.returncode != 0:
            raise ToolFailed(f"cr_checkpoint: exit status {done.returncode}: "
                             f"{done.stderr.strip()}")

    def restart(self, image, **where):
        return subprocess.Popen([self._command("cr_restart"), *self.restorer, image], **where)

    def pid_of(self, started):
        def is_restart(pid):
            try:
                return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "cr_restart"
            except FileNotFoundError:
                return False  # its main thread has ended
        pid = started.pid  # with --pidns there are two of them
        while pid and is_restart(pid):
            pid = next(iter(processes.children(pid)), None)
        return pid


def make(name, directory, restart_options=(), checkpoint_options=()):
    """The tool called NAME: plain, cryo, cryo-BACKEND, or cryo-BACKEND+BACKEND."""
    if name == "plain":
        return Plain()
    if name == "cryo" or name.startswith("cryo-"):
        return Cryo(directory, name.partition("-")[2], restart_options, checkpoint_options)
    raise SystemExit(f"run_program: no tool is called {name}; there are plain, cryo, cryo-kmod, "
                     "cryo-user, cryo-criu and cryo-self")
