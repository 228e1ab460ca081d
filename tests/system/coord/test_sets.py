#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks whose nodes keep parity of each other's images (ompi-checkpoint --redundancy).

    test_sets.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]

A "node" is a name, and a directory of its own; one is lost with its directory, and with the images
in the snapshot's directory, which is what a restart takes first.
"""
import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import jobs


class Sets(jobs.Case):
    NODES = 3

    def setUp(self):
        super().setUp()
        self.near = Path(self.scratch, "near")
        for node in range(self.NODES + 3):
            (self.near / f"node{node}").mkdir(parents=True)

    def start_on_nodes(self, nodes=None, steps=200000, **more):
        nodes = nodes or self.NODES
        return self.start(nodes + 1, steps, FAKE_NODES=str(nodes), **more)

    def save_in_sets(self, job, scheme="xor", *more, where="%N"):
        reference, _ = self.save(job, "--local", self.near / where, "--redundancy", scheme, *more)
        return reference

    def info(self, reference):
        return json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)[-1]

    def levels(self, node):
        top = self.near / node / f"cryo-{os.geteuid()}"
        return sorted(top.iterdir()) if top.exists() else []

    def lose(self, reference, *nodes):
        """The nodes' directories, and their images in the snapshot's directory."""
        for image in self.info(reference)["images"]:
            if image["node"] in nodes:
                shutil.rmtree(Path(image["file"]).parent)
        for node in nodes:
            shutil.rmtree(self.near / node)

    def tool_running(self, *arguments):
        # pylint: disable=consider-using-with
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json",
                                 *map(str, arguments)], env=self.settings(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        return tool

    @staticmethod
    def until_state(tool, state):
        for line in tool.stdout:
            if json.loads(line).get("state") == state:
                return
        raise AssertionError(f"the state '{state}' was not said: {tool.communicate()[1]}")

    @staticmethod
    def end_of(tool):
        said, errors = tool.communicate(timeout=jobs.PATIENCE)
        assert tool.returncode == 0, errors
        return json.loads(said.splitlines()[-1])

    def check_whole(self, reference, ranks, steps):
        self.check_result(self.restart(reference).end(), ranks, steps)

    def test_a_lost_node_comes_back(self):
        for scheme, lost in (("xor", 0), ("xor", 1), ("xor", 2), ("partner", 1), ("rs:2", 2)):
            with self.subTest(scheme=scheme, lost=lost):
                job = self.start_on_nodes(steps=5000)
                reference = self.save_in_sets(job, scheme)
                job.kill()
                found = self.info(reference)
                self.assertEqual(found["redundancy"], scheme)
                self.assertEqual(len(found["sets"]), 1)
                self.assertEqual(set(found["sets"][0]), {f"node{n}" for n in range(self.NODES)})
                for image in found["images"]:
                    self.assertTrue((Path(image["local"]).parent / "parity").is_file())
                self.check_store()
                self.lose(reference, f"node{lost}")
                back = self.restart(reference)
                self.check_result(back.end(), self.NODES + 1, 5000)
                self.assertIn(f"the image of rank {lost} was made of those of the set of node "
                              f"node{lost} ({scheme})", back.text())
                (self.near / f"node{lost}").mkdir()
                self.check_store()
                self.assertFalse(list(Path(self.store).glob("*/*/.healed")))

    def test_more_lost_than_the_scheme_makes_good(self):
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job)
        job.kill()
        self.lose(reference, "node0", "node2")
        refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, reference, code=errno.ENODATA)
        self.assertRegex(refused.stderr, r"2 nodes of a set are lost "
                         r"\(node(0, node2|2, node0)\), and xor brings back 1")

    def test_two_lost_of_rs(self):
        job = self.start_on_nodes(4, steps=5000)
        reference = self.save_in_sets(job, "rs:2")
        job.kill()
        self.lose(reference, "node1", "node3")
        self.check_whole(reference, 5, 5000)

    def test_images_that_their_nodes_have_are_copied(self):
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job)
        job.kill()
        for image in self.info(reference)["images"]:
            Path(image["file"]).unlink()
        shutil.rmtree(self.near / "node1")
        self.check_whole(reference, self.NODES + 1, 5000)

    def test_nodes_bring_what_is_not_seen_elsewhere(self):
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job)
        job.kill()
        images = self.info(reference)["images"]
        none = self.tool("ompi-restart", "--bring", reference, CRYO_NODE="node7").stdout
        self.assertEqual(none, "0 images of node node7\n")
        # An image that a node has lost: the others, and the parity, make it good.
        Path(images[0]["local"], Path(images[0]["file"]).name).unlink()
        self.tool("ompi-restart", "--bring", reference, CRYO_NODE="node0", code=errno.ENOENT)
        brought = Path(images[0]["file"]).parents[1] / ".brought" / "node.0"
        self.assertEqual({file.name for file in brought.rglob("*") if file.is_file()},
                         {"parity", Path(images[3]["file"]).name})
        for node in ("node1", "node2"):
            said = self.tool("ompi-restart", "--bring", reference, CRYO_NODE=node).stdout
            self.assertIn(f"of node {node}", said)
        shutil.rmtree(self.near)
        for image in images:
            Path(image["file"]).unlink()
        self.check_whole(reference, self.NODES + 1, 5000)
        self.assertFalse(list(Path(self.store).glob("*/*/.brought")))

    def test_a_healing_that_was_killed_is_done_again(self):
        """What it leaves: an image without what is said of it, and a directory of work."""
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job)
        job.kill()
        images = [Path(image["file"]) for image in self.info(reference)["images"]]
        texts = [(image.parent / "snapshot_meta.data").read_bytes() for image in images]
        for image in images[:2]:
            (image.parent / "snapshot_meta.data").unlink()
        images[1].unlink()
        left = images[0].parents[1] / ".healed" / "node.1" / images[1].parent.name
        left.mkdir(parents=True)
        (left / images[1].name).write_bytes(b"half an image")
        self.tool("ompi-restart", "--heal", reference)
        self.assertEqual(texts, [(image.parent / "snapshot_meta.data").read_bytes()
                                 for image in images])
        self.assertFalse((images[0].parents[1] / ".healed").exists())
        (images[0].parent / "snapshot_meta.data").unlink() # a restart writes it as well
        self.check_whole(reference, self.NODES + 1, 5000)

    def test_metadata_that_others_may_write_heal_nothing(self):
        job = self.start_on_nodes()
        reference = self.save_in_sets(job)
        job.kill()
        lost = Path(self.info(reference)["images"][1]["file"])
        lost.unlink()
        metadata = lost.parents[2] / "global_snapshot_meta.data"
        metadata.chmod(0o666)
        for options in (("--heal",), ("--mpirun", jobs.MPIRUN)):
            refused = self.tool("ompi-restart", *options, reference, code=errno.EACCES)
            self.assertIn(str(metadata), refused.stderr)
        self.tool("ompi-restart", "--bring", reference, code=errno.EACCES, CRYO_NODE="node0")
        self.assertFalse(lost.exists())
        self.assertFalse(list(lost.parents[1].glob(".[bh]*")))
        metadata.chmod(0o600)
        self.tool("ompi-restart", "--heal", reference)
        self.assertTrue(lost.exists())

    @contextlib.contextmanager
    def seen_everywhere(self, node):
        """The directories of all nodes are that of one."""
        names = [f"node{n}" for n in range(self.NODES)]
        for name in names:
            (self.near / name).rename(self.near / f"real.{name}")
            (self.near / name).symlink_to(f"real.{node}")
        yield
        for name in names:
            (self.near / name).unlink()
            (self.near / f"real.{name}").rename(self.near / name)

    def test_one_path_is_another_directory_on_each_node(self):
        """As /dev/shm: what is seen under it where the restart runs is of one node only."""
        for options, brings in ((("--redundancy", "xor"), ("node0",)), ((), ("node0", "node1"))):
            with self.subTest(options=options):
                job = self.start_on_nodes(steps=5000)
                reference, _ = self.save(job, "--local", self.near / "%N", *options)
                job.kill()
                images = [Path(image["file"]) for image in self.info(reference)["images"]]
                for node in brings:
                    with self.seen_everywhere(node):
                        self.tool("ompi-restart", "--bring", reference, CRYO_NODE=node)
                here = contextlib.ExitStack()
                self.addCleanup(here.close)
                here.enter_context(self.seen_everywhere("node2"))
                if options:
                    refused = self.tool("ompi-restart", "--bring", reference, CRYO_NODE="node1",
                                        code=errno.ENOENT)
                    self.assertIn("is here that of node node2, not of node1", refused.stderr)
                for image in images:
                    image.unlink()
                self.check_whole(reference, self.NODES + 1, 5000)
                here.close()

    def test_rot_is_named_and_healed(self):
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job)
        job.kill()
        images = self.info(reference)["images"]
        shared, near = Path(images[0]["file"]), Path(images[0]["local"])
        near = near / shared.name
        good = shared.read_bytes()
        for file in (shared, near):
            file.chmod(0o600)
            rotten = bytearray(good)
            for at in range(0, len(good), 65536): # in each block
                rotten[at] ^= 1
            file.write_bytes(rotten)
        healed = self.tool("ompi-restart", "--heal", reference)
        self.assertIn(f"{shared}: is not what was saved", healed.stderr)
        self.assertIn(f"{near}: is not what was saved", healed.stderr)
        self.assertEqual(shared.read_bytes(), good)
        # Beside a lost node, a rotten block of another one is too much: it is not built in.
        self.lose(reference, "node1")
        refused = self.tool("ompi-restart", "--mpirun", jobs.MPIRUN, reference, code=errno.ENODATA)
        self.assertRegex(refused.stderr, "row [0-9]+ of the set lacks the blocks of")
        self.assertIn("node0", refused.stderr)
        self.assertFalse(Path(images[1]["file"]).exists())

    def test_what_cannot_be_is_refused(self):
        job = self.start_on_nodes()
        for options, code, said in (
                (("--redundancy", "xor"), errno.EINVAL, "(--local)"),
                (("--local", self.near / "%N", "--redundancy", "raid"), errno.EINVAL,
                 "'raid' is no redundancy"),
                (("--local", self.near / "%N", "--redundancy", "rs:3"), errno.EINVAL,
                 "rs:3 needs sets of at least 4 nodes"),
                (("--local", self.near / "%N", "--racks", "/dev/null"), errno.EINVAL,
                 "name a --redundancy"),
                (("--local", self.near, "--redundancy", "xor"), errno.ENOENT,
                 "name a directory that each node has for itself"),
        ):
            refused = self.tool("ompi-checkpoint", *options, job.pid, code=code)
            self.assertIn(said, refused.stderr)
        self.assertEqual(self.tool("ompi-checkpoint", "--list", "--json").stdout, "[]\n")

    def test_racks(self):
        racks = Path(self.scratch, "racks.toml")
        racks.write_text('[racks]\nnorth = ["node0", "node1"]\nsouth = ["node2", "node3"]\n')
        job = self.start_on_nodes(4)
        reference = self.save_in_sets(job, "xor", "--racks", racks)
        sets = self.info(reference)["sets"]
        self.assertEqual(len(sets), 2)
        for one in sets:
            self.assertEqual(len({node in ("node0", "node1") for node in one}), 2, sets)
        racks.write_text('[racks]\nnorth = ["node0", "node1", "node2"]\n')
        refused = self.tool("ompi-checkpoint", "--local", self.near / "%N", "--redundancy", "xor",
                            "--racks", racks, job.pid, code=errno.ENOENT)
        self.assertIn("says nothing of node node3", refused.stderr)

    def test_daemon_dies_while_it_encodes(self):
        """It stands still before; where the parity was quicker still, that is whole."""
        job = self.start_on_nodes(FAKE_MEGABYTES="16")
        reference = self.save_in_sets(job)
        first = self.levels("node0")
        tool = self.tool_running("--local", self.near / "%N", "--redundancy", "xor", job.pid)
        daemon = next(pid for pid in job.status()["daemons"]
                      if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes())
        self.until_state(tool, "finished locally")
        os.kill(daemon, signal.SIGSTOP)
        self.until_state(tool, "encoding")
        os.kill(daemon, signal.SIGKILL)
        end = self.end_of(tool)
        if "redundancy" not in end: # it may have been over by then
            self.assertRegex("\n".join(end["notices"]), "node node[012] has ended")
            self.assertNotIn("redundancy", self.info(reference))
        self.assertEqual(end["seq"], 1)
        whole = json.loads(self.tool("ompi-restart", "--info", "--json", reference).stdout)[0]
        self.assertEqual(whole["redundancy"], "xor")
        self.assertTrue(set(first) <= set(self.levels("node0")) or "redundancy" in end)

    def test_job_ends_while_it_encodes(self):
        """One set is over, and the other one cannot be: a daemon of it stands still until then."""
        racks = Path(self.scratch, "racks.toml")
        racks.write_text('[racks]\nnorth = ["node0", "node1"]\nsouth = ["node2", "node3"]\n')
        job = self.start_on_nodes(4, FAKE_MEGABYTES="16", CRYO_DEADLINE=str(jobs.PATIENCE))
        tool = self.tool_running("--local", self.near / "%N", "--redundancy", "xor", "--racks",
                                 racks, job.pid)
        daemon = next(pid for pid in job.status()["daemons"]
                      if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes())
        self.until_state(tool, "finished locally")
        os.kill(daemon, signal.SIGSTOP)
        self.addCleanup(lambda: jobs.is_alive(daemon) and os.kill(daemon, signal.SIGCONT))
        parity = f"node*/cryo-{os.geteuid()}/*/parity"
        jobs.wait_for(lambda: len(list(self.near.glob(parity))) >= 2, "one set's parity")
        os.kill(job.pid, signal.SIGTERM)
        job.end(143)
        jobs.wait_for(lambda: not job.status()["ranks"], "the end of the ranks")
        os.kill(daemon, signal.SIGCONT)
        self.assertEqual(self.end_of(tool).get("redundancy"), "xor")
        for file in ("parity", "committed"):
            names = f"node*/cryo-{os.geteuid()}/*/{file}"
            jobs.wait_for(lambda names=names: len(list(self.near.glob(names))) == 4,
                          f"the file {file} of each node")
        jobs.wait_for(lambda: not job.status()["daemons"], "the end of the daemons")

    def test_daemon_that_stands_still_is_named(self):
        job = self.start_on_nodes(CRYO_DEADLINE="2", FAKE_MEGABYTES="16")
        tool = self.tool_running("--local", self.near / "%N", "--redundancy", "xor", job.pid)
        daemon = next(pid for pid in job.status()["daemons"]
                      if b"--node" in Path(f"/proc/{pid}/cmdline").read_bytes())
        self.until_state(tool, "finished locally")
        os.kill(daemon, signal.SIGSTOP)
        self.addCleanup(lambda: jobs.is_alive(daemon) and os.kill(daemon, signal.SIGCONT))
        end = self.end_of(tool)
        if "redundancy" not in end:
            self.assertRegex("\n".join(end["notices"]), "node node[012]: its daemon has said nothing")
        os.kill(daemon, signal.SIGCONT)

    def test_full_disk(self):
        """A limit on the size of files does what a full disk does: parity is larger than any image
        of this job where a node keeps the images of two ranks."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        job = self.start(3, 200000, FAKE_NODES="2", FAKE_MEGABYTES="8")
        reference = self.save_in_sets(job)
        most = max(image["bytes"] for image in self.info(reference)["images"])
        for pid in job.everything():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most + (1 << 20), hard))
        done = self.tool("ompi-checkpoint", "--json", "--local", self.near / "%N", "--redundancy",
                         "xor", job.pid)
        end = json.loads(done.stdout.splitlines()[-1])
        self.assertNotIn("redundancy", end)
        self.assertRegex("\n".join(end["notices"]), "node node[01]: .*parity.*File too large")
        found = self.info(reference)
        self.assertNotIn("redundancy", found)
        for image in found["images"]: # the local level is whole
            self.assertEqual((Path(image["local"]) / Path(image["file"]).name).stat().st_size,
                             image["bytes"])
        levels = {Path(image["local"]).parent for image in found["images"]}
        jobs.wait_for(lambda: not any((level / "parity").exists() for level in levels),
                      "the removal of parity that others lack")

    def test_held_and_ended(self):
        job = self.start_on_nodes(steps=5000)
        reference = self.save_in_sets(job, "xor", "--term")
        job.end(143)
        self.assertEqual(self.info(reference)["redundancy"], "xor")
        self.lose(reference, "node2")
        self.check_whole(reference, self.NODES + 1, 5000)

    def test_parameters_of_the_job(self):
        job = self.start_on_nodes(OMPI_MCA_hook_cryo_local=str(self.near / "%N"),
                                  OMPI_MCA_hook_cryo_redundancy="partner")
        reference, _ = self.save(job)
        self.assertEqual(self.info(reference)["redundancy"], "partner")

    def test_nothing_without_it(self):
        job = self.start_on_nodes()
        reference, _ = self.save(job, "--local", self.near / "%N")
        self.assertNotIn("redundancy", self.info(reference))
        self.assertFalse(list(self.near.glob("node*/cryo-*/*/parity")))


if __name__ == "__main__":
    jobs.main()
