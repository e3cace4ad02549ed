"""What the binaries link, and what they listen on."""

import json
import subprocess

import pytest

from tests.cluster.models import digits
from tests.cluster.processes import CLI, COORDINATOR


@pytest.mark.parametrize("binary", [COORDINATOR, CLI], ids=lambda path: path.name)
def test_coordinator_and_command_line_link_no_libtorch(binary):
    out = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout

    names = [line.split()[0] for line in out.splitlines()]
    assert any(name.startswith("libgrpc++") for name in names)
    assert not [name for name in names if name.startswith(("libtorch", "libc10", "libcu", "libnccl"))]


def listening(pid):
    """(address, port) pairs on which a process listens, IPv4 and IPv6 alike."""
    out = subprocess.run(["ss", "-ltnpH"], check=True, capture_output=True, text=True).stdout
    return [line.split()[3] for line in out.splitlines() if f"pid={pid}," in line]


def test_everything_listens_on_loopback_only(tmp_path, start_cluster):
    digits(tmp_path, 2)
    cluster = start_cluster(tmp_path, 2)
    pids = [cluster.coordinator.pid, cluster.workers[0].pid, cluster.workers[1].pid]

    sockets = [socket for pid in pids for socket in listening(pid)]

    assert sockets
    for socket in sockets:
        assert socket.startswith(("127.", "[::1]", "[::ffff:127.")), sockets


def test_eval_through_the_command_line_gives_json(tmp_path, start_cluster):
    import numpy as np

    digits(tmp_path / "models", 2, loss="mse")
    cluster = start_cluster(tmp_path / "models", 2)
    np.save(tmp_path / "x.npy", np.arange(5.0).reshape(5, 1))
    np.save(tmp_path / "t.npy", np.arange(5.0).reshape(5, 1) * 100 + 12 + 3)
    cli = [CLI, "--address", cluster.address]
    subprocess.run([*cli, "models", "load", "digits2"], check=True, capture_output=True)

    done = subprocess.run(
        [*cli, "eval", "--model", "digits2@1", "--input", f"x={tmp_path}/x.npy", "--target",
         f"target={tmp_path}/t.npy", "--microbatches", "2", "--schedule", "gpipe", "--no-outputs", "--output", "json"],
        capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["loss_sum"], answer["weight"], answer["loss"]) == (45.0, 5, 9.0)
    assert [m["rows"] for m in answer["microbatches"]] == [3, 2]
    assert "\x1b" not in done.stdout + done.stderr
