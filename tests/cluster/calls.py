"""Calls that run while a test does something else to the cluster."""

import threading
import time

from pipestage.client import Client, PipestageError


def call_in_background(cluster, **arguments):
    """Starts a call; returns (thread, answer) where answer gets "error" or "result"."""
    answer = {}

    def call():
        client = Client(cluster.address)
        try:
            answer["result"] = client.eval(**arguments)
        except PipestageError as error:
            answer["error"] = error
        answer["at"] = time.monotonic()

    thread = threading.Thread(target=call)
    thread.start()
    return thread, answer


def running(cluster):
    return cluster.client.status().queue.calls_running
