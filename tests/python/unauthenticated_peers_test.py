"""Unauthenticated peers at the ports of a run: they cannot join, change or delay it."""
import contextlib
import os
import resource
import selectors
import signal
import socket
import sys
import threading

from processes import GRACE, ProcessesTest, free_port, has_updates, listening, rank_environment
from resume_test import exact_lines
from support import FULL, TINY, Run, program, slow, twobw, words

CONNECTIONS = 1000 if FULL else 200  # more than may wait at once
GARBAGE = (b"", b"\0", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"\xff" * 64, b"\x16\x03\x01\x02\x00\x01" + b"\0" * 500,
           bytes(range(256)) * 40, b"\x7f\xff\xff\xff" * 4, b"\0" * 100_000, b"SSH-2.0-OpenSSH_9.2\r\n")
TOKENS = {"ours": "the token of the first job", "theirs": "the token of another job"}


def say(place, words_, wait=0.2):
    """The answer of the other end until it closes, or within that time."""
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    answer = b""
    with contextlib.suppress(OSError), socket.socket(family) as peer:
        peer.settimeout(wait)
        peer.connect(place)
        peer.sendall(words_)
        while part := peer.recv(4096):
            answer += part
    return answer


def scan(places, times):
    """Connects to each place this often, silently or with garbage, and closes without waiting for an answer."""
    for place in places * times:
        for words_ in (b"", GARBAGE[2]):
            with contextlib.suppress(OSError), socket.socket() as peer:
                peer.setblocking(False)
                peer.connect_ex(place)
                peer.send(words_)


# Runs a command without socket filters, as in some containers: a filter of system calls refuses
# setsockopt(SO_ATTACH_FILTER).
WITHOUT_FILTERS = """
import ctypes, os, platform, struct, sys
setsockopt = {"x86_64": 54, "aarch64": 208}[platform.machine()]
LOAD, IF_EQUAL, RETURN, SO_ATTACH_FILTER, REFUSED, ALLOWED = 0x20, 0x15, 0x06, 26, 0x00050001, 0x7fff0000
steps = [(LOAD, 0, 0, 0), (IF_EQUAL, 0, 3, setsockopt), (LOAD, 0, 0, 32), (IF_EQUAL, 0, 1, SO_ATTACH_FILTER),
         (RETURN, 0, 0, REFUSED), (RETURN, 0, 0, ALLOWED)]
filter_ = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(filter_))
prctl = ctypes.CDLL(None, use_errno=True).prctl
for arguments in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):
    if prctl(*arguments) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Connections:
    """Silent connections that stay open; more than may wait at once."""

    def __init__(self, places, count):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 256)), hard))
        self.sockets = []
        for number in range(count):
            place = places[number % len(places)]
            peer = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
            peer.setblocking(False)
            peer.connect_ex(place)
            self.sockets.append(peer)

    def close(self):
        for peer in self.sockets:
            peer.close()


class ReturningConnections:
    """More connections than may wait at once, silent and renewed whenever they are closed."""

    def __init__(self, place, count):
        self.place, self.again, self.over = place, 0, threading.Event()
        self.waiting = selectors.DefaultSelector()
        for _ in range(count):
            self.connect()
        self.thread = threading.Thread(target=self.renew)
        self.thread.start()

    def connect(self):
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(self.place)
        self.waiting.register(peer, selectors.EVENT_READ)

    def renew(self):
        while not self.over.is_set():
            for key, _ in self.waiting.select(0.05):
                self.waiting.unregister(key.fileobj)
                key.fileobj.close()
                self.connect()
                self.again += 1

    def close(self):
        self.over.set()
        self.thread.join()
        for key in list(self.waiting.get_map().values()):
            key.fileobj.close()
        self.waiting.close()


class UnauthenticatedPeersTest(ProcessesTest):
    SETTINGS = {**TINY, "model.dropout": 0.1, "pipeline.schedule": "2bw", "pipeline.stages": 2,
                "pipeline.split": "[6, 6]", "train.updates": 100, "network.heartbeat_timeout": 10, "network.join_timeout": 30}

    def settings(self, name, **changes):
        return {**self.SETTINGS, "run_dir": self.folder / name, **changes}

    def start_rank(self, job, rank, port, settings, token=None, launcher=()):
        variables = rank_environment(rank, 2, port)
        if token:
            variables["TWOBW_JOB_TOKEN"] = TOKENS[token]
        return job.start([*launcher, program("TWOBW_BINARY", "twobw"), "train", *words(settings)], variables)

    def places(self, job):
        return [place for pid in job.engines() for place in listening(pid)]

    def assert_the_run_of_one_process(self, folder):
        whole = twobw("train", *words(self.settings("whole")))
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(exact_lines(Run(folder)), exact_lines(Run(self.folder / "whole")))

    def test_while_a_run_is_under_way(self):
        """Garbage, and many connections that stay open until the run has ended."""
        settings = self.settings("run")
        job = self.start_ranks(2, "train", settings=settings)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        places = self.places(job)
        self.assertTrue(places)
        connections = Connections(places, CONNECTIONS)
        self.addCleanup(connections.close)
        for place in places:
            for words_ in GARBAGE:
                if job.running():
                    self.assertNotIn(b"token", say(place, words_, wait=0.02))
        self.assertEqual(job.wait(90), [0, 0], job.everything())
        self.assertEqual(job.errors(0) + job.errors(1), "")
        self.assert_the_run_of_one_process(settings["run_dir"])

    def scanned(self, *launcher):
        """Starts a run with few descriptors and scans its tensor ports. Returns job, settings and descriptors before."""
        settings = self.settings("run", **{"train.updates": 10**6, "optimizer.decay": "constant"})
        job, port = self.job(), free_port()
        for rank in range(2):
            self.start_rank(job, rank, port, settings, launcher=[*launcher, "sh", "-c", 'ulimit -n 256; exec "$@"', "-"])
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        places = [place for place in listening(job.processes[1].pid) if place[1] != port]
        self.assertTrue(places)
        before = self.descriptors(job)
        scan(places, 300)
        return job, settings, before

    @staticmethod
    def descriptors(job):
        return [len(os.listdir(f"/proc/{process.pid}/fd")) for process in job.processes]

    @slow
    def test_a_scan_of_the_ports_for_tensors(self):
        """They are closed to others once the processes are connected: a scan costs no descriptors and changes nothing."""
        job, settings, before = self.scanned()
        made = len(Run(settings["run_dir"]).updates)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], made + 10)), job.everything())
        self.assertEqual(self.descriptors(job), before)
        job.signal(0, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0, 0], job.everything())
        run = Run(settings["run_dir"])
        whole = self.train({**settings, "train.updates": len(run.updates)}, "whole")
        self.assertEqual(exact_lines(run), exact_lines(whole))

    def test_a_scan_where_the_system_has_no_filters(self):
        """The run fails without free descriptors, on Gloo's thread, with a report."""
        job, settings, _ = self.scanned(sys.executable, "-c", WITHOUT_FILTERS)
        self.assertEqual(job.wait(GRACE), [1, 1], job.everything())
        for rank in range(2):
            self.assertRegex(job.errors(rank), r"^twobw: .*Too many open files; the workers here were at:\n  stage")
            self.assertNotIn("terminate called", job.errors(rank))
        self.assertIn("process 1: ", job.errors(0))
        self.assertIn("SO_ATTACH_FILTER", (settings["run_dir"] / "log.txt").read_text())

    def test_before_a_run_begins(self):
        """Rank 0 waits; many connections and a rank 1 with another token come first; the real rank 1 still joins."""
        settings = self.settings("run", **{"train.updates": 20})
        job, port = self.job(), free_port()
        self.start_rank(job, 0, port, settings, "ours")
        self.assertTrue(job.wait_for(lambda: self.places(job), what="rank 0's port"), job.everything())
        places = self.places(job)
        connections = Connections(places, CONNECTIONS)
        self.addCleanup(connections.close)
        for words_ in GARBAGE:
            say(places[0], words_, wait=0.02)
        other = self.job()
        self.start_rank(other, 1, port, {**settings, "network.join_timeout": 5}, "theirs")
        self.start_rank(job, 1, port, settings, "ours")
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        self.assertEqual(len(Run(settings["run_dir"]).updates), 20)
        self.assertNotEqual(other.wait(5 + GRACE), [0], other.everything())
        self.assertNotEqual(other.errors(), "")

    @slow
    def test_connections_that_return(self):
        """Before rank 1, and again as soon as they are closed."""
        settings = self.settings("run", **{"train.updates": 5})
        job, port = self.job(), free_port()
        self.start_rank(job, 0, port, settings, "ours")
        self.assertTrue(job.wait_for(lambda: self.places(job), what="rank 0's port"), job.everything())
        connections = ReturningConnections(self.places(job)[0], 200)
        self.addCleanup(connections.close)
        self.assertTrue(job.wait_for(lambda: connections.again >= 200, what="a full queue"), job.everything())
        self.start_rank(job, 1, port, settings, "ours")
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        self.assertEqual(len(Run(settings["run_dir"]).updates), 5)

    def second_job(self, tokens):
        """Two more ranks at the port of a run under way; both must fail, and the run must not notice."""
        settings = self.settings("run", **{"train.updates": 10**6, "optimizer.decay": "constant",
                                           "network.heartbeat_timeout": 100})
        job, port = self.job(), free_port()
        for rank in range(2):
            self.start_rank(job, rank, port, settings, tokens[0])
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        job.signal(1, signal.SIGSTOP)  # leaves the cores to the second job; rank 0 answers
        second = self.job()
        for rank in range(2):
            self.start_rank(second, rank, port, {**settings, "run_dir": self.folder / "second", "network.join_timeout": 3},
                            tokens[1])
        self.assertNotIn(0, second.wait(3 + GRACE), second.everything())
        self.assertFalse((self.folder / "second").exists())
        made = len(Run(settings["run_dir"]).updates)
        self.assertEqual(job.running(), [0, 1], job.everything())
        job.signal(1, signal.SIGCONT)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], made + 3)), job.everything())
        job.signal(0, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0, 0], job.everything())

    def test_a_second_job_at_the_same_port(self):
        self.second_job(("ours", "theirs"))

    @slow
    def test_a_second_job_with_the_same_token(self):
        """The same command twice."""
        self.second_job((None, None))

    def test_a_token_that_is_too_short(self):
        job, port = self.job(), free_port()
        for rank in range(2):
            job.start([program("TWOBW_BINARY", "twobw"), "train", *words(self.settings("run"))],
                      {**rank_environment(rank, 2, port), "TWOBW_JOB_TOKEN": "short"})
        self.assertEqual(job.wait(GRACE), [2, 2], job.everything())
        self.assertIn("TWOBW_JOB_TOKEN", job.errors(0))
