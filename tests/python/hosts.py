"""Hosts on one machine: network namespaces, joined by a switch, with links of a given rate.

    sudo python tests/python/hosts.py [--hosts 2] [--rate 1gbit] shell [-- COMMANDS]
    sudo python tests/python/hosts.py [--hosts 2] [--rate 1gbit] run -- COMMAND with {host}, {address}, {master} ...

A host has a name (host0, host1, ...), an address of its own (10.77.0.1, 10.77.0.2, ...) and a loopback of its own; the
switch is a bridge in a namespace of its own, so nothing of the machine's network is touched. Files are shared.
`run` starts the command on every host at once and ends with the first exit code that is not 0; `shell` opens a shell
with a function for each host, in which `host0 COMMAND` runs there, or gives such a shell the commands. Open MPI's
mpirun on one host reaches the others. Everything is gone when they end.

tc's tbf limits the rate of every link, both ways. Its netem delays and loses what a host sends; where the kernel has
none, cables made of TAP devices do (cable.py).
"""
import argparse
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

NETWORK = "10.77.0."
CABLE = pathlib.Path(__file__).resolve().parent / "cable.py"
# Within a namespace of mounts that `ip netns exec` makes and that ends with the command.
ENTER = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'


class Unavailable(Exception):
    """Says why there can be no hosts here."""


def call(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise Unavailable(f"{shlex.join(words)}: {done.stderr.strip() or f'exit {done.returncode}'}")
    return done


def available(delay=False):
    """Why there can be no hosts here, in a sentence; nothing: there can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            return f"there is no {tool} (Debian has it in {'util-linux' if tool == 'unshare' else 'iproute2'})"
    try:
        with Hosts(2, rate="1gbit", delay="1ms" if delay else None):
            return None
    except Unavailable as reason:
        return str(reason)


def quantity(text, units, example):
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)({'|'.join(units)})", text.lower())
    if not found:
        raise ValueError(f"{example}, not '{text}'")
    return float(found[1]) * units[found[2]]


def seconds(delay):
    return quantity(delay, {"us": 1e-6, "ms": 1e-3, "s": 1}, "a delay is such as 100us or 1ms")


def share(loss):
    return quantity(loss, {"%": 0.01}, "a loss is such as 0.1%")


def bits_per_second(rate):
    return quantity(rate, {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}, "a rate is such as 200mbit or 1gbit")


class Hosts:
    """As a context: makes them and takes them away again. Raises Unavailable where it cannot."""

    def __init__(self, count=2, rate=None, delay=None, loss=None):
        self.count, self.rate, self.delay, self.loss = count, rate, delay, loss
        self.tag = f"tw{os.getpid():x}{os.urandom(1).hex()}"
        self.folder = None
        self._cables = None  # the process that carries frames, where the kernel cannot delay them

    def name(self, host):
        return f"host{host}"

    def namespace(self, host):
        return f"{self.tag}h{host}"

    @property
    def switch(self):
        return f"{self.tag}s"

    def address(self, host):
        return f"{NETWORK}{host + 1}"

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="twobw_hosts_")
        known = "".join(f"{self.address(host)} {self.name(host)}\n" for host in range(self.count))
        pathlib.Path(self.folder, "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n" + known)
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _make(self):
        call("ip", "netns", "add", self.switch)
        call("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
        call("ip", "-n", self.switch, "link", "set", "switch", "up")
        for host in range(self.count):
            call("ip", "netns", "add", self.namespace(host))
            call("ip", "-n", self.namespace(host), "link", "set", "lo", "up")
            call("ip", "-n", self.namespace(host), "link", "add", "eth0", "type", "veth", "peer", "name",
                 f"port{host}", "netns", self.switch)
        self._plug_in()
        if self.rate or self.delay or self.loss:
            self.shape(self.rate, self.delay, self.loss)

    def _plug_in(self):
        for host in range(self.count):
            call("ip", "-n", self.switch, "link", "set", f"port{host}", "master", "switch", "up")
            call("ip", "-n", self.namespace(host), "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            call("ip", "-n", self.namespace(host), "link", "set", "eth0", "up")

    def _lay_cables(self):
        """In place of the links there are."""
        for host in range(self.count):
            call("ip", "-n", self.namespace(host), "link", "del", "eth0")
        self._cables = subprocess.Popen(
            [sys.executable, CABLE, self.switch, *map(self.namespace, range(self.count))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True)  # Ctrl-C is for the commands
        answer = self._cables.stdout.readline().strip()
        if answer != "ready":
            raise Unavailable("this kernel has no netem and no TAP devices, so links have neither delay nor loss: "
                              f"{answer}")
        self._plug_in()

    def _ends(self, host):
        return (self.namespace(host), "eth0"), (self.switch, f"port{host}")

    def shape(self, rate=None, delay=None, loss=None):
        """The rate of all links, both ways; delay and loss of what one host sends to another. Nothing given: as fast
        as the machine is."""
        delayed = seconds(delay) if delay else 0
        lost = share(loss) if loss else 0
        for host in range(self.count):
            for where, device in self._ends(host):
                call("tc", "-n", where, "qdisc", "del", "dev", device, "root", check=False)
        if (delay or loss) and not self._cables and not self._has_netem():
            self._lay_cables()
        if self._cables:
            print(delayed, lost, file=self._cables.stdin, flush=True)
            if self._cables.stdout.readline().strip() != "set":
                raise Unavailable("the cables have ended")
        for host in range(self.count):
            for where, device in self._ends(host):
                if rate:
                    # The burst: one tick of the slowest clock, but at least one segment of the largest size.
                    burst = max(int(bits_per_second(rate) / 8 / 100), 65536)
                    call("tc", "-n", where, "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", "rate",
                         rate, "burst", str(burst), "latency", "50ms")
                if (delay or loss) and not self._cables and device == "eth0":
                    call("tc", "-n", where, "qdisc", "add", "dev", device,
                         *(("parent", "1:1") if rate else ("root",)), "netem", "limit", "100000",
                         *(("delay", delay) if delay else ()), *(("loss", loss) if loss else ()))

    def _has_netem(self):
        where, device = self.namespace(0), "lo"
        done = call("tc", "-n", where, "qdisc", "add", "dev", device, "root", "netem", check=False)
        call("tc", "-n", where, "qdisc", "del", "dev", device, "root", check=False)
        return done.returncode == 0

    def command(self, host, *words):
        """The command that runs these words on a host; the process is that of the words itself."""
        return ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c", ENTER, self.name(host),
                os.path.join(self.folder, "hosts"), *map(str, words)]

    def unplug(self, host):
        """Its interface goes down: it has no way to the others."""
        call("ip", "-n", self.namespace(host), "link", "set", "eth0", "down")

    def plug(self, host):
        call("ip", "-n", self.namespace(host), "link", "set", "eth0", "up")

    def stall(self, host):
        """The switch drops all frames of this host, unnoticed by both ends."""
        call("bridge", "-n", self.switch, "link", "set", "dev", f"port{host}", "state", "0")

    def unstall(self, host):
        call("bridge", "-n", self.switch, "link", "set", "dev", f"port{host}", "state", "3")

    def close(self):
        if self._cables:
            self._cables.communicate()
        for place in (*map(self.namespace, range(self.count)), self.switch):
            pids = call("ip", "netns", "pids", place, check=False).stdout.split()
            for pid in pids:  # of commands of these hosts; a namespace lives as long as they do
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            call("ip", "netns", "del", place, check=False)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def run_everywhere(hosts, words):
    """The first exit code that is not 0, in the order of the hosts."""
    processes = []
    for host in range(hosts.count):
        known = {"host": host, "name": hosts.name(host), "address": hosts.address(host), "master": hosts.address(0),
                 "hosts": hosts.count}
        filled = [re.sub(r"\{(host|name|address|master|hosts)\}", lambda found: str(known[found[1]]), word)
                  for word in words]
        processes.append(subprocess.Popen(hosts.command(host, *filled)))
    try:
        codes = [process.wait() for process in processes]
    except KeyboardInterrupt:  # they have it too
        codes = [process.wait() for process in processes]
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def make_agent(hosts):
    """What mpirun runs in place of ssh: AGENT HOST COMMAND, as words of a shell."""
    cases = "".join(f"  {hosts.name(host)}|{hosts.address(host)}) exec {shlex.join(hosts.command(host, 'sh', '-c'))} "
                    '"$*";;\n' for host in range(hosts.count))
    agent = pathlib.Path(hosts.folder, "agent")
    agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase "$host" in\n{cases}esac\n'
                     'echo "$host is not a host" >&2\nexit 1\n')
    agent.chmod(0o755)
    return agent


def open_shell(hosts, commands):
    """A shell in which `host0 COMMAND` runs on the first host; it reads the commands, or the terminal."""
    functions = "".join(f'{hosts.name(host)}() {{ {shlex.join(hosts.command(host))} "$@"; }}\n'
                        for host in range(hosts.count))
    variables = {**os.environ, "OMPI_MCA_plm_rsh_agent": str(make_agent(hosts))}
    if commands:
        return subprocess.run(["bash", "-c", functions + "\n".join(commands)], env=variables).returncode
    start = pathlib.Path(hosts.folder, "shell")
    start.write_text(f"[ -f ~/.bashrc ] && . ~/.bashrc\n{functions}PS1='(hosts) '$PS1\n")
    print("\n".join(f"{hosts.name(host)} COMMAND runs on {hosts.address(host)}" for host in range(hosts.count)))
    return subprocess.run(["bash", "--rcfile", str(start), "-i"], env=variables).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", help="of every link, such as 1gbit (default: as fast as it goes)")
    parser.add_argument("--delay", help="from one host to another, one way, such as 1ms")
    parser.add_argument("--loss", help="packet loss of every host, such as 0.1%%")
    parser.add_argument("what", choices=("shell", "run"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if options.what == "run" and not words:
        parser.error("run needs a command")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if os.geteuid() != 0:
            raise Unavailable("only root makes network namespaces")
        with Hosts(options.hosts, options.rate, options.delay, options.loss) as hosts:
            return open_shell(hosts, words) if options.what == "shell" else run_everywhere(hosts, words)
    except (Unavailable, ValueError, FileNotFoundError) as reason:
        print(f"hosts: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
