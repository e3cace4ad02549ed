"""Clusters of the real binaries on loopback, for tests: a coordinator and P workers
that can be killed, stopped and started again one by one.
"""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from pipestage.client import Client, PipestageError

ROOT = pathlib.Path(__file__).absolute().parents[2]
# In the source tree the binaries lie under bazel-bin, among a Bazel test's runfiles beside us.
BIN = ROOT / "bazel-bin" if (ROOT / "bazel-bin").exists() else ROOT
COORDINATOR = BIN / "coordinator" / "coordinator"
WORKER = BIN / "worker" / "worker"
# The worker with modules for tests (sleepy, boom ...) registered besides.
TEST_WORKER = BIN / "tests" / "cluster" / "test_worker"
CLI = BIN / "client" / "pipestage"


def wait_for(condition, what, timeout=30.0):
    """Polls until `condition` is truthy; returns what it gave."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout} s for {what}")


class Process:
    """A child whose standard error is kept for the test's report."""

    def __init__(self, argv, log):
        self.log = open(log, "ab")
        self.child = subprocess.Popen(
            [str(a) for a in argv], stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
        )

    @property
    def pid(self):
        return self.child.pid

    def first_line(self):
        line = self.child.stdout.readline()
        # The pipe must not fill up behind our back.
        threading.Thread(target=self.child.stdout.read, daemon=True).start()
        return line

    def kill(self):
        self.child.kill()
        self.child.wait()

    def signal(self, number):
        self.child.send_signal(number)

    def stop(self, timeout=20):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()
        return self.child.returncode


class Cluster:
    """Use as a context manager. `flags` go to the coordinator, `worker_flags` to every worker."""

    def __init__(self, directory, repository, workers, flags=(), worker_flags=(), worker_binary=TEST_WORKER):
        self.directory = pathlib.Path(directory)
        self.repository = repository
        self.size = workers
        self.worker_flags = list(worker_flags)
        self.worker_binary = worker_binary
        self.coordinator = Process(
            [COORDINATOR, "--address", "127.0.0.1:0", "--workers", workers, "--model-repository", repository, *flags],
            self.directory / "coordinator.log",
        )
        line = self.coordinator.first_line()
        assert "listening on" in line, f"coordinator said {line!r}: {self.logs()}"
        self.address = line.split()[-1]
        self.workers = {}
        for index in range(workers):
            self.start_worker(index)
        self.client = Client(self.address)

    def start_worker(self, index):
        self.workers[index] = Process(
            [self.worker_binary, "--coordinator", self.address, "--model-repository", self.repository,
             "--index", index, "--name", f"w{index}", "--device", "cpu",
             *self.worker_flags],
            self.directory / f"worker{index}.log",
        )

    def status(self):
        try:
            return self.client.status()
        except PipestageError:
            return None

    def wait_ready(self, timeout=60):
        def ready():
            for name, process in [("coordinator", self.coordinator)] + list(self.workers.items()):
                assert process.child.poll() is None, f"{name} ended with code {process.child.poll()}: {self.logs()}"
            status = self.status()
            return status is not None and status.state == "READY"

        wait_for(ready, f"READY; logs: {self.logs()}", timeout)
        return self

    def logs(self):
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.directory.glob("*.log"))
        )

    def resident_bytes(self, index):
        fields = pathlib.Path(f"/proc/{self.workers[index].pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def reset_peak(self, index):
        """Lets peak_bytes count from now on; index None: the coordinator."""
        pathlib.Path(f"/proc/{self._pid(index)}/clear_refs").write_text("5")

    def peak_bytes(self, index):
        status = pathlib.Path(f"/proc/{self._pid(index)}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10

    def _pid(self, index):
        return self.coordinator.pid if index is None else self.workers[index].pid

    def __enter__(self):
        return self.wait_ready()

    def __exit__(self, *_):
        self.client.close()
        for process in [self.coordinator, *self.workers.values()]:
            if process.child.poll() is None:
                process.signal(signal.SIGCONT)
        self.coordinator.stop()
        for process in self.workers.values():
            process.stop()
