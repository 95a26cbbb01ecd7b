"""Cables between hosts and their switch that delay and lose frames, where the kernel has no netem.

    python tests/python/cable.py SWITCH HOST ...     names of network namespaces

A cable has two ends, which are TAP devices: eth0 on a host and port0, port1, ... on the switch. What a host sends is
delayed or lost; what the switch sends to it passes at once. Frames keep the headers in which the kernel notes that it
has not cut them into packets yet, as on a veth pair. Says "ready" when the cables are there; every line of standard
input is then the delay in seconds and the share of frames lost from now on, answered by "set". With the input's end
the cables are gone.
"""
import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 0x01, 0x02, 0x04
CLONE_NEWNET = 0x40000000
LARGEST_FRAME = 1 << 17


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    finally:
        os.close(descriptor)


def make_end(namespace, device):
    """The descriptor of a TAP device, which is there as long as the descriptor is open."""
    enter(namespace)
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(descriptor, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return descriptor


def read_frame(descriptor):
    """None without one."""
    try:
        return os.read(descriptor, LARGEST_FRAME)
    except OSError:  # nothing there, or the device is down
        return None


def write_frame(descriptor, frame):
    try:
        os.write(descriptor, frame)
    except OSError:  # an end that is down or full takes nothing, as a cable that is cut
        pass


class Cables:
    def __init__(self, switch, hosts):
        self._far = {}  # other end, by descriptor
        self._delayed = set()
        for number, host in enumerate(hosts):
            near, far = make_end(host, "eth0"), make_end(switch, f"port{number}")
            self._far |= {near: far, far: near}
            self._delayed.add(near)
        self._waiting = collections.deque()  # (when it arrives, end, frame); in the order of sending
        self._delay, self._loss = 0.0, 0.0
        self._chance = random.Random(0)

    def set(self, delay, loss):
        self._delay, self._loss = delay, loss

    def _take(self, descriptor):
        while frame := read_frame(descriptor):
            if descriptor not in self._delayed:
                write_frame(self._far[descriptor], frame)
            elif self._chance.random() >= self._loss:
                self._waiting.append((time.monotonic() + self._delay, self._far[descriptor], frame))

    def carry(self, control):
        """Until there is something to read from `control`."""
        while True:
            wait = max(self._waiting[0][0] - time.monotonic(), 0) if self._waiting else None
            readable, _, _ = select.select([*self._far, control], [], [], wait)
            for descriptor in readable:
                if descriptor != control:
                    self._take(descriptor)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, end, frame = self._waiting.popleft()
                write_frame(end, frame)
            if control in readable:
                return


def main():
    switch, *hosts = sys.argv[1:]
    try:
        cables = Cables(switch, hosts)
    except OSError as error:
        print(error)
        return 1
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # a cable does not wait for a core
    except OSError:
        pass
    print("ready", flush=True)
    control = sys.stdin.buffer.raw
    while True:
        cables.carry(control.fileno())
        line = control.readline()
        if not line:
            return 0
        cables.set(*map(float, line.split()))
        print("set", flush=True)


if __name__ == "__main__":
    sys.exit(main())
