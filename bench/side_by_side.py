"""Side by side with torch.distributed.pipelining, in one run.

The same layers, weights, threads and microbatches through (a) torch's pipelining
eval() in two Gloo processes and (b) Eval of this service with two Gloo workers;
rounds alternate, the side that is not measured sleeps. Prints a table of medians
and ratios and writes the raw seconds as JSON. See docs/performance.md.

    ./dev bench [--rounds 5] [--calls 20] [--output bench.json]
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name: (rows per microbatch, width, linear layers per stage, microbatch counts)
MODELS = {
    "tiny": (1, 16, 1, (4, 16, 64)),
    "mid": (64, 1024, 1, (4, 16)),
    "large": (64, 1024, 4, (16,)),
}
SCHEDULES = ("1F1B", "GPipe", "Interleaved1F1B")


def log(text):
    print(text, file=sys.stderr, flush=True)


class Child:
    """A process that answers one JSON line to each JSON line."""

    def __init__(self, argv, env):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT
        )

    def send(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[:2]} ended: {self.process.wait()}")
        return json.loads(line)

    def ask(self, command):
        self.send(command)
        return self.receive()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)


def environment():
    env = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    env["PYTHONPATH"] = str(ROOT / "python")
    return env


def make_model(name, repository, scratch):
    """Exports the model for the service and saves the same modules for torch."""
    import torch

    from pipestage.export import export_pipeline

    rows, width, layers, _ = MODELS[name]
    torch.manual_seed(0)
    stages = [
        torch.nn.Sequential(
            *[part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
        ).eval()
        for _ in range(2)
    ]
    torch.save(stages, scratch / f"{name}.pt")
    export_pipeline(
        stages,
        {"x": torch.ones(max(rows, 2) * 2, width)},
        repository,
        name,
        "1",
        output_names=["y"],
    )


class Torch:
    """Two ranks of the baseline for one model."""

    def __init__(self, name, scratch):
        self.rows, self.width = MODELS[name][:2]
        store = scratch / f"{name}.store"
        argv = lambda rank: [  # noqa: E731
            sys.executable, "bench/torch_baseline.py", "--rank", str(rank),
            "--store", str(store), "--stages", str(scratch / f"{name}.pt"),
        ]
        self.ranks = [Child(argv(rank), environment()) for rank in (0, 1)]
        for rank in self.ranks:
            rank.receive()

    def eval(self, schedule, microbatches, calls):
        command = dict(do="eval", schedule=schedule, microbatches=microbatches,
                       rows=self.rows, width=self.width, calls=calls)
        for rank in self.ranks:
            rank.send(command)
        times = [rank.receive()["times"] for rank in self.ranks]
        return [max(pair) for pair in zip(*times)]

    def solo(self, calls):
        return self.ranks[0].ask(dict(do="solo", rows=self.rows, width=self.width, calls=calls))["times"]

    def close(self):
        for rank in self.ranks:
            rank.send(dict(do="quit"))
        for rank in self.ranks:
            rank.close()


class Service:
    """Coordinator and two workers, and a client in C++."""

    def __init__(self, repository, port, worker_flags=()):
        argv = ["bazel-bin/client/pipestage", "up", "--workers", "2", "--address",
                f"127.0.0.1:{port}", "--model-repository", str(repository)]
        for name in MODELS:
            argv += ["--load", f"{name}@1"]
        if worker_flags:
            argv += ["--", *worker_flags]
        self.up = subprocess.Popen(argv, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
        self.wait_until_ready(port)
        self.client = Child(["bazel-bin/bench/eval_client", f"127.0.0.1:{port}"], environment())

    def wait_until_ready(self, port):
        from pipestage.client import Client, PipestageError

        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                status = Client(f"127.0.0.1:{port}").status()
                if len(status.serving) == len(MODELS):
                    return
            except PipestageError:
                pass
            time.sleep(0.2)
        raise RuntimeError("the service did not become ready in 60 s")

    def eval(self, name, microbatches, calls, outputs=True, in_flight=1):
        rows, width = MODELS[name][:2]
        answer = self.client.ask(dict(
            model=name, version="1", rows=rows * microbatches, width=width, microbatches=microbatches,
            calls=calls, schedule="1F1B", outputs=outputs, in_flight=in_flight))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self):
        self.client.close()
        self.up.send_signal(signal.SIGTERM)
        self.up.wait(timeout=30)


def measure(name, torch_side, service, rounds, calls):
    """Alternates baseline and service; returns raw seconds per microbatch count."""
    results = {}
    for microbatches in MODELS[name][3]:
        entry = {"solo": [], "ours": [], **{schedule: [] for schedule in SCHEDULES}}
        service.eval(name, microbatches, 5)
        for schedule in SCHEDULES:
            torch_side.eval(schedule, microbatches, 3)
        for _ in range(rounds):
            entry["solo"].append(torch_side.solo(calls))
            for schedule in SCHEDULES:
                entry[schedule].append(torch_side.eval(schedule, microbatches, calls))
                entry["ours"].append(service.eval(name, microbatches, calls))
        results[microbatches] = entry
        log(f"  {name} M={microbatches}: done")
    return results


def flat(rounds):
    return [value for values in rounds for value in values]


def summarise(name, microbatches, entry):
    workers = 2
    ours_client = flat([answer["client_s"] for answer in entry["ours"]])
    ours_run = flat([answer["execute_s"] for answer in entry["ours"]])
    solo = statistics.median(flat(entry["solo"]))
    row = {
        "model": name,
        "M": microbatches,
        "stage_ms": solo * 1e3,
        "ours_client_ms": statistics.median(ours_client) * 1e3,
        "ours_workers_ms": statistics.median(ours_run) * 1e3,
        "ours_efficiency": (microbatches + workers - 1) * solo / statistics.median(ours_run),
    }
    for schedule in SCHEDULES:
        per_round = [statistics.median(times) for times in entry[schedule]]
        row[f"{schedule}_ms"] = statistics.median(flat(entry[schedule])) * 1e3
        row[f"{schedule}_best_ms"] = min(per_round) * 1e3
    best = min(row[f"{schedule}_ms"] for schedule in SCHEDULES)
    best_round = min(row[f"{schedule}_best_ms"] for schedule in SCHEDULES)
    row["torch_efficiency"] = (microbatches + workers - 1) * solo * 1e3 / best
    row["client/torch"] = row["ours_client_ms"] / best
    row["workers/torch"] = row["ours_workers_ms"] / best
    row["client/torch_best_round"] = row["ours_client_ms"] / best_round
    return row


def slope(points):
    """Least-squares slope of (M, milliseconds), in microseconds a microbatch."""
    mean_x = statistics.mean(x for x, _ in points)
    mean_y = statistics.mean(y for _, y in points)
    top = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return 1e3 * top / sum((x - mean_x) ** 2 for x, _ in points)


def print_table(rows):
    print("\nmedians in ms; efficiency = (M + P - 1) * stage / wall; ratios are ours / the best torch schedule's median")
    print(f"{'model':6} {'M':>3} {'stage':>7} {'torch 1F1B':>11} {'GPipe':>8} {'Interl.':>8} "
          f"{'ours: client':>13} {'workers':>8} {'eff.':>5} {'torch':>6} {'ratio client':>13} {'workers':>8} {'client/best round':>18}")
    for r in rows:
        print(f"{r['model']:6} {r['M']:>3} {r['stage_ms']:7.3f} {r['1F1B_ms']:11.2f} {r['GPipe_ms']:8.2f} "
              f"{r['Interleaved1F1B_ms']:8.2f} {r['ours_client_ms']:13.2f} {r['ours_workers_ms']:8.2f} "
              f"{r['ours_efficiency']:5.2f} {r['torch_efficiency']:6.2f} {r['client/torch']:13.3f} "
              f"{r['workers/torch']:8.3f} {r['client/torch_best_round']:18.3f}")
    tiny = [r for r in rows if r["model"] == "tiny"]
    stage_us = statistics.median(r["stage_ms"] for r in tiny) * 1e3
    print("\noverhead per microbatch, tiny model (slope over M, in us; the stage itself costs torch "
          f"{stage_us:.0f} us from Python)")
    for key, label in (("1F1B_ms", "torch 1F1B"), ("GPipe_ms", "torch GPipe"),
                       ("ours_workers_ms", "ours, workers"), ("ours_client_ms", "ours, client")):
        print(f"  {label:14} {slope([(r['M'], r[key]) for r in tiny]):8.1f}")


def control_plane(service):
    """A tiny call: what the control plane and the RPC add, in pings of both workers."""
    answer = service.eval("tiny", 4, 200)
    ping = max(answer["ping_s"])
    median = lambda key: statistics.median(answer[key])  # noqa: E731
    p99 = sorted(answer["client_s"])[int(len(answer["client_s"]) * 0.99)]
    print(f"\ncontrol plane, tiny, M=4, in us: ping {ping * 1e6:.0f}, workers {median('execute_s') * 1e6:.0f}, "
          f"coordinator {median('run_s') * 1e6:.0f}, client {median('client_s') * 1e6:.0f} (p99 {p99 * 1e6:.0f})")
    window = {n: service.eval("tiny", 4, 240, in_flight=n)["wall_s"] / 240 * 1e6 for n in (1, 2, 4)}
    print("calls back to back, us per call: " + ", ".join(f"{n} in flight {t:.0f}" for n, t in window.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--port", type=int, default=17071)
    parser.add_argument("--output", help="write raw seconds here as JSON")
    parser.add_argument("--worker-flag", action="append", default=[], help="passed on to the workers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        repository = scratch / "models"
        log("exporting models")
        for name in MODELS:
            make_model(name, repository, scratch)
        service = Service(repository, arguments.port, arguments.worker_flag)
        rows, raw = [], {}
        for name in MODELS:
            log(f"measuring {name}: torch and ours alternate, {arguments.rounds} rounds of {arguments.calls} calls")
            torch_side = Torch(name, scratch)
            raw[name] = measure(name, torch_side, service, arguments.rounds, arguments.calls)
            torch_side.close()
            rows += [summarise(name, m, entry) for m, entry in raw[name].items()]
        print_table(rows)
        control_plane(service)
        service.close()
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps({"rows": rows, "raw": raw}))


if __name__ == "__main__":
    main()
