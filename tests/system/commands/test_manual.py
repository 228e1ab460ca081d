#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions name the options that --help names, all of them and no others."""
import os
import re

import case

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def in_manual(command):
    """Of the list of options: ".It Fl f , Fl Fl file Ar file"."""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)", read("man", command + ".1"), re.M):
        words = line.replace(r"\&", "").split()
        for at, word in enumerate(words):
            if word == "Fl" and words[at + 1] != "Fl":
                found.add(("--" if words[at - 1] == "Fl" and at else "-") + words[at + 1])
    return found


class Manual(case.Case):
    def in_help(self, command):
        """Of the left column."""
        text = self.run_command(command, "--help").stdout
        found = set()
        for line in text.splitlines():
            if re.match(r" +-", line):
                column = re.split(r" {2,}| [A-Z:\[]", line.strip())[0]
                found.update(re.findall(r"-{1,2}[\w?][\w-]*", column))
        return found

    def test_pages(self):
        for command in ("cr_run", "cr_checkpoint", "cr_restart", "cr_status", "cr_top", "cr_metrics", "cr_server"):
            self.assertEqual(sorted(self.in_help(command)), sorted(in_manual(command)), command)

    def test_completions(self):
        for command in ("cr_run", "cr_checkpoint", "cr_restart", "cr_status", "cr_top", "cr_metrics", "cr_server"):
            text = read("completions", command)
            words = set(re.findall(r"(?<![\w$-])--?[a-zA-Z][\w-]*(?=[ )|])", text.split("case", 1)[1]))
            patterns = {word for word in words if word.startswith("--")}
            self.assertLessEqual(patterns, self.in_help(command), command)
            self.assertIn("_parse_help", text)

    def test_choices(self):
        """Completions offer the values that --help has for an option."""
        compared = set()
        for command in ("cr_run", "cr_checkpoint", "cr_restart", "cr_top", "cr_metrics", "cr_server"):
            text = self.run_command(command, "--help").stdout
            choices = dict(re.findall(r"(--[\w-]+)(?: |\[=)(\w+(?:\|\w+)+)", text))
            for options, words in re.findall(r'^ +(-[^)]*)\) .*compgen -W "([^"$]*)"',
                                             read("completions", command), re.M):
                for option in choices.keys() & set(options.split(" | ")):
                    self.assertEqual(choices[option].split("|"), words.split(), f"{command} {option}")
                    compared.add(option)
        self.assertLessEqual({"--compress", "--delta", "--snapshot"}, compared)


if __name__ == "__main__":
    case.main()
