#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that people run, as trees: each is saved and killed at a random moment and brought back.

    test_real.py DIRECTORY-OF-COMMANDS NAME [--rounds N] [--seed S]

What it has printed in the end, and its exit status, are those of an undisturbed run.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402

PATIENCE = 60

PIPELINE = r"""
for i in $(seq 1 60); do echo "$i line of text $((i * i))"; sleep 0.02; done |
    sed 's/1/one/g' | grep -v 7 | tr a-z A-Z | sort -r | awk '{ n += NF; print n, $0 }'
"""
MAKEFILE = """
all: $(foreach i,1 2 3 4 5 6 7 8 9 10 11 12,part$(i))
\t@cat $^ | sort; echo all of them
part%:
\t@sleep 0.2; echo "part $@" > $@
"""
POOL = """
import multiprocessing, time
def square(x):
    time.sleep(0.01)
    return x * x
if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.imap_unordered(square, range(200))))
"""
PERL = r"""
$| = 1;
for my $i (1 .. 20) {
    system("sleep 0.03; echo line $i") == 0 or die;
    my $text = `echo back $i`;
    print $text;
}
"""
# The job in the background outlives the count of jobs, however slow the machine is.
JOBS = """
set -m
(for i in 1 2 3 4 5 6; do sleep 0.1; done
 until [ -e counted ]; do sleep 0.01; done; echo background >> order) &
(for i in 1 2 3; do sleep 0.1; echo fore $i; done)
jobs | grep -c Running
> counted
fg %1 > /dev/null
cat order
trap 'echo end; exit 7' EXIT
"""
EDITOR = r"""
import os, pty, select, signal, sys
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    os.execvp("vi", ["vi", "-u", "NONE", "-i", "NONE", "-n", "text"])
def see(seconds):
    while select.select([terminal], [], [], seconds)[0]:
        try:
            if not os.read(terminal, 4096):
                return
        except OSError:
            return
for i in range(1, 41):
    os.write(terminal, b"oline %d\x1b" % i if i % 4 else b"dd:s/line/LINE/\r:put ='expr %d'\r" % i)
    see(0.03)
os.write(terminal, b":wq\r")
see(1)
status = os.waitpid(child, 0)[1]
print(open("text").read(), status)
"""
# Java's threads, its collector of garbage, and code that it makes as it goes.
JAVA = """
import java.util.ArrayList;
import java.util.concurrent.*;
public class Sums {
    static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        ArrayList<byte[]> garbage = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            ArrayList<Future<Long>> parts = new ArrayList<>();
            for (int part = 0; part < 3; part++) {
                final int n = 15 + (i + part) % 10;
                parts.add(pool.submit(() -> fibonacci(n)));
            }
            long sum = 0;
            for (Future<Long> part : parts)
                sum += part.get();
            garbage.add(new byte[200000]);
            if (i % 20 == 19)
                garbage.clear();
            System.out.println(i + " " + sum);
            Thread.sleep(10);
        }
        pool.shutdown();
    }
}
"""
# A worker thread, and connections of the program to itself.
NODE = """
const {Worker, isMainThread, parentPort} = require("worker_threads");
const http = require("http");
if (!isMainThread) {
    parentPort.on("message", (n) => {
        let sum = 0;
        for (let i = 0; i < 200000; i++)
            sum += i % (n + 2);
        parentPort.postMessage(sum);
    });
} else {
    const worker = new Worker(__filename);
    const server = http.createServer((_, answer) => answer.end("answer")).listen(0, "127.0.0.1");
    let n = 0;
    worker.on("message", (sum) => {
        const to = {host: "127.0.0.1", port: server.address().port, agent: false};
        http.get(to, (answer) => {
            let text = "";
            answer.on("data", (part) => text += part);
            answer.on("end", () => {
                console.log(n, sum, text);
                if (++n < 60)
                    setTimeout(() => worker.postMessage(n), 10);
                else
                    worker.terminate().then(() => server.close());
            });
        });
    });
    server.on("listening", () => worker.postMessage(0));
}
"""
# Goroutines have hardly any stack; one thread waits for signals only, with all others blocked.
GO = """
package main

import (
    "fmt"
    "io"
    "net"
    "net/http"
    "os"
    "os/exec"
    "os/signal"
    "strings"
    "syscall"
    "time"
)

func main() {
    listener, err := net.Listen("tcp", "127.0.0.1:0")
    if err != nil {
        panic(err)
    }
    told := make(chan os.Signal, 1)
    signal.Notify(told, syscall.SIGUSR1)
    http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
        body, _ := io.ReadAll(r.Body)
        fmt.Fprintf(w, "%s %d", r.URL.Path, len(body))
    })
    go http.Serve(listener, nil)
    for i := 0; i < 60; i++ {
        url := fmt.Sprintf("http://%s/%d", listener.Addr(), i)
        answer, err := http.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", i*1000)))
        if err != nil {
            panic(err)
        }
        body, _ := io.ReadAll(answer.Body)
        answer.Body.Close()
        syscall.Kill(os.Getpid(), syscall.SIGUSR1)
        fmt.Println(string(body), <-told)
        if i%10 == 0 {
            said, err := exec.Command("echo", "said").Output()
            fmt.Println(string(said), err)
        }
        time.Sleep(10 * time.Millisecond)
    }
}
"""
SESSION = """
for i in $(seq 1 15); do echo tick $i; echo tick $i >> ticks; sleep 0.06; done
mv ticks result
"""


class Failed(Exception):
    pass


class Subject:
    """A program in a directory of its own."""

    def __init__(self, name, scratch, files, command):
        self.name = name
        self.directory = tempfile.mkdtemp(prefix=f"{name}.", dir=scratch)
        for file, text in files.items():
            with open(self.path(file), "w", encoding="utf-8") as out:
                out.write(text)
        self.command = command

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, prefix=()):
        with open(self.path("out"), "wb") as out:
            return subprocess.Popen([*prefix, *self.command], cwd=self.directory, stdout=out,
                                    stdin=subprocess.DEVNULL, start_new_session=True)

    def printed(self):
        with open(self.path("out"), "rb") as out:
            return out.read()

    def root(self, process):
        """The process that is to be saved with all its descendants."""
        return process.pid

    def ended(self, process):
        status = process.wait(PATIENCE)
        return self.printed(), status

    def clean(self):
        pass


class Tmux(Subject):
    """The server of a terminal multiplexer: it makes itself a daemon, and people come and go."""

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.path("socket"), *words], capture_output=True,
                              text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL)

    def root(self, process):
        if process.wait(PATIENCE) != 0:
            raise Failed("tmux does not start")
        return int(self.tmux("display-message", "-p", "#{pid}").stdout)

    def ended(self, process):
        end = time.monotonic() + PATIENCE
        while not os.path.exists(self.path("result")):
            if time.monotonic() > end:
                raise Failed("the session does not come to its end; it shows "
                             + self.tmux("capture-pane", "-p").stdout)
            time.sleep(0.01)
        with open(self.path("result"), "rb") as file:
            result = file.read()
        # The session may have been at its end when it was saved: the server is not back yet then.
        while (shown := self.tmux("capture-pane", "-p")).returncode != 0:
            if time.monotonic() > end:
                raise Failed(f"the server does not answer: {shown.stderr}")
            time.sleep(0.01)
        if "tick 15" not in shown.stdout:
            raise Failed(f"the session shows {shown.stdout!r}")
        self.clean()
        return result, 0

    def clean(self):
        self.tmux("kill-server")


def compiled_go(scratch):
    program = os.path.join(scratch, "program")
    if not os.path.exists(program):
        source = program + ".go"
        with open(source, "w", encoding="utf-8") as out:
            out.write(GO)
        # Linked with the C library, as Go does for package net: a library can then be preloaded.
        settings = {"GOCACHE": os.path.join(scratch, "cache"), "GO111MODULE": "off",
                    "CGO_ENABLED": "1"}
        subprocess.run(["go", "build", "-o", program, source], check=True, timeout=10 * PATIENCE,
                       env=os.environ | settings, stdin=subprocess.DEVNULL)
    return program


def subject(name, scratch):
    python = sys.executable
    if name == "go":
        return Subject(name, scratch, {}, [compiled_go(scratch)])
    made = {
        "pipeline": ({"run": PIPELINE}, ["bash", "run"]),
        "make": ({"Makefile": MAKEFILE}, ["make", "-s", "-j4"]),
        "pool": ({"run.py": POOL}, [python, "run.py"]),
        "perl": ({"run.pl": PERL}, ["perl", "run.pl"]),
        "editor": ({"run.py": EDITOR}, [python, "run.py"]),
        "java": ({"Sums.java": JAVA}, ["java", "Sums.java"]),
        "node": ({"run.js": NODE}, ["node", "run.js"]),
        "jobs": ({"run": JOBS}, ["script", "-qec", "bash -i run", "/dev/null"]),
    }
    if name == "tmux":
        return Tmux(name, scratch, {"run": SESSION},
                    ["tmux", "-S", "socket", "-f", "/dev/null", "new-session", "-d", "-x", "80",
                     "-y", "24", "sh run; cat"])
    return Subject(name, scratch, *made[name])


class Test:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.random = random.Random(options.seed)

    def tool(self, name):
        return os.path.join(self.options.bin, name)

    def undisturbed(self):
        one = subject(self.options.name, self.scratch)
        begun = time.monotonic()
        process = one.start()
        one.root(process)
        result = one.ended(process)
        return result, time.monotonic() - begun

    @staticmethod
    def await_end(root):
        """A tree's orphans are ours to wait for: then their ids are free."""
        end = time.monotonic() + PATIENCE
        while processes.state(root) or processes.children(os.getpid()):
            if time.monotonic() > end:
                raise Failed("killed processes do not end")
            processes.reap()
            time.sleep(0.002)

    def round(self, expected, took):
        """One run: saved, killed, brought back. False: it had ended before it was saved."""
        one = subject(self.options.name, self.scratch)
        image = one.path("image")
        process = one.start([self.tool("cr_run")])
        try:
            root = one.root(process)
            time.sleep(self.random.random() * took * 0.9)  # the random moment
            saved = subprocess.run([self.tool("cr_checkpoint"), "-q", "--kill", "-f", image,
                                    str(root)], capture_output=True, text=True, check=False,
                                   timeout=PATIENCE)
            if saved.returncode != 0:
                if one.ended(process) == expected:
                    return False  # it was at its end
                raise Failed(f"cr_checkpoint: {saved.returncode}: {saved.stderr}")
            process.wait(PATIENCE)
            self.await_end(root)
            back = subprocess.Popen([self.tool("cr_restart"), "-q", *self.options.ids, image],
                                    stdin=subprocess.DEVNULL, cwd=one.directory,
                                    stderr=subprocess.PIPE, text=True)
            try:
                found = one.ended(back)
            finally:
                errors = back.communicate(timeout=PATIENCE)[1]
            if found != expected:
                raise Failed(f"gives {found}, undisturbed {expected}; cr_restart: {errors}")
            return True
        finally:
            one.clean()
            if process.poll() is None:
                process.kill()
            processes.kill_family(os.getpid())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("name")
    parser.add_argument("--pidns", action="store_true",
                        help="as a plain user, each restart in a pid namespace of its own")
    parser.add_argument("--rounds", type=int, default=10 if os.environ.get("CRYO_SOAK") else 2)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    options = parser.parse_args()
    # Keeping the ids needs a privilege; the programs here can do without.
    options.bin = os.path.abspath(options.bin)
    processes.have_own_network()  # for the ports of programs that are killed and come back
    if options.pidns:
        processes.become_plain_user(options.bin)
        options.ids = ["--pidns"]
    else:
        options.ids = [] if os.geteuid() == 0 else ["--no-restore-pid"]
    print(f"seed {options.seed}", flush=True)
    scratch = tempfile.mkdtemp(prefix="cryo-real.")
    processes.adopt_orphans()
    try:
        test = Test(options, scratch)
        expected, took = test.undisturbed()
        saved = sum(test.round(expected, took) for _ in range(options.rounds))
    except Failed as failure:
        print(f"FAILED with seed {options.seed}: {failure} (files: {scratch})")
        return 1
    shutil.rmtree(scratch)
    print(f"{options.rounds} runs, {saved} of them saved, killed and brought back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
