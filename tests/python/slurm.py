"""A Slurm of one node on this machine, from Debian's packages (slurmctld, slurmd, slurm-client, munge), in a folder of
its own and with ports of its own; gone when it ends.

    with slurm.Slurm() as cluster: cluster.command("srun", "-n", "2", ...), cluster.environment
    sudo python tests/python/slurm.py srun -n 2 COMMAND
    sudo python tests/python/slurm.py sbatch --wait SCRIPT
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo")
CONFIGURATION = """\
ClusterName=twobw
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:8 MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """Says why there can be no Slurm here."""


def available():
    """Why there can be no Slurm here, in a sentence; nothing: all programs are there."""
    if os.geteuid() != 0:
        return "only root starts slurmd"
    missing = [name for name in PROGRAMS if not find(name)]
    return f"{', '.join(missing)} not installed" if missing else None


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Slurm:
    def __init__(self):
        self.folder, self.daemons = None, []

    @property
    def environment(self):
        return {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def command(self, name, *words):
        return [find(name), *map(str, words)]

    def __enter__(self):
        reason = available()
        if reason:
            raise Unavailable(reason)
        self.folder = tempfile.mkdtemp(prefix="twobw_slurm_")
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self):
        folder = pathlib.Path(self.folder)
        folder.chmod(0o755)
        for name in ("state", "spool", "munge"):
            (folder / name).mkdir(mode=0o755)
        host = socket.gethostname().split(".")[0]
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, host=host, ports=free_ports(2),
                                                                cpus=os.cpu_count()))
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = folder / "munge"
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self._await("munged", lambda: (munge / "socket").exists())
        self._daemon("slurmctld", "-D", "-i")
        self._daemon("slurmd", "-D", "-N", host)
        self._await("the node", self._node_is_idle)

    def _daemon(self, name, *words):
        log = open(os.path.join(self.folder, f"{name}.out"), "w")
        with log:
            self.daemons.append((name, subprocess.Popen(self.command(name, *words), stdout=log, stderr=log,
                                                        env={**os.environ, **self.environment})))

    def _node_is_idle(self):
        shown = subprocess.run(self.command("sinfo", "-h", "-o", "%t"), capture_output=True, text=True, timeout=20,
                               env={**os.environ, **self.environment})
        return shown.stdout.strip() == "idle"

    def _await(self, what, condition, within=20):
        deadline = time.monotonic() + within
        while not condition():
            for name, process in self.daemons:
                if process.poll() is not None:
                    raise Unavailable(f"{name} does not start: {self._last_words(name)}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{what} is not there after {within} s: {self._last_words('slurmctld')}")
            time.sleep(0.05)

    def _last_words(self, name):
        text = ""
        for file in (f"{name}.log", f"{name}.out"):
            path = pathlib.Path(self.folder, file)
            text += path.read_text(errors="replace") if path.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-3:]) or "it says nothing"

    def _left_behind(self):
        """What slurmd has started for steps waits for slurmctld, which is gone; it has slurmd's log open."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and any(os.readlink(file).startswith(f"{self.folder}/slurmd.log")
                                                for file in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
            except OSError:
                pass  # it has ended
        return found

    def close(self):
        for _, process in reversed(self.daemons):
            process.terminate()
        for _, process in reversed(self.daemons):
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._left_behind():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if not sys.argv[1:]:
        print(__doc__)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with Slurm() as cluster:
            return subprocess.run(sys.argv[1:], env={**os.environ, **cluster.environment}).returncode
    except (Unavailable, FileNotFoundError) as reason:
        print(f"slurm: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
