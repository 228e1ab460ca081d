#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under cr_run --recover that lose nodes: nothing of a lost node acts when the job comes back.

    test_nodes.py --bin DIRECTORY --rank FAKE_RANK [Stopped|Killed|Launchers|Spares|Places]

Each node but the first has a process of its own (fake_node) that starts its ranks, so the supervisor can
reach nothing there.
"""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import jobs
import processes
import test_recover
from jobs import wait_for

FIRST = "node0"
DEADLINE = "3" # seconds: a lease is three times as long
STEPS = 30_000


class OnNodes(test_recover.Supervising):
    def setUp(self):
        super().setUp()
        self.sockets = Path(self.scratch, "nodes")
        self.sockets.mkdir()
        self.more.update(CRYO_NODE=FIRST, FAKE_NODE_SOCKETS=str(self.sockets), CRYO_DEADLINE=DEADLINE,
                         FAKE_WITNESS=self.scratch)

    def have_nodes(self, *names):
        for name in names:
            path = self.sockets / name
            node = subprocess.Popen([jobs.HERE / "fake_node", path], # pylint: disable=consider-using-with
                                    env=self.settings(**self.more), start_new_session=True)
            self.addCleanup(node.wait)
            self.addCleanup(node.kill)
            self.addCleanup(node.send_signal, signal.SIGCONT)
            wait_for(path.exists, f"{name} to listen")

    def begin(self, ranks, nodes, policy="", words=()):
        """On so many nodes; with a snapshot."""
        self.have_nodes(*(f"node{number}" for number in range(1, nodes)))
        self.more["FAKE_NODES"] = str(nodes)
        job = self.supervise(ranks, steps=STEPS, interval="1s", policy=policy, before=words)
        self.await_snapshot(job)
        return job

    def of_node(self, name, *programs):
        """Processes of the job there; without names of programs the node's own one, too."""
        def has(pid, file, text):
            try:
                return text.encode() in Path(f"/proc/{pid}/{file}").read_bytes()
            except OSError: # it has ended
                return False

        def starter(pid):
            """A rank that was brought back has the environment of its image; its cr_restart has this run's."""
            parent = processes.parent(pid)
            return parent if parent and has(parent, "cmdline", "/cr_restart\0") else pid

        found = [pid for pid in self.marked(*programs) if has(starter(pid), "environ", f"CRYO_NODE={name}\0")]
        if not programs:
            found += [pid for pid in self.marked("python3") if has(pid, "cmdline", str(self.sockets / name))]
        return found

    def signal_all(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def lose(self, job, name, recovery):
        self.signal_all(self.of_node(name), signal.SIGSTOP)
        self.await_recovery(job, recovery)

    def check_single(self):
        self.assertFalse(Path(self.scratch, "doubled").exists(), "a rank was there twice")

    def end_single(self, job, ranks):
        self.check_result(job.end(), ranks, STEPS)
        self.check_single()


class Stopped(OnNodes):
    def test_stopped_daemon(self):
        """Its ranks go on to the end of the lease, and not any longer, though it never runs again."""
        job = self.begin(3, 2)
        daemons = self.of_node("node1", "mpi-daemon")
        ranks = self.of_node("node1", "fake_rank")
        self.assertEqual((len(daemons), len(ranks)), (1, 1))
        self.signal_all(daemons, signal.SIGSTOP)
        wait_for(lambda: not any(map(jobs.is_alive, daemons + ranks)), "the end of the lease")
        self.assertNotIn("is back", job.text())
        self.signal_all(daemons, signal.SIGCONT)
        self.await_recovery(job, 1)
        self.assertRegex(job.text(), r"node node1 was lost at .*; after .* its ranks are dead")
        self.end_single(job, 3)

    def test_stopped_node(self):
        """All of it, as a machine that hangs and wakes up again, is found dead, and is not used again."""
        job = self.begin(4, 2)
        there = self.of_node("node1")
        ranks = self.of_node("node1", "fake_rank")
        self.assertEqual(len(ranks), 2)
        self.signal_all(there, signal.SIGSTOP)
        self.await_recovery(job, 1)
        self.assertFalse(any(map(jobs.is_alive, ranks)))
        self.signal_all(there, signal.SIGCONT)
        self.assertRegex(job.text(), r"without node node1, as no spare is left, more than their slots on the "
                                     r"others: ranks go to node0:4")
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 2)
        self.assertEqual(self.of_node("node1", "fake_rank"), [])
        self.end_single(job, 4)


class Killed(OnNodes):
    def test_killed_daemon(self):
        """What it has held ends with it."""
        job = self.begin(3, 2)
        ranks = self.of_node("node1", "fake_rank")
        self.signal_all(self.of_node("node1", "mpi-daemon"), signal.SIGKILL)
        wait_for(lambda: not any(map(jobs.is_alive, ranks)), "the end of its ranks")
        self.await_recovery(job, 1)
        self.end_single(job, 3)

    def test_killed_first_daemon(self):
        """It can tell nothing; the leases that it has given have ended all the same."""
        job = self.begin(3, 2)
        self.signal_all(self.of_node(FIRST, "mpi-daemon"), signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertIn("before it was known what became of other nodes", job.text())
        self.end_single(job, 3)

    def test_wait_that_is_ended(self):
        """Leases that are not over yet are not said to be."""
        job = self.begin(3, 2)
        self.signal_all(self.of_node(FIRST, "mpi-daemon"), signal.SIGKILL)
        wait_for(lambda: "the launcher (" in job.text() and not list(self.marked("fake_rank")), "the end of all ranks")
        os.kill(job.pid, signal.SIGTERM)
        self.assertNotIn("are dead", job.end(-signal.SIGTERM))


class Launchers(OnNodes):
    """How a launcher ends that has lost a node is no news, nor if the supervisor has ended it."""

    def lose_node(self, at_term):
        self.more["FAKE_AT_TERM"] = at_term
        job = self.begin(2, 2)
        self.signal_all(self.of_node("node1"), signal.SIGSTOP)
        self.await_recovery(job, 1)
        text = job.text()
        self.assertIn("node node1 was lost; the job of process", text)
        self.assertNotIn("the launcher (", text)
        self.end_single(job, 2)
        return text

    def test_launcher_that_ends_well(self):
        """MPICH's ends with 0 when it is told to, which is not the end of the job."""
        self.assertRegex(self.lose_node("zero"), r"node node1 was lost at .*; after [0-9.]+ s more its ranks are dead")

    def test_launcher_that_stays(self):
        """It is killed when the lost node's ranks are dead already: no time is told that was not waited."""
        self.assertRegex(self.lose_node("stay"), r"node node1 was lost at [-0-9: A-Z]+; its ranks are dead\n")

    def test_killed_first_daemon_and_survivors_that_give_up(self):
        """MPICH's ranks end the job with a status of their own when one of another node is gone."""
        self.more["FAKE_STATUS"] = "15"
        job = self.begin(3, 2)
        self.signal_all(self.of_node(FIRST, "mpi-daemon"), signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_single(job, 3)


class Spares(OnNodes):
    def test_spare(self):
        """And a second one, when the first is lost, too."""
        self.have_nodes("node8", "node9")
        job = self.begin(4, 2, policy='[[fault]]\ndetector = "physical"\nspares = ["node7"]\n',
                         words=["--spares", "node8,node9"])
        self.lose(job, "node1", 1)
        self.assertIn("without node node1, with spare node8: ranks go to node0:2,node8:2", job.text())
        self.assertEqual(len(self.of_node("node8", "fake_rank")), 2)
        shown = json.loads(self.tool("cr_status", "--json", job.pid).stdout)
        self.assertEqual((shown["lost_nodes"], shown["spares"]), (["node1"], ["node9"]))
        text = self.tool("cr_status", job.pid).stdout
        self.assertRegex(text, r"(?m)^lost nodes +node1$")
        self.assertRegex(text, r"(?m)^spares left +node9$")
        self.await_snapshot(job)
        self.lose(job, "node8", 2)
        self.assertEqual(len(self.of_node("node9", "fake_rank")), 2)
        self.end_single(job, 4)

    def test_spare_that_does_not_answer(self):
        """Nothing listens on node8: the restart with it fails, and the next one does without."""
        job = self.begin(2, 2, words=["--spares", "node8,node9"])
        (self.sockets / "node8").touch()
        self.have_nodes("node9")
        self.lose(job, "node1", 1)
        self.assertIn("with spare node8", job.text())
        self.assertIn("with spare node9", job.text())
        self.end_single(job, 2)


class Counted(OnNodes):
    def test_spare(self):
        """Each rank's own metadata say where it was."""
        self.more["CRYO_LISTED_RANKS"] = "2"
        job = self.begin(3, 2, words=["--spares", "node8"])
        self.have_nodes("node8")
        self.lose(job, "node1", 1)
        self.assertIn("without node node1, with spare node8: ranks go to node0:2,node8:1", job.text())
        metadata = next(Path(self.scratch).rglob("global_snapshot_meta.data")).read_text()
        first = metadata.partition("# Finished Seq: 0")[0]  # later ones may be deltas, which list their ranks
        self.assertIn("# Cryo Ranks: 3\n", first)
        self.assertNotIn("# Process", first)
        self.end_single(job, 3)


class Places(OnNodes):
    def test_two_nodes_at_once(self):
        job = self.begin(3, 3)
        self.signal_all(self.of_node("node1") + self.of_node("node2"), signal.SIGSTOP)
        self.await_recovery(job, 1)
        self.assertIn("ranks go to node0:3", job.text())
        self.end_single(job, 3)

    def test_no_place(self):
        job = self.begin(4, 2, policy='[[fault]]\ndetector = "physical"\nrecover = "migration"\npack = false\n')
        self.signal_all(self.of_node("node1"), signal.SIGSTOP)
        text = job.end(None)
        self.assertTrue(re.search(r"is not brought back: node node1 is lost, no spare is left, and the other "
                                  r"nodes have no slots for 2 of its ranks", text), text)
        self.check_single()


if __name__ == "__main__":
    jobs.main()
