#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Prometheus that scrapes cr_metrics, answers queries, and evaluates the alerts; all of it on loopback.

    test_prometheus.py DIRECTORY-OF-COMMANDS DIRECTORY-OF-RULES
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

import serving
from waiting import PATIENCE, wait_until

RULES = os.path.join(os.path.abspath(sys.argv.pop(2)), "cryo.rules.yml")
DAY = 86400


class Scraped(serving.Case):
    def setUp(self):
        super().setUp()
        self.data = tempfile.mkdtemp(prefix="cryo-prometheus.")
        self.addCleanup(shutil.rmtree, self.data)
        self.log = os.path.join(self.data, "log")
        self.prometheus = None
        self.web = None

    def start_prometheus(self):
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [RULES],
            "scrape_configs": [{"job_name": "cryo", "static_configs": [{"targets": [f"127.0.0.1:{self.port}"]}]}]}
        path = os.path.join(self.data, "prometheus.yml")
        with open(path, "x", encoding="utf-8") as file:
            json.dump(settings, file) # YAML, too
        with open(self.log, "xb") as log:
            self.prometheus = subprocess.Popen( # pylint: disable=consider-using-with
                ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.data}/tsdb",
                 "--web.listen-address=127.0.0.1:0"], cwd=self.data, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end_prometheus)
        self.web = wait_until("the port of Prometheus", self.port_of_prometheus, describe=self.log_text)

    def end_prometheus(self):
        self.prometheus.terminate()
        self.prometheus.wait(PATIENCE)

    def log_text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def port_of_prometheus(self):
        self.assertIsNone(self.prometheus.poll(), self.log_text())
        found = re.search(r'msg="Listening on" address=127\.0\.0\.1:(\d+)', self.log_text())
        return found and int(found[1])

    def api(self, path, **query):
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=PATIENCE)
        try:
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status == http.client.SERVICE_UNAVAILABLE:
            return None # it is still reading its data
        self.assertEqual(200, answer.status, text)
        return json.loads(text)["data"]

    def query(self, expression):
        """By the labels' values, in the order of their names."""
        data = self.api("query", query=expression)
        if data is None:
            return {}
        return {tuple(value for name, value in sorted(one["metric"].items()) if not name.startswith("__")):
                float(one["value"][1]) for one in data["result"]}

    def alerts(self):
        data = self.api("alerts")
        return {(one["labels"]["alertname"], one["labels"].get("pid")): one["state"]
                for one in (data["alerts"] if data else [])}

    def test_values_and_alerts(self):
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        old = time.time() - DAY
        stop = 'cryo_checkpoint_stop_seconds{pid="412",command="solver"} 40.5\n'
        self.write("cryo-412.prom", serving.program(412, 3, int(old)) + stop)
        self.write("cryo-413.prom", serving.program(413, 7, int(time.time())))
        self.write("cryo-414.prom", "nonsense\n")
        self.serve()
        self.start_prometheus()
        where = f"127.0.0.1:{self.port}"
        wait_until("the first values", lambda: self.query("cryo_checkpoints_total"), describe=self.log_text)
        self.assertEqual({("solver", where, "cryo", "412", user): 3, ("solver", where, "cryo", "413", user): 7},
                         self.query("cryo_checkpoints_total"))
        self.assertEqual({(where, "cryo"): 1}, self.query("up"))
        age = self.query('time() - cryo_last_checkpoint_timestamp_seconds{pid="412"}')
        self.assertLess(abs(age["solver", where, "cryo", "412", user] - DAY), 10 * PATIENCE)
        self.assertEqual({(where, "cryo", "form", user): 1}, self.query("cryo_metrics_refused"))
        # All but one wait for minutes before they fire.
        expected = {("CryoStandsStillLong", "412"): "firing", ("CryoImageIsOld", "412"): "pending",
                    ("CryoFilesAreNotUsed", None): "pending"}
        wait_until("the alerts", lambda: self.alerts() == expected,
                   describe=lambda: f"{self.alerts()}\n{self.log_text()}")
        # What is counted meanwhile arrives, and what has ended goes.
        os.unlink(self.path("cryo-412.prom"))
        os.unlink(self.path("cryo-413.prom"))
        self.write("cryo-413.prom", serving.program(413, 8, int(time.time())))
        wait_until("the next value", lambda: self.query("cryo_checkpoints_total") ==
                   {("solver", where, "cryo", "413", user): 8}, describe=self.log_text)
        wait_until("the end of its alerts", lambda: ("CryoStandsStillLong", "412") not in self.alerts())

    def test_server_that_is_gone(self):
        self.serve()
        self.start_prometheus()
        wait_until("a scrape", lambda: 1 in self.query("up").values(), describe=self.log_text)
        self.assertEqual(0, self.end())
        wait_until("that it is down", lambda: 0 in self.query("up").values(), describe=self.log_text)


if __name__ == "__main__":
    serving.main()
