"""Runs on several hosts, which are network namespaces of this machine (hosts.py)."""
import signal
import subprocess
import sys
import unittest

import hosts as namespaces
from processes import TORCHRUN, ProcessesTest, free_port, has_updates, listening, mpirun, rank_environment
from support import FULL, TINY, program, slow, words

NO_HOSTS = namespaces.available()

RECEIVE = """
import socket, sys
with socket.create_server((sys.argv[1], 5000)) as server:
    print("listens", flush=True)
    peer, _ = server.accept()
    while peer.recv(1 << 20):
        pass
"""
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5000)) as peer:
    begin = time.monotonic()
    peer.sendall(bytes(int(sys.argv[2])))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)  # the other has read all of it
    print(time.monotonic() - begin)
"""


class HostsCase(ProcessesTest):
    def make_hosts(self, count=2, **links):
        made = namespaces.Hosts(count, **links).__enter__()
        self.addCleanup(made.close)
        return made

    def torchrun(self, hosts, workers, *arguments, settings=(), rendezvous="static"):
        """On every host at once, as a user would start it by hand."""
        job, port = self.job(), free_port()
        for host in range(hosts.count):
            where = (["--node-rank", host, "--master-addr", hosts.address(0), "--master-port", port]
                     if rendezvous == "static" else
                     ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{hosts.address(0)}:{port}", "--rdzv-id", "tests",
                      "--local-addr", hosts.address(host)])
            job.start(hosts.command(host, *TORCHRUN, "--nnodes", hosts.count, "--nproc-per-node", workers, *where,
                                    program("TWOBW_BINARY", "twobw"), *arguments, *words(dict(settings))))
        return job


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class HostsTest(HostsCase):
    def test_they_are_hosts(self):
        """A name, an address and a loopback of its own each; a link no faster than its rate; nothing stays behind."""
        with namespaces.Hosts(2, rate="100mbit") as hosts:
            receiver = subprocess.Popen(hosts.command(0, sys.executable, "-c", RECEIVE, hosts.address(0)),
                                        stdout=subprocess.PIPE, text=True)
            self.assertEqual(receiver.stdout.readline(), "listens\n")
            megabytes = 4
            sent = subprocess.run(hosts.command(1, sys.executable, "-c", SEND, "host0", megabytes << 20),
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(sent.returncode, 0, sent.stderr)
            at_best = (megabytes * 2**20 - 2**18) * 8 / 100e6  # a part of it passes at once
            self.assertGreater(float(sent.stdout), 0.9 * at_best)
            receiver.wait(timeout=10)
            receiver.stdout.close()
            made = [hosts.switch, *map(hosts.namespace, range(2))]
            named = subprocess.run(hosts.command(1, "hostname"), capture_output=True, text=True)
            self.assertEqual(named.stdout, "host1\n")
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        self.assertFalse([name for name in made if name in left], left)

    def test_two_hosts_of_two_workers(self):
        """The pipeline crosses the link once; rank 0 proves the bits of the serial oracle."""
        for rendezvous in ("static", "c10d") if FULL else ("static",):
            with self.subTest(rendezvous=rendezvous):
                job = self.torchrun(self.make_hosts(), 2, "verify", settings={"pipeline.stages": 4},
                                    rendezvous=rendezvous)
                self.assertEqual(job.wait(120), [0, 0], job.everything())
                shown = job.output(0) + job.output(1)
                self.assertEqual(shown.count("equal to the serial oracle, bit for bit"), 1, job.everything())
                job.assert_no_orphans()

    @unittest.skipUnless(mpirun(4), "mpirun is not installed")
    def test_mpirun_on_one_host_starts_processes_on_both(self):
        hosts, job = self.make_hosts(), self.job()
        job.start(hosts.command(0, *mpirun(4), "--host", "host0:2,host1:2", "-x", "MASTER_ADDR=host0", "-x",
                                "TWOBW_JOB_TOKEN", program("TWOBW_BINARY", "twobw"), "verify", "pipeline.stages=4"),
                  {"OMPI_MCA_plm_rsh_agent": namespaces.make_agent(hosts), "TWOBW_JOB_TOKEN": "a token of the tests"})
        self.assertEqual(job.wait(120), [0], job.everything())
        self.assertEqual(job.output().count("equal to the serial oracle, bit for bit"), 1, job.everything())
        job.assert_no_orphans()

    def delayed_hosts(self, **links):
        reason = namespaces.available(delay=True)
        if reason:
            self.skipTest(reason)
        return self.make_hosts(**links)

    def test_delay(self):
        """There and back takes twice as long."""
        hosts = self.delayed_hosts(delay="20ms")
        receiver = subprocess.Popen(hosts.command(0, sys.executable, "-c", RECEIVE, hosts.address(0)),
                                    stdout=subprocess.PIPE, text=True)
        self.assertEqual(receiver.stdout.readline(), "listens\n")
        taken = float(subprocess.check_output(hosts.command(1, sys.executable, "-c", SEND, "host0", 1), text=True))
        self.assertGreaterEqual(taken, 0.04)
        self.assertEqual(receiver.wait(60), 0)
        receiver.stdout.close()

    @slow
    def test_delay_and_loss(self):
        hosts = self.delayed_hosts(delay="20ms", loss="1%")
        job = self.torchrun(hosts, 2, "verify", settings={"pipeline.stages": 4})
        self.assertEqual(job.wait(300), [0, 0], job.everything())

    def test_nothing_listens_everywhere(self):
        """Every socket that listens does so at an address of the hosts' network, or at the loopback."""
        hosts, job, port = self.make_hosts(), self.job(), free_port()
        settings = {**TINY, "pipeline.stages": 2, "train.updates": 10**6, "run_dir": self.folder / "run"}
        for rank in range(2):
            job.start(hosts.command(rank, program("TWOBW_BINARY", "twobw"), "train", *words(settings)),
                      rank_environment(rank, 2, port, hosts.address(0), local_size=1))
        self.assertTrue(job.wait_for(lambda: has_updates(self.folder / "run", 3)), job.everything())
        engines = job.engines()
        self.assertEqual(len(engines), 2, job.everything())
        places = [place for pid in engines for place in listening(pid)]
        own = {hosts.address(0), hosts.address(1), "127.0.0.1", "::1"}
        self.assertTrue(places, "rank 0 listens somewhere")
        self.assertFalse([place for place in places if place[0] not in own], places)
        job.signal(0, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0, 0], job.everything())
