# SPDX-License-Identifier: Apache-2.0
"""The steps of the tour, in their order. Each says what it does and what it saw, and raises host.Failure at the
first thing that is not so."""

import json
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from vmlib import host

from . import machines

USER = pathlib.Path(__file__).resolve().parent / "user"
LOST = 3
# How many primes there are below is in every table.
LIMIT, PRIMES = 10000000, 664579
IMAGES_EVERY = 5
_TOOLS = ["cryo", "cryo-mpi", "cryo-metrics"]
_MODULE = ["cryo-dkms"]


def packages(place):
    """The packages of Cryo in a directory, by name."""
    found = {}
    for deb in sorted(pathlib.Path(place).glob("*.deb")):
        found[host.run(["dpkg-deb", "-f", deb, "Package"], "dpkg-deb").strip()] = deb
    missing = [name for name in _TOOLS + _MODULE if name not in found]
    if missing:
        raise host.Failure(f"{place} lacks {', '.join(missing)}: scripts/package builds them")
    return {name: found[name] for name in _TOOLS + _MODULE}


class Tour:
    """What one step has to know of those before."""

    def __init__(self, screen, cluster, debs):
        self._screen = screen
        self._cluster = cluster
        self._debs = debs
        self._job = None

    def go(self):
        """All steps on machines."""
        for step in (self.machines, self.ansible, self.job, self.snapshot, self.loss, self.recovery,
                     self.result, self.kernels):
            step()

    # -- before the job ----------------------------------------------------------------------

    def machines(self):
        """Three nodes of a cluster without Cryo."""
        self._screen.step("machines", "three clean nodes of Debian 12 with Slurm, munge, NFS and Open MPI start")
        self._cluster.start()
        for number in machines.NODES:
            self._cluster.wait_for_ssh(number)
            kernel = self._cluster.run(number, "uname -r; if command -v cr_run; then echo Cryo is there; fi")
            if len(kernel.splitlines()) != 1:
                raise host.Failure(f"node{number} is not clean: {kernel}")
            self._screen.saw(f"node{number} is up, with Linux {kernel}, and without Cryo")
        self._cluster.wait_for("Slurm's nodes", lambda: self._states() == {f"node{n}": "idle" for n in machines.NODES})
        self._screen.saw(self._cluster.run(1, "sinfo"))

    def _states(self):
        try:
            said = self._cluster.run(1, "sinfo -h -N -o '%N %t'")
        except host.Failure: # the controller is not there yet
            return {}
        return dict(line.split() for line in said.splitlines())

    def ansible(self):
        """Packages, module and metrics come to all nodes."""
        self._screen.step("ansible", "the roles of ansible/ install the packages, and build and load the module")
        place = self._cluster.place
        ssh = " ".join(self._cluster.options())
        lines = [f"node{n} ansible_host=127.0.0.1 ansible_port={self._cluster.ports[n]} address={machines.address(n)}"
                 for n in machines.NODES]
        (place / "inventory").write_text("\n".join(["[nodes]", *lines, ""]))
        variables = {"packages": [str(self._debs[name]) for name in _TOOLS],
                     "packages_of_the_module": [str(self._debs[name]) for name in _MODULE],
                     "ansible_user": "root", "ansible_python_interpreter": "/usr/bin/python3"}
        environment = {**os.environ, "HOME": str(place), "ANSIBLE_ROLES_PATH": str(host.REPO / "ansible/roles"),
                       "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_ARGS": ssh,
                       "ANSIBLE_TIMEOUT": "120", "LC_ALL": "C.UTF-8"}
        with open(place / "ansible.log", "w+", encoding="utf-8") as log:
            done = subprocess.run(["ansible-playbook", "-i", str(place / "inventory"), "-e", json.dumps(variables),
                                   str(USER / "playbook.yml")], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=subprocess.STDOUT, check=False,
                                  preexec_fn=host.die_with_parent())
            log.seek(0)
            said = log.read()
        if done.returncode:
            raise host.Failure("ansible-playbook failed:\n" + "\n".join(said.splitlines()[-60:]))
        self._screen.saw(said[said.index("PLAY RECAP"):])
        self._look_at_the_installed()

    def _look_at_the_installed(self):
        for number in machines.NODES:
            said = self._cluster.run(number, "cr_run --version | head -n 1; dkms status -m cryo; cat /sys/module/cryo/version; "
                                     "stat -c '%A %G %n' /dev/cryo; id -nG alice").splitlines()
            if len(said) != 5 or "installed" not in said[1] or "cryo" not in said[4].split():
                raise host.Failure(f"node{number}: this is not what it should be: {said}")
            self._screen.saw(f"node{number}: {said[0]}; the module {said[2]} is loaded ({said[1]}; {said[3]})")

    # -- the job -----------------------------------------------------------------------------

    def job(self):
        """An ordinary user's, under Slurm, on all three nodes."""
        self._screen.step("job", f"alice compiles a program that counts the primes below {LIMIT}, and gives it to Slurm")
        for name in ("primes.c", "job.sh"):
            self._cluster.run(1, f"cat >{name}", "alice", (USER / name).read_text(encoding="utf-8"))
        self._cluster.run(1, "mpicc -O2 -o primes primes.c", "alice")
        said = self._cluster.run(1, f"sbatch job.sh {LIMIT}", "alice")
        self._screen.saw(said)
        self._job = re.fullmatch(r"Submitted batch job (\d+)", said)[1]
        self._cluster.wait_for("the job's first line", lambda: self._counted() or self._fail_if_ended())
        self._screen.saw(self._cluster.run(1, "squeue"))
        for number in machines.NODES:
            self._screen.saw(f"node{number}: " + self._cluster.run(number, "ps -C primes -o pid=,user=,args="))

    def _log(self):
        return self._cluster.run(1, "cat ~alice/primes.log 2>/dev/null || true")

    def _counted(self):
        """How far the job says it has come."""
        found = re.findall(r"^below (\d+): (\d+) primes$", self._log(), re.MULTILINE)
        return int(found[-1][0]) if found else 0

    def _fail_if_ended(self):
        if not self._cluster.run(1, f"squeue -h -j {self._job} || true"):
            raise host.Failure(f"the job has ended; it said:\n{self._log()}")

    def _prometheus(self, expression):
        """What Prometheus answers: by the node, a number; nothing while it cannot be asked yet."""
        words = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._cluster.prometheus}/api/v1/query?{words}",
                                        timeout=60) as answer:
                data = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}
        return {one["metric"]["instance"].partition(":")[0]: float(one["value"][1]) for one in data}

    def _see(self, expression, condition):
        """Waits until Prometheus' answer is such, and shows it."""
        last = {}

        def answer():
            self._fail_if_ended()
            last.clear()
            last.update(self._prometheus(expression))
            return last if condition(last) else None
        try:
            self._cluster.wait_for("Prometheus", answer)
        except host.Failure as failure:
            raise host.Failure(f"{failure} ({expression} is {last})\nthe job said:\n{self._log()}") from failure
        self._screen.saw("Prometheus: " + expression + " is "
                         + ", ".join(f"{value:g} on {node}" for node, value in sorted(last.items())))

    def snapshot(self):
        """One that the whole job can come back from."""
        self._screen.step("snapshot", f"Cryo saves the job every {IMAGES_EVERY} s")
        self._see("up", lambda is_up: is_up == {f"node{n}": 1 for n in machines.NODES})
        self._see("cryo_checkpoints_total", lambda made: made.get("node1", 0) >= 1)
        self._see("cryo_restarts_total", lambda made: made == {"node1": 0})
        self._screen.saw(self._cluster.run(1, "cr_status", "alice"))

    def loss(self):
        """Nothing is told to anybody."""
        counted = self._counted()
        if counted >= LIMIT:
            raise host.Failure("the job was done before a node could be lost")
        pid = self._cluster.lose(LOST)
        self._screen.step("loss", f"node{LOST} is lost: its machine (process {pid}) was killed")
        self._screen.saw(f"the job was at {counted} of {LIMIT}")

    def recovery(self):
        """By Cryo, in the same job of Slurm's."""
        self._screen.step("recovery", "the job comes back by itself, on the nodes that are left")
        told = self._cluster.wait_for("word of the loss", self._told_of_loss)
        self._screen.saw("\n".join(told))
        self._see("cryo_restarts_total", lambda made: made.get("node1", 0) >= 1)
        self._see("up", lambda is_up: is_up.get(f"node{LOST}") == 0)
        self._screen.saw(self._cluster.run(1, "squeue; sinfo"))
        for number in machines.NODES:
            if number != LOST:
                self._screen.saw(f"node{number}: " + self._cluster.run(number, "ps -C primes -o pid=,user=,args="))

    def _told_of_loss(self):
        self._fail_if_ended()
        said = [line for line in self._log().splitlines() if line.startswith("cr_run: ")]
        return said if any(" is back from " in line for line in said) else None

    def result(self):
        """The one of the table."""
        self._screen.step("result", "the job ends as if nothing had happened")
        self._cluster.wait_for("the end of the job",
                               lambda: not self._cluster.run(1, f"squeue -h -j {self._job} || true"))
        last = re.findall(r"^below \d+: \d+ primes$", self._log(), re.MULTILINE)[-1]
        if last != f"below {LIMIT}: {PRIMES} primes":
            raise host.Failure(f"it has ended with '{last}', and there are {PRIMES} primes below {LIMIT}:\n{self._log()}")
        self._screen.saw(f"{last}, which is right")
        state = self._cluster.run(1, f"scontrol -o show job {self._job}")
        state = " ".join(re.findall(r"\b(?:JobId|JobState|ExitCode|Restarts|NodeList)=\S+", state))
        self._screen.saw(state)
        if "JobState=COMPLETED" not in state:
            raise host.Failure(f"Slurm says of the job: {state}")

    def kernels(self):
        """With the module loaded all the time."""
        self._screen.step("kernels", "what the nodes' kernels said is read")
        reports = self._cluster.kernel_reports()
        if reports:
            raise host.Failure("\n".join(f"node{n}: {line}" for n, lines in reports.items() for line in lines))
        self._screen.saw("no BUG, no WARNING, no Oops")
