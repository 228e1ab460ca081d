#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node, as small as can be, on this machine and by whoever calls: a command runs in it.

    slurm_test.py COMMAND ARGUMENT ...

SLURM_CONF tells the command's srun where it is. Nothing is left when the command has ended.
"""
import getpass
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 60

CONFIGURATION = """
ClusterName=cryo
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.sock
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
KillWait=2
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Slurm:
    """While it is entered, its daemons run."""

    def __init__(self, place):
        self.place = Path(place)
        self.daemons = {}

    def start(self, name, *words):
        log = self.place / f"{name}.log"
        self.daemons[name] = subprocess.Popen( # pylint: disable=consider-using-with
            [name, *words], stdin=subprocess.DEVNULL, stdout=log.open("wb"),
            stderr=subprocess.STDOUT)

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            ended = [name for name, process in self.daemons.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                for log in self.place.glob("*.log"):
                    print(f"--- {log.name}\n{log.read_text(errors='replace')}", file=sys.stderr)
                sys.exit(f"{what}: waited in vain; ended: {ended}")
            time.sleep(0.05)

    def is_ready(self):
        asked = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True,
                               check=False)
        return asked.stdout.strip() in ("idle", "mix")

    def __enter__(self):
        try:
            self.begin()
        except BaseException: # what has begun is not left behind
            self.__exit__()
            raise
        return self

    def begin(self):
        os.environ["PATH"] += ":/usr/sbin"
        for name in ("state", "spool"):
            (self.place / name).mkdir()
        controller_port, node_port = free_ports(2)
        configuration = self.place / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], user=getpass.getuser(), place=self.place,
            controller_port=controller_port, node_port=node_port))
        os.environ["SLURM_CONF"] = str(configuration)
        key = self.place / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.start("munged", "--foreground", "--force", f"--socket={self.place}/munge.sock",
                   f"--key-file={key}", f"--pid-file={self.place}/munged.pid",
                   f"--seed-file={self.place}/seed", f"--log-file={self.place}/munged-own.log")
        self.wait_for((self.place / "munge.sock").is_socket, "munged")
        self.start("slurmctld", "-D", "-f", str(configuration))
        self.start("slurmd", "-D", "-N", "node1", "-f", str(configuration))
        self.wait_for(self.is_ready, "the node")

    def __exit__(self, *_):
        for name in ("slurmd", "slurmctld", "munged"):
            if name in self.daemons:
                self.daemons[name].terminate()
                self.daemons[name].wait(PATIENCE)


def main():
    # Root's squeue reads only settings that no other user can have put there.
    top = "/run" if os.geteuid() == 0 else "/tmp"
    with tempfile.TemporaryDirectory(prefix="cryo-sl-", dir=top) as place, Slurm(place):
        return subprocess.run(sys.argv[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
