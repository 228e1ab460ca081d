#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the roles of the Ansible collection would do on this machine (--check); nothing is changed.

    test_ansible.py ANSIBLE-PLAYBOOK ROLES
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROLES = os.path.abspath(sys.argv.pop(2))
PLAYBOOK = sys.argv.pop(1)
PATIENCE = 120
PLAY = """
- hosts: localhost
  connection: local
  tasks:
    - ansible.builtin.include_role:
        name: "{{ role }}"
"""


class Roles(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-ansible.")
        self.addCleanup(shutil.rmtree, self.top)
        self.package = os.path.join(self.top, "cryo_0_amd64.deb")
        for name, text in ((self.package, ""), (os.path.join(self.top, "play.yml"), PLAY)):
            with open(name, "x", encoding="ascii") as file:
                file.write(text)

    def play(self, role, **settings):
        """The tasks by their names, and what was said of each."""
        settings.update(role=role, ansible_python_interpreter="/usr/bin/python3")
        done = subprocess.run([PLAYBOOK, "--check", "-i", "localhost,", "-e", json.dumps(settings),
                               "play.yml"], cwd=self.top, text=True, capture_output=True, check=False,
                              timeout=PATIENCE,
                              env={**os.environ, "ANSIBLE_ROLES_PATH": ROLES, "HOME": self.top,
                                   "ANSIBLE_NOCOLOR": "1"})
        tasks = re.findall(rf"^TASK \[{role} : (.*?)\] \*+\n((?:.+\n)*)", done.stdout, re.MULTILINE)
        self.assertTrue(tasks, done.stdout + done.stderr)
        return dict(tasks)

    def test_tools(self):
        place = os.path.join(self.top, "place")
        tasks = self.play("tools", tools_packages=[self.package], tools_directory=place)
        self.assertIn("changed:", tasks["Have a directory for the packages"])
        self.assertIn("changed:", tasks["Copy the packages"])
        self.assertFalse(os.path.exists(place), "--check changes nothing")
        self.assertEqual("skipping: [localhost]\n", tasks["Install them (RHEL)"])
        self.assertNotIn("fatal:", "".join(tasks.values()))

    def test_tools_that_are_there(self):
        """A second run copies nothing."""
        place = os.path.join(self.top, "place")
        os.mkdir(place, 0o700)
        copy = os.path.join(place, os.path.basename(self.package))
        shutil.copy(self.package, copy)
        os.chmod(copy, 0o600)
        settings = {"tools_packages": [self.package], "tools_directory": place}
        tasks = self.play("tools", **settings)
        for name in "Have a directory for the packages", "Copy the packages":
            if os.geteuid() == 0: # they are root's, then
                self.assertRegex(tasks[name], r"^ok: ")
        self.assertIn("Install them (Debian)", tasks)

    def make_package(self, name, version, needs):
        tree = os.path.join(self.top, name)
        os.makedirs(os.path.join(tree, "DEBIAN"))
        with open(os.path.join(tree, "DEBIAN", "control"), "x", encoding="ascii") as file:
            file.write(f"Package: {name}\nVersion: {version}\nArchitecture: all\nDepends: {needs}\n"
                       "Maintainer: Nobody <nobody@example.org>\nDescription: For a test\n")
        package = os.path.join(self.top, "place", f"{name}_{version}_all.deb")
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, package], check=True,
                       capture_output=True, timeout=PATIENCE)
        return package

    @unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("apt-get"), "this is no Debian")
    def test_packages_that_need_each_other(self):
        """They are installed in one transaction: of those of another version, neither could be alone."""
        place = os.path.join(self.top, "place")
        os.mkdir(place, 0o700)
        packages = [self.make_package("cryo-test-a", "1.2", "cryo-test-b (= 1.2)"),
                    self.make_package("cryo-test-b", "1.2", "cryo-test-a (= 1.2)")]
        tasks = self.play("tools", tools_packages=packages, tools_directory=place)
        self.assertRegex(tasks["Install them (Debian)"], r"^changed: ")

    def test_what_is_refused(self):
        first = "Know the family of the system, and what to install"
        for role, settings, said in (
                ("tools", {"tools_packages": []}, "name them by tools_packages"),
                ("tools", {"tools_packages": [self.package], "ansible_os_family": "Suse"}, "(Suse, "),
                ("module", {"module_packages": []}, "which module_packages names"),
                ("module", {"module_packages": [self.package], "ansible_os_family": "RedHat"},
                 "Debian's package cryo-dkms")):
            tasks = self.play(role, **settings)
            self.assertRegex(tasks[first], "^fatal: ")
            self.assertIn(said, tasks[first])
            self.assertEqual(first, list(tasks)[-1], "no task follows")


if __name__ == "__main__":
    unittest.main()
