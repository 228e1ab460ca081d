#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_store, and restarts from an object store: a real S3 server on loopback, and what may go wrong with it."""
import errno
import http.server
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "commands"))
import case  # noqa: E402
import objects  # noqa: E402
from waiting import wait_until  # noqa: E402

PLACE = f"s3://{objects.BUCKET}/runs/ä +1"
MEMORY = "import random; random.seed(1); kept = random.randbytes(3 << 20)"
PART = 256 << 10


class Store(case.Case):
    def setUp(self):
        super().setUp()
        self.server = objects.Server(self)

    def store(self, verb, *words, code=0, server=None, env=None):
        """With --json: what it says; of an error the text."""
        done = self.run_command("cr_store", verb, "--json", *words, env=env or (server or self.server).environment())
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        for secret in objects.SECRET, objects.STRANGERS_SECRET:
            self.assertNotIn(secret, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        return said["error"]["text"] if code else said

    def image(self, name="image", option="-f"):
        """Of a program that was killed when it was saved."""
        program = self.start(MEMORY)
        self.save("--kill", option, name, program.pid)
        program.wait()
        return name

    def places(self):
        return self.store("list", f"s3://{objects.BUCKET}")["places"]

    def restart_from(self, place, *words, environment=None, temporary=None):
        where = self.path("temporary")
        os.makedirs(where, exist_ok=True)
        settings = environment or self.server.environment(TMPDIR=temporary or where)
        return self.restart(*words, place, env=settings, stderr=subprocess.PIPE), where


class Whole(Store):
    def test_image(self):
        image = self.image()
        with open(self.path(image), "rb") as file:
            saved = file.read()
        said = self.store("push", image, PLACE, "--part-size", PART)
        self.assertEqual((said["kind"], said["files"], said["bytes"], said["sent"]),
                         ("image", 1, len(saved), len(saved)))
        # A second time nothing is sent, however it is cut into parts.
        self.assertEqual(0, self.store("push", image, PLACE)["sent"])
        listed = self.places()
        self.assertEqual([(PLACE, True, len(saved))], [(one["place"], one["complete"], one["bytes"]) for one in listed])
        self.store("verify", PLACE)
        os.unlink(self.path(image))
        said = self.store("pull", PLACE, "back")
        self.assertEqual(self.path("back/image"), said["path"])
        with open(said["path"], "rb") as file:
            self.assertEqual(saved, file.read())
        self.assertEqual(0o600, os.stat(said["path"]).st_mode & 0o7777)
        self.assert_good("back/image")
        self.assertIn("File exists", self.store("pull", PLACE, "back", code=17))

        self.store("remove", PLACE)
        self.assertEqual([], self.places())
        self.assertIn("no such object", self.store("pull", PLACE, "again", code=2))
        self.assertIn("there is no image", self.store("remove", PLACE, code=2))

    def test_restart(self):
        """From the store itself; nothing is left of it."""
        self.store("push", self.image(), f"s3://{objects.BUCKET}/")  # by its own name
        place = f"s3://{objects.BUCKET}/image"
        os.unlink(self.path("image"))
        restarted, where = self.restart_from(place)
        self.assert_alive(restarted)
        wait_until("the end of what was brought", lambda: not os.listdir(where))
        self.end(restarted)
        rehearsed = self.run_command("cr_restart", "--rehearse", place, env=self.server.environment(TMPDIR=where))
        self.assertEqual((0, f"{place}: comes back as it was saved"),
                         (rehearsed.returncode, rehearsed.stdout.split(": 1 process")[0]), rehearsed.stderr)
        self.assertEqual([], os.listdir(where))

    def test_restart_refused(self):
        place = f"s3://{objects.BUCKET}/none"
        restarted, where = self.restart_from(place)
        _, said = restarted.communicate()
        self.assertEqual(2, restarted.returncode)
        self.assertRegex(said, r"^cr_restart: s3://images/none.*: there is no such object")
        self.assertEqual([], os.listdir(where))
        restarted, _ = self.restart_from(place, temporary=self.path("missing"))
        _, said = restarted.communicate()
        self.assertIn("TMPDIR chooses another place", said)
        said = self.run_command("cr_restart", "--interval", "5m", place, env=self.server.environment())
        self.assertIn("--into is needed", said.stderr)

    def test_based(self):
        """With the images that it is based on."""
        program = self.start(MEMORY)
        self.save("-f", "first", program.pid)
        self.save("--delta", "-f", "second", "--kill", program.pid)
        program.wait()
        said = self.store("push", "second", PLACE)
        self.assertEqual(2, said["files"])
        for name in "first", "second":
            os.unlink(self.path(name))
        restarted, _ = self.restart_from(PLACE)
        self.assert_alive(restarted)

    def test_directory(self):
        image = self.image("tree", "--dir")
        said = self.store("push", image, PLACE)
        self.assertEqual("directory", said["kind"])
        restarted, _ = self.restart_from(PLACE)
        self.assert_alive(restarted)

    def test_replaced(self):
        """What another image had there is gone, and nothing else."""
        self.store("push", self.image("one"), PLACE)
        self.store("push", self.image("two"), PLACE)
        said = self.places()
        self.assertEqual(1, len(said))
        self.assertEqual("two", said[0]["name"])
        self.store("verify", PLACE)
        sizes = {os.path.getsize(self.path(name)) for name in ("one", "two")}
        on_disk = [size for size in map(os.path.getsize, self.server.contents()) if size in sizes]
        self.assertEqual(1, len(on_disk))

    def test_no_image(self):
        with open(self.path("text"), "w", encoding="ascii") as file:
            file.write("no image")
        done = self.run_command("cr_store", "push", "text", PLACE, env=self.server.environment())
        self.assertNotEqual(0, done.returncode)
        self.assertEqual([], self.places())


class Faults(Store):
    def test_killed_midway(self):
        """The server dies while it is sent to: what it has got need not be sent again."""
        image = self.image()
        size = os.path.getsize(self.path(image))
        words = "push", image, PLACE, "--part-size", PART, "--connections", 1, "--patience", 0
        with objects.Way(self.server) as way:
            way.cut(after=size // 2, then=self.server.kill)
            said = self.store(*words, env=way.environment(), code=104)
            self.assertIn("the same command again sends what is missing", said)
        self.server.start()
        self.assertEqual([(PLACE, False)], [(one["place"], one["complete"]) for one in self.places()])
        self.assertIn("no such object", self.store("pull", PLACE, "early", code=2))
        self.assertEqual([], [name for name in self.files() if name.startswith("early")])
        with objects.Way(self.server) as way:
            said = self.store(*words, env=way.environment())
            self.assertLess(said["sent"], size * 3 // 4)
            self.assertLess(way.sent, size * 3 // 4)
        self.store("verify", PLACE)
        os.unlink(self.path(image))
        restarted, _ = self.restart_from(PLACE)
        self.assert_alive(restarted)

    def test_back_in_time(self):
        """It is there again before the command has lost its patience: nobody notices."""
        image = self.image()
        size = os.path.getsize(self.path(image))

        def again():
            self.server.kill()
            self.server.start()
        with objects.Way(self.server) as way:
            way.cut(after=size // 2, then=again)
            self.store("push", image, PLACE, "--part-size", PART, env=way.environment())
            way.cut("received", after=size // 2)
            self.store("pull", PLACE, "back", env=way.environment())
            # The read went on where it was cut off.
            self.assertLess(way.received, size * 5 // 4)
        self.assert_good("back/image")

    def test_removed_unfinished(self):
        image = self.image()
        with objects.Way(self.server) as way:
            way.cut(after=os.path.getsize(self.path(image)) // 2)
            done = self.run_command("cr_store", "push", image, PLACE, "--part-size", PART, "--patience", 0,
                                    env=way.environment())
            self.assertNotEqual(0, done.returncode)
        self.store("remove", PLACE)
        self.assertEqual([], self.places())

    def test_what_is_told_is_over(self):
        """Commands that have cr_store do their work end it when it has told its result."""
        self.store("push", self.image(), PLACE)
        removing = self.spawn(case.command("cr_store"), "remove", "--json", PLACE, env=self.server.environment())
        self.assertIn('"place"', removing.stdout.readline())
        removing.kill()
        removing.wait(case.PATIENCE)
        self.assertEqual([], self.server.contents())

    def test_replaced_before_it_is_read(self):
        """As the last image of a series is: what the new one needs was not looked for."""
        image, other = self.image(), self.image("other")
        with objects.Way(self.server) as way:
            way.cut(after=1, then=lambda: os.rename(self.path(other), self.path(image)))
            said = self.store("push", image, PLACE, env=way.environment(), code=errno.EAGAIN)
        self.assertIn("image: was replaced meanwhile", said)
        self.assertEqual([], self.places())

    def test_two_pushes_at_once(self):
        image, other = self.image(), self.image("other")
        self.store("push", other, PLACE)
        refused = []
        with objects.Way(self.server) as way:
            way.cut(after=os.path.getsize(self.path(image)) // 2, then=lambda: refused.extend(
                self.store(*words, code=errno.EBUSY) for words in (("push", other, PLACE), ("remove", PLACE))))
            self.store("push", image, PLACE, env=way.environment())
        self.assertEqual(2, len(refused))
        for said in refused:
            self.assertIn("another cr_store (pid ", said)
        self.store("verify", PLACE)
        self.store("push", other, PLACE)
        self.store("verify", PLACE)

    def test_busy(self):
        """Answers that ask to come later, and in the end not."""
        image = self.image()
        with objects.Way(self.server) as way:
            way.refuse(3)
            self.store("push", image, PLACE, env=way.environment())
            self.assertEqual(3, way.refused)
            way.refuse(1000)
            said = self.store("verify", PLACE, "--patience", 1, env=way.environment(), code=11)
        self.assertRegex(said, r"SlowDown: Reduce your request rate\. \(tried \d+ times\)$")

    def test_no_server(self):
        image = self.image()
        self.server.kill()
        said = self.store("push", image, PLACE, "--patience", 0, code=111)
        self.assertRegex(said, r"http://127\.0\.0\.1:\d+: .*the same command again sends what is missing")

    def flip(self, path, at):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))

    def test_damaged(self):
        """One bit of an object, on the server's disk: no restart, and no file."""
        self.store("push", self.image(), PLACE)
        victim = self.server.contents()[-1]
        self.flip(victim, os.path.getsize(victim) // 2)
        restarted, where = self.restart_from(PLACE)
        output, said = restarted.communicate()
        self.assertEqual((74, ""), (restarted.returncode, output))
        self.assertRegex(said, r"is damaged: the checksum of image is another one")
        self.assertEqual([], os.listdir(where))

    def test_cut_object(self):
        self.store("push", self.image(), PLACE)
        victim = self.server.contents()[-1]
        os.truncate(victim, os.path.getsize(victim) - 1000)
        done = self.run_command("cr_store", "pull", PLACE, "back", "--patience", 1, env=self.server.environment())
        self.assertNotEqual(0, done.returncode)
        self.assertNotIn("back", "".join(self.files()))

    def test_manifest(self):
        """It says what is written where, so it is believed in nothing."""
        self.store("push", self.image(), PLACE)
        manifest = self.server.contents()[0]
        with open(manifest, "rb") as file:
            self.assertIn(b'"cryo":1', file.read())
        self.flip(manifest, os.path.getsize(manifest) // 2)
        done = self.run_command("cr_store", "pull", PLACE, "back", env=self.server.environment())
        self.assertIn(done.returncode, (71, 74, 95), done.stderr)
        self.assertNotIn("back", self.files())

    def test_disk_full(self):
        self.store("push", self.image(), PLACE)

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = self.run_command("cr_store", "pull", PLACE, "back", env=self.server.environment(),
                                preexec_fn=small_files)
        self.assertEqual(27, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"back\.pulled-\w+/image: File too large")
        self.assertEqual(["image"], self.files())

    def test_of_another_user(self):
        """An image of another user is not made one's own by the way there and back."""
        image = self.image()
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        os.chown(self.path(image), 1234, 1234)
        self.assertRegex(self.store("push", image, PLACE, code=13), r"belongs to")


class Access(Store):
    def test_refused(self):
        image = self.image()
        for changes, place, code, text in (
                ({"AWS_SECRET_ACCESS_KEY": "wrong"}, PLACE, 13, "the secret key does not belong to the access key"),
                ({"AWS_ACCESS_KEY_ID": "test:nobody"}, PLACE, 13, "the "),
                ({"AWS_ACCESS_KEY_ID": objects.STRANGER, "AWS_SECRET_ACCESS_KEY": objects.STRANGERS_SECRET}, PLACE, 13,
                 "denies access to it with these credentials"),
                ({}, "s3://nowhere/image", 2, "there is no such bucket"),
                ({"AWS_ACCESS_KEY_ID": None}, PLACE, 13, "no credentials for the object store"),
                ({"AWS_ACCESS_KEY_ID": None, "AWS_PROFILE": "other"}, PLACE, 13, 'a profile "other"'),
                ({"AWS_ENDPOINT_URL": "http://192.0.2.1"}, PLACE, 1, "is without encryption"),
                ({"AWS_ENDPOINT_URL": "ftp://127.0.0.1"}, PLACE, 22, "is no endpoint"),
                ({}, "s3://B/x", 22, "no bucket can have this name"),
                ({}, f"s3://{objects.BUCKET}/../x", 22, 'a part of the name is empty'),
        ):
            with self.subTest(text):
                said = self.store("push", image, place, "--patience", 0, code=code,
                                  env=self.server.environment(**changes))
                self.assertIn(text, said)
        self.assertEqual([], self.places())

    def test_files(self):
        """Credentials in the files that AWS's own command has."""
        image = self.image()
        home = tempfile.mkdtemp(dir=self.directory)
        os.mkdir(os.path.join(home, ".aws"))
        with open(os.path.join(home, ".aws", "credentials"), "w", encoding="ascii") as file:
            file.write(f"[default]\naws_access_key_id = wrong\n\n[mine]\naws_access_key_id={objects.ACCESS}\n"
                       f"aws_secret_access_key = {objects.SECRET}\n")
        with open(os.path.join(home, ".aws", "config"), "w", encoding="ascii") as file:
            file.write(f"[profile mine]\nregion = eu-test-1\nendpoint_url = http://127.0.0.1:{self.server.port}\n")
        settings = self.server.environment(HOME=home, AWS_PROFILE="mine", AWS_ACCESS_KEY_ID=None,
                                           AWS_SECRET_ACCESS_KEY=None, AWS_REGION=None, AWS_ENDPOINT_URL=None)
        self.store("push", image, PLACE, env=settings)
        self.store("verify", PLACE)

    def test_tls(self):
        """A server's certificate must be one that is trusted."""
        key, certificate = self.path("key.pem"), self.path("certificate.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        server = objects.Server(self, "--certificate", certificate, "--key", key)
        image = self.image()
        said = self.store("push", image, PLACE, code=71, env=server.environment(scheme="https"))
        self.assertRegex(said, r"SSL certificate problem")
        settings = server.environment(scheme="https", AWS_CA_BUNDLE=certificate)
        self.store("push", image, PLACE, env=settings)
        restarted, _ = self.restart_from(PLACE, environment=settings)
        self.assert_alive(restarted)

    def test_image_that_is_removed_while_it_is_listed(self):
        class Removing(http.server.BaseHTTPRequestHandler):
            def do_GET(self): # pylint: disable=invalid-name (the library's)
                text, kind = "<ListMultipartUploadsResult/>", 200
                if "list-type=2" in self.path:
                    text = ("<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>gone/cryo.json</Key>"
                            "<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>x</ETag><Size>10</Size>"
                            "</Contents></ListBucketResult>")
                elif "/gone/cryo.json" in self.path:
                    text, kind = "<Error><Code>NoSuchKey</Code></Error>", 404
                self.send_response(kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_): # pylint: disable=arguments-differ
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Removing) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.assertEqual([], self.store("list", f"s3://{objects.BUCKET}",
                                            env=self.server.environment(server.server_port))["places"])
            server.shutdown()

    def test_help(self):
        said = self.run_command("cr_store", "--help").stdout
        for verb in "push", "pull", "list", "verify", "remove":
            self.assertRegex(said, rf"(?m)^ +{verb} ")
        self.assertEqual(255, self.run_command("cr_store").returncode)
        said = self.run_command("cr_store", "push", "x", PLACE, "--connections", "0")
        self.assertEqual(255, said.returncode)
        self.assertTrue(re.search("above 0", said.stderr), said.stderr)


if __name__ == "__main__":
    case.main()
