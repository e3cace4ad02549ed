"""Fixtures for tests that run the real binaries."""

import numpy as np
import pytest

from tests.cluster.processes import CLI, COORDINATOR, TEST_WORKER, WORKER, Cluster


@pytest.fixture(scope="session", autouse=True)
def binaries_are_built():
    missing = [str(p) for p in (CLI, COORDINATOR, WORKER, TEST_WORKER) if not p.exists()]
    if missing:
        pytest.fail(f"not built: {', '.join(missing)}; ./dev test builds them first")


@pytest.fixture(scope="module")
def start_cluster(tmp_path_factory):
    """start_cluster(repository, workers, ...): a READY cluster, stopped after the module."""
    running = []

    def start(repository, workers, **options):
        cluster = Cluster(tmp_path_factory.mktemp("cluster"), repository, workers, **options)
        running.append(cluster)
        return cluster.wait_ready()

    yield start
    for cluster in running:
        cluster.__exit__()


@pytest.fixture
def rng():
    return np.random.default_rng(7)
