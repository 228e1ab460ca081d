#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that go on where they were, of an ordinary user, in a Slurm of two nodes: by a script of the user's
own, and by the plug-in.

    test_slurm.py DIRECTORY-OF-COMMANDS PLUGIN SCRIPT

The programs write numbers, one after the other. None may be missing or come twice, whatever becomes of the job.
"""
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "programs"), HERE]
from cluster import Slurm # noqa: E402
from waiting import PATIENCE, wait_until # noqa: E402

SCRIPT = os.path.abspath(sys.argv.pop(3))
CONDOR_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(SCRIPT)), "htcondor", "job.sh")
PLUGIN = os.path.abspath(sys.argv.pop(2))
BIN = os.path.abspath(sys.argv.pop(1))
# An account that Debian always has, and that does not stand for all who have no name, as nobody does.
USER = pwd.getpwnam("games").pw_uid if os.geteuid() == 0 else os.geteuid()
COUNT = """
import os, sys, time
number = 0
name = sys.argv[1] if len(sys.argv) > 1 else "numbers"
with open(name, "w") as file:
    while not os.path.exists("finish"):
        number += 1
        print(number, file=file, flush=True)
        time.sleep(0.005)
"""
MORE = """
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=20 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE State=UP
"""


class Job:
    def __init__(self, case, number):
        self.case = case
        self.number = number

    def facts(self):
        said = self.case.slurm_says("scontrol", "-o", "show", "job", self.number)
        return dict(re.findall(r"(\w+)=(\S*)", said))

    def state(self):
        return self.facts()["JobState"]

    def wait(self, what, condition):
        """What is known of the job stands in the failure."""
        wait_until(what, condition,
                   failure=lambda text: AssertionError(f"{text}\n{self.facts()}\n{self.log()}"))

    def await_state(self, *states):
        self.wait(f"job {self.number} to be {states}", lambda: self.state() in states)

    def await_requeued(self, before=0):
        """Slurm would wait two minutes, until nobody has a credential of the first run any more. A second
        is enough to tell that of the next one from it."""
        self.wait("the requeue", lambda: int(self.facts()["Restarts"]) > before and
                  self.state() in ("PENDING", "RUNNING"))
        self.case.operate("update", f"jobid={self.number}", "starttime=now+2", check=False)
        self.await_state("RUNNING")

    def log(self):
        return self.case.read(f"slurm-{self.number}.out")

    def warn(self):
        """As --signal does it before the end of the job's time."""
        self.case.slurm_says("scancel", "--batch", "--signal=USR1", self.number)


class Case(unittest.TestCase):
    """A directory of the user's, in which a program writes numbers."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-slurm.", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        os.chown(self.top, USER, -1)
        self.write("count.py", COUNT)

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def logs(self):
        return "\n".join(f"{name}:\n{self.read(name)}" for name in sorted(os.listdir(self.top))
                         if name.endswith(".out"))

    def run_as_user(self, *words):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("CRYO_", "LD_PRELOAD", "SLURM_")) or name == "SLURM_CONF"}
        environment = {**kept, "PATH": f"{BIN}:/usr/bin:/bin", "HOME": self.top}
        rights = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.run(words, env=environment, cwd=self.top, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False, timeout=PATIENCE, **rights)

    def numbers(self, name="numbers"):
        return [int(line) for line in self.read(name).split("\n")[:-1]]

    def check_numbers(self, name="numbers"):
        numbers = self.numbers(name)
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)

    def await_more(self, name="numbers"):
        before = len(self.numbers(name))
        wait_until("further numbers", lambda: len(self.numbers(name)) > before + 5,
                   failure=lambda text: AssertionError(f"{text}\n{self.logs()}"))
        self.check_numbers(name)


class Condor(Case):
    """The script for HTCondor, without HTCondor: who starts it again is this test."""

    def test_it(self):
        self.write("app", f"#!/usr/bin/python3\n{COUNT}")
        before = 0
        for _ in range(2):
            done = self.run_as_user("bash", CONDOR_SCRIPT, "2")
            self.assertEqual(85, done.returncode, done.stderr)
            self.check_numbers()
            self.assertGreater(len(self.numbers()), before)
            before = len(self.numbers())
        self.write("finish", "")
        self.assertEqual(0, self.run_as_user("bash", CONDOR_SCRIPT, "50").returncode)
        self.check_numbers()


class Cluster(Case):
    """Two nodes, and jobs of the user there."""

    TRACKING = None

    @classmethod
    def setUpClass(cls):
        # In a directory that no other user can write to, but that others see.
        top = "/run" if os.geteuid() == 0 else "/tmp"
        place = tempfile.TemporaryDirectory(prefix="cryo-sj-", dir=top) # pylint: disable=consider-using-with
        cls.addClassCleanup(place.cleanup)
        cls.slurm = Slurm(place.name, nodes=2, more=MORE, plugins=f"optional {PLUGIN}\n",
                          tracking=cls.TRACKING, kill_wait=20)
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_all)

    def end_all(self):
        self.slurm_says("scancel", "--full", "--signal=KILL", "--state=RUNNING", "--user", str(USER))
        self.slurm_says("scancel", "--user", str(USER))
        wait_until("the ends of all jobs", lambda: not self.slurm_says("squeue", "-h"))
        for node in self.slurm.names:
            self.operate("update", f"nodename={node}", "state=resume", check=False)
        self.slurm.wait_for(self.slurm.is_ready, "the nodes")

    def slurm_says(self, *words):
        done = self.run_as_user(*words)
        self.assertEqual(0, done.returncode, f"{words}: {done.stderr}\n{self.slurm.logs()}")
        return done.stdout.strip()

    @staticmethod
    def operate(*words, check=True):
        subprocess.run(["scontrol", *words], check=check, capture_output=True)

    def submit(self, *words):
        said = self.slurm_says("sbatch", "--parsable", *words)
        return Job(self, said.split(";")[0])

    def await_image(self, directory):
        wait_until("an image", lambda: os.path.exists(self.path(f"{directory}/latest")))

    def finish(self, *jobs):
        self.write("finish", "")
        for job in jobs:
            job.await_state("COMPLETED")
        self.check_numbers()

    # A batch script that is saved whole: its own lines, and what it waits for.
    BATCH = "#!/bin/bash\necho begin\n/usr/bin/python3 count.py\necho end $?\n"


class Jobs(Cluster):
    """With signals to all processes of a job."""

    TRACKING = "proctrack/linuxproc"

    def users_script(self):
        """That of the examples, with a program, and with a line of its own in each run."""
        with open(SCRIPT, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(1, text.count("./app &"))
        text = text.replace("./app &", "/usr/bin/python3 count.py &").replace("10m", "200ms")
        self.write("job.sh", text.replace("\ntrap put_back USR1",
                                          "\necho run $SLURM_RESTART_COUNT\ntrap put_back USR1"))

    def test_a_script_of_the_user(self):
        self.users_script()
        job = self.submit("job.sh")
        images = f"images-{job.number}"
        self.await_image(images)
        for restarts in range(2):
            job.warn()
            job.await_requeued(restarts)
            wait_until("the restart", lambda: job.log().count("goes on after") == restarts + 1)
            self.await_more()
        self.finish(job)
        self.assertEqual(["run", "run 1", "run 2"],
                         [line for line in job.log().split("\n") if line.startswith("run")])

    def test_a_batch_script(self):
        self.write("job.sh", self.BATCH)
        job = self.submit("--cryo-interval=200ms", "--requeue", "--open-mode=append", "job.sh")
        self.await_image(f"cryo-{job.number}")
        before = len(self.numbers())
        job.warn()
        job.await_requeued()
        self.await_more()
        self.assertGreater(len(self.numbers()), before, "work before the last image is not lost")
        self.finish(job)
        log = job.log()
        self.assertEqual(["begin", "end 0"],
                         [line for line in log.split("\n") if line.startswith(("begin", "end"))])
        self.assertTrue(os.path.exists(self.path(f"cryo-{job.number}.completed.1")))

    def test_on_another_node(self):
        """Where Slurm keeps the script in another directory."""
        self.write("job.sh", self.BATCH)
        job = self.submit("--cryo-interval=200ms", "--requeue", "job.sh")
        self.await_image(f"cryo-{job.number}")
        node = job.facts()["NodeList"]
        self.operate("update", f"nodename={node}", "state=drain", "reason=test")
        job.warn()
        job.await_requeued()
        self.assertNotEqual(node, job.facts()["NodeList"])
        self.await_more()
        self.finish(job)
        self.assertIn("end 0", job.log())

    def preempt(self, *words):
        self.write("job.sh", self.BATCH)
        job = self.submit("--cryo-interval=200ms", "--requeue", "--partition=low", "--exclusive",
                          "--nodelist=node1", *words, "job.sh")
        self.await_image(f"cryo-{job.number}")
        other = self.submit("--partition=high", "--exclusive", "--nodelist=node1", "--wrap=true")
        other.await_state("COMPLETED")
        job.await_requeued()
        self.await_more()
        self.finish(job)

    def test_preempted_by_SIGTERM(self):
        self.preempt()

    def test_preempted_with_a_warning(self):
        self.preempt("--signal=B:USR1")

    def test_the_end_of_the_time(self):
        self.write("job.sh", self.BATCH)
        job = self.submit("--cryo", "--requeue", "--time=1", "--signal=B:USR1@59", "job.sh")
        job.await_requeued()
        self.await_more()
        self.finish(job)

    def test_arrays(self):
        self.write("job.sh", "#!/bin/bash\n/usr/bin/python3 count.py numbers$SLURM_ARRAY_TASK_ID\n")
        job = self.submit("--cryo-interval=200ms", "--requeue", "--array=1,2", "job.sh")
        elements = [Job(self, f"{job.number}_{index}") for index in (1, 2)]
        for index in (1, 2):
            self.await_image(f"cryo-{job.number}_{index}")
        elements[1].warn()
        elements[1].await_requeued() # whose number is that of the array, too
        self.assertEqual("0", elements[0].facts()["Restarts"])
        for index in (1, 2):
            self.await_more(f"numbers{index}")
        self.finish(*elements)

    def test_a_step(self):
        words = ("srun", "--cryo-interval=200ms", "--cryo-directory=run", "-n1", "/usr/bin/python3",
                 "count.py")
        first = self.submit(f"--wrap={' '.join(words)}")
        self.await_image("run")
        self.slurm_says("scancel", first.number)
        first.await_state("CANCELLED")
        second = self.submit(f"--wrap={' '.join(words)}")
        wait_until("the restart", lambda: "goes on after" in second.log())
        self.await_more()
        self.finish(second)
        self.assertTrue(os.path.exists(self.path("run.completed.1")))

    def test_several_tasks(self):
        self.write("task.sh", "#!/bin/bash\nexec /usr/bin/python3 count.py numbers$SLURM_PROCID\n")
        job = self.submit("--ntasks=2", "--wrap=srun --cryo-interval=200ms task.sh".replace(
            "task.sh", self.path("task.sh")))
        for task in (0, 1):
            self.await_image(f"cryo-{job.number}.0/{task}")
            self.await_more(f"numbers{task}")
        self.finish(job)

    def test_another_program(self):
        self.write("finish", "")
        os.mkdir(self.path("run"), mode=0o700)
        os.chown(self.path("run"), USER, -1)
        for name, text in (("latest", ""), ("program", "/bin/other\0word\0")):
            self.write(f"run/{name}", text)
            os.chown(self.path(f"run/{name}"), USER, -1)
        done = self.run_as_user("srun", "--cryo-directory=run", "/usr/bin/python3", "count.py")
        self.assertIn("run: has images of another program, '/bin/other' 'word'; name another directory "
                      "with --cryo-directory", done.stderr)
        self.assertNotEqual(0, done.returncode)
        self.assertEqual("", self.read("numbers"))

    def test_wrong_words(self):
        for wrong, said in (("--cryo-interval=soon", "not a time span"), ("--cryo-interval=5x", "not a"),
                            ("--cryo-directory=", "not the name of a directory")):
            for command in (("srun", wrong, "true"), ("sbatch", wrong, "--wrap=true")):
                done = self.run_as_user(*command)
                self.assertIn(said, done.stderr)
                self.assertNotEqual(0, done.returncode)

    def test_without_the_option(self):
        """A job is as it is without the plug-in."""
        done = self.run_as_user("srun", "/usr/bin/env")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("CRYO_", done.stdout)
        self.assertNotIn("LD_PRELOAD", done.stdout)

    def test_who_the_task_is(self):
        """Its user, with the limits of the job, and the status of the program."""
        done = self.run_as_user("srun", "--cryo", "/usr/bin/id", "-u")
        self.assertEqual(str(USER), done.stdout.strip(), done.stderr)
        self.write("status.sh", "#!/bin/sh\nexit 7\n")
        done = self.run_as_user("srun", "--cryo", self.path("status.sh"))
        self.assertEqual(7, done.returncode, done.stderr)
        done = self.run_as_user("bash", "-c", "ulimit -n 321; srun --cryo --propagate=NOFILE bash -c "
                                              "'ulimit -n'")
        self.assertEqual("321", done.stdout.strip(), done.stderr)


class Cgroups(Cluster):
    """As on most clusters: of a job, only the first process is sent signals."""

    TRACKING = "proctrack/cgroup"

    def test_the_job_is_not_left(self):
        self.write("job.sh", self.BATCH + "cat /proc/self/cgroup\n")
        job = self.submit("--cryo-interval=200ms", "--requeue", "job.sh")
        self.await_image(f"cryo-{job.number}")
        job.warn()
        job.await_requeued()
        self.await_more()
        self.finish(job)
        self.assertRegex(job.log(), rf":freezer:/slurm_node\d/uid_{USER}/job_{job.number}/step_batch\n")

    def test_cancelled(self):
        """It is saved once more, and goes on from there."""
        self.write("job.sh", self.BATCH)
        job = self.submit("--cryo-directory=run", "job.sh")
        self.await_more()
        self.slurm_says("scancel", job.number)
        job.await_state("CANCELLED")
        wait_until("its end", lambda: not self.slurm_says("squeue", "-h"))
        self.assertTrue(os.path.exists(self.path("run/latest")), job.log())
        again = self.submit("--cryo-directory=run", "job.sh")
        wait_until("the restart", lambda: "goes on after" in again.log())
        self.await_more()
        self.finish(again)


if __name__ == "__main__":
    unittest.main()
