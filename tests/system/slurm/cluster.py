# SPDX-License-Identifier: Apache-2.0
"""A Slurm as small as can be, on this machine and by whoever calls: a controller, and a slurmd for each
node. SLURM_CONF tells srun and its kin where it is. As root, other users may give it jobs.

    with tempfile.TemporaryDirectory(dir="/run") as place, Slurm(place, nodes=2):
        subprocess.run(["srun", "hostname"])

Nothing is left when it is done.
"""
import getpass
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import ports  # noqa: E402

PATIENCE = 60
FREEZER = Path("/sys/fs/cgroup/freezer")

CONFIGURATION = """
ClusterName=cryo
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.sock
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType={tracking}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
KillWait={kill_wait}
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 State=UNKNOWN\n"
PARTITION = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8\n"


class Slurm:
    """While it is entered, its daemons run. `more` are further lines of slurm.conf, `plugins` those of
    plugstack.conf. With proctrack/cgroup, a step is a freezer of cgroup v1."""

    def __init__(self, place, nodes=1, more="", plugins="", tracking="proctrack/pgid", kill_wait=2):
        self.place = Path(place)
        self.names = [f"node{number + 1}" for number in range(nodes)]
        self.more = more
        self.plugins = plugins
        self.tracking = tracking
        self.kill_wait = kill_wait
        self.daemons = {}
        self.held = [] # the ports of the daemons

    def start(self, name, *words):
        with (self.place / f"{name}.log").open("wb") as log:
            self.daemons[name] = subprocess.Popen( # pylint: disable=consider-using-with
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def logs(self):
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')}"
                         for log in sorted(self.place.glob("*.log")))

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            ended = [name for name, process in self.daemons.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                print(self.logs(), file=sys.stderr)
                sys.exit(f"{what}: waited in vain; ended: {ended}")
            time.sleep(0.05)

    def is_ready(self):
        asked = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], capture_output=True, text=True,
                               check=False)
        states = dict(line.split() for line in asked.stdout.splitlines())
        return len(states) == len(self.names) and set(states.values()) <= {"idle", "mix"}

    def __enter__(self):
        try:
            self.begin()
        except BaseException: # what has begun is not left behind
            self.__exit__()
            raise
        return self

    def write_configuration(self):
        self.held = [ports.hold() for _ in range(1 + len(self.names))]
        controller_port, *node_ports = map(ports.number, self.held)
        host = socket.gethostname().split(".")[0]
        text = CONFIGURATION.format(host=host, user=getpass.getuser(), place=self.place,
                                    controller_port=controller_port, tracking=self.tracking,
                                    kill_wait=self.kill_wait)
        for name, port in zip(self.names, node_ports):
            (self.place / f"spool.{name}").mkdir(mode=0o755)
            text += NODE.format(name=name, host=host, port=port)
        configuration = self.place / "slurm.conf"
        configuration.write_text(text + PARTITION + self.more)
        (self.place / "plugstack.conf").write_text(self.plugins)
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        return str(configuration)

    def begin(self):
        os.environ["PATH"] += ":/usr/sbin"
        if os.geteuid() == 0: # other users read the settings, and reach munge
            self.place.chmod(0o755)
        (self.place / "state").mkdir(mode=0o700)
        configuration = self.write_configuration()
        os.environ["SLURM_CONF"] = configuration
        key = self.place / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.start("munged", "munged", "--foreground", "--force",
                   f"--socket={self.place}/munge.sock", f"--key-file={key}",
                   f"--pid-file={self.place}/munged.pid", f"--seed-file={self.place}/seed",
                   f"--log-file={self.place}/munged-own.log")
        self.wait_for((self.place / "munge.sock").is_socket, "munged")
        self.start("slurmctld", "slurmctld", "-D", "-f", configuration)
        for name in self.names:
            self.start(name, "slurmd", "-D", "-N", name, "-f", configuration)
        self.wait_for(self.is_ready, "the nodes")

    def __exit__(self, *_):
        for name in [*self.names, "slurmctld", "munged"]:
            if name in self.daemons:
                self.daemons[name].terminate()
                self.daemons[name].wait(PATIENCE)
        for held in self.held:
            held.close()
        if self.tracking == "proctrack/cgroup": # slurmd leaves it
            for name in self.names:
                left = FREEZER / f"slurm_{name}"
                if left.exists():
                    left.rmdir()
