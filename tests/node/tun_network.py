"""A network of one's own between namespaces, packet by packet through this process: with delay, loss and partitions.

Each end is a network namespace with one TUN device. A namespace lives as long as a process in it.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

import harness

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
SET_INTERFACE, TUN, NO_PACKET_INFORMATION = 0x400454CA, 1, 0x1000
PREFIX = "10.77"  # of the namespaces alone: nothing leaves them
MOST_QUEUED = 20_000


class Network:
    """The thread that makes it, and later its children, are in the first namespace; in_namespace makes others."""

    def __init__(self, delay=0.0, loss=0.0, seed=1):
        self.delay, self.loss = delay, loss  # seconds one way; share of the packets
        self.cut = set()  # ends that nothing reaches and that reach nothing
        self.carried = self.lost = 0
        self._random = random.Random(seed)
        self._ends = {}  # TUN by number of the end
        self._poll = select.epoll()
        self._ending = False
        self._enter(0)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    @staticmethod
    def address(number):
        return f"{PREFIX}.{number >> 8}.{number & 255}"

    def in_namespace(self, number, run):
        """The result of `run()`, on a thread in a new namespace, as all children are that it starts."""
        result = []

        def inside():
            self._enter(number)
            result.append(run())

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if not result:
            raise AssertionError(f"end {number} of the network was not made")
        return result[0]

    def close(self):
        self._ending = True
        self._thread.join()
        for tun in self._ends.values():
            os.close(tun)

    def _enter(self, number):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(NEW_NETWORK) != 0:
            raise harness.Skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise harness.Skip(f"no TUN device: {error.strerror}") from None
        fcntl.ioctl(tun, SET_INTERFACE, struct.pack("16sH22x", b"tun0", TUN | NO_PACKET_INFORMATION))
        for words in (f"address add {self.address(number + 1)}/16 dev tun0", "link set tun0 up", "link set lo up"):
            subprocess.run(["ip", *words.split()], check=True)
        self._ends[number + 1] = tun
        self._poll.register(tun, select.EPOLLIN)

    def _carry(self):
        waiting = []  # by the time of their arrival
        while not self._ending:
            patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
            for tun, _ in self._poll.poll(min(patience, 0.1)):
                with contextlib.suppress(BlockingIOError):
                    while True:
                        self._take(os.read(tun, 65536), waiting)
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, tun, packet = heapq.heappop(waiting)
                with contextlib.suppress(OSError):  # a full queue loses packets, as networks do
                    os.write(tun, packet)

    def _take(self, packet, waiting):
        if packet[0] >> 4 != 4:
            return
        source, target = (packet[at] << 8 | packet[at + 1] for at in (14, 18))
        tun = self._ends.get(target)
        if tun is None or source in self.cut or target in self.cut or self._random.random() < self.loss or len(waiting) > MOST_QUEUED:
            self.lost += 1
            return
        self.carried += 1
        heapq.heappush(waiting, (time.monotonic() + self.delay, self.carried, tun, packet))
