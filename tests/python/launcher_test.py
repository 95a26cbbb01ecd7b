"""Launchers that die: before their processes have joined, and in the middle of a run."""
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import socket
import threading
import time
import unittest

from processes import GRACE, TORCHRUN, ProcessesTest, free_port, has_updates, mpirun, rank_environment
from support import TINY, Run, program, slow, twobw, words


class LauncherTest(ProcessesTest):
    """The launcher of a run dies, and cannot end it."""

    def settings(self, **changes):
        return {**TINY, "train.updates": 10**6, "optimizer.decay": "constant", "pipeline.stages": 2,
                "run_dir": self.folder / "run", "network.heartbeat_timeout": 10, **changes}

    def dies_under(self, launcher):
        settings = self.settings()
        job = self.job()
        job.start([*launcher, program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        job.signal(0, signal.SIGKILL)
        job.wait(GRACE)
        job.assert_no_orphans(within=2 * GRACE)
        self.assertTrue(Run(settings["run_dir"]).summary["interrupted"])
        verified = twobw("checkpoint", "verify", settings["run_dir"])
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    @slow
    def test_torchrun(self):
        self.dies_under([*TORCHRUN, "--standalone", "--nproc-per-node", "2"])

    @unittest.skipUnless(mpirun(2), "mpirun is not installed")
    def test_mpirun(self):
        self.dies_under(mpirun(2))

    def test_gone_before_the_processes_join(self):
        """Nothing listens where torchrun's store was, or something does that does not answer, or hangs up: one
        sentence, in time."""
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for listener in listeners:
            self.addCleanup(listener.close)
        silent, closing = (listener.getsockname()[1] for listener in listeners)
        hang_up = threading.Thread(target=self.hang_up, args=(listeners[1],), daemon=True)
        hang_up.start()
        self.addCleanup(listeners[1].shutdown, socket.SHUT_RDWR)
        ports, arrival = (free_port(), silent, closing), 1
        job = self.job()
        for port in ports:
            job.start([program("TWOBW_BINARY", "twobw"), "train", *words(self.settings(**{"network.join_timeout": arrival}))],
                      {**self.of_torchrun(1, port), "TORCHELASTIC_USE_AGENT_STORE": "True"})
        listeners[0].settimeout(GRACE)
        connection, _ = listeners[0].accept()
        self.addCleanup(connection.close)
        connected = time.monotonic()
        self.assertEqual(job.wait(arrival + GRACE), [1] * len(ports), job.everything())
        self.assertLess(job.ended_at[1] - connected, arrival + 5)
        for number, port in enumerate(ports):
            self.assertRegex(job.errors(number), rf"^twobw: process 1 on .*: torchrun's store at 127\.0\.0\.1:{port} "
                             r"cannot be reached: no answer within 1 s; torchrun may have ended\n$")

    def test_gone_while_the_processes_join(self):
        """They do not wait for network.join_timeout, and say why they end."""
        store = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(store.close)
        store.settimeout(GRACE)
        goes = self.folder / "goes"
        os.mkfifo(goes)
        settings = self.settings(**{"network.join_timeout": 600})
        command = shlex.join([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        job = self.job()
        job.start(["sh", "-c", f"{command} & read line < {goes}"],
                  {**self.of_torchrun(1, store.getsockname()[1]), "TORCHELASTIC_USE_AGENT_STORE": "True"})
        connection, _ = store.accept()
        self.addCleanup(connection.close)
        goes.write_text("\n")
        launcher = job.processes[0].pid
        job.wait(GRACE)
        job.assert_no_orphans(within=GRACE)
        self.assertRegex(job.errors(0), rf"^twobw: process 1 on .*: the launcher \(process {launcher} .*\) has ended, .*\n$")

    @staticmethod
    def hang_up(listener):
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    @staticmethod
    def of_torchrun(rank, port):
        return {**rank_environment(rank, 2, port), "TORCHELASTIC_RUN_ID": "gone"}

    def test_gone_while_the_program_is_loaded(self):
        """twobw remembers its launcher when it becomes twobw-engine, which then waits for nobody. Here that takes
        until the launcher has ended."""
        front, ready = self.folder / "twobw", self.folder / "ready"
        shutil.copy(program("TWOBW_BINARY", "twobw"), front)
        engine = pathlib.Path(program("TWOBW_BINARY", "twobw")).with_name("twobw-engine")
        slow = self.folder / "twobw-engine"
        slow.write_text(f"""#!/bin/sh
            echo > {ready}
            until [ "$(cut -d ' ' -f 4 /proc/$$/stat)" != "$PPID" ]; do sleep 0.02; done
            exec {engine} "$@"\n""")
        slow.chmod(0o755)
        os.mkfifo(ready)
        job = self.job()
        job.start(["sh", "-c", f"{shlex.join([str(front), 'train', *words(self.settings())])} & read line < {ready}"],
                  self.of_torchrun(1, free_port()))
        launcher = job.processes[0].pid
        self.assertEqual(job.wait(GRACE), [0], job.everything())
        job.assert_no_orphans(within=GRACE)
        self.assertRegex(job.errors(0), rf"^twobw: process 1 on .*: the launcher \(process {launcher} .*\) has ended, .*\n$")

    def test_a_shell_may_leave_its_run(self):
        """A run started by hand continues, as with nohup."""
        settings = self.settings(**{"train.updates": 50})
        job, port = self.job(), free_port()
        for rank in range(2):
            command = shlex.join([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
            job.start(["sh", "-c", f"{command} & exit 0"], rank_environment(rank, 2, port))
        self.assertEqual(job.wait(GRACE), [0, 0], job.everything())
        job.assert_no_orphans(within=60)
        self.assertIs(Run(settings["run_dir"]).summary["interrupted"], False)
