"""./dev demo: a small language model in two stages, evaluated on real text by two workers.

Trains and exports a byte-level transformer (examples/byte_lm), starts a coordinator and
two worker processes, runs Eval on a text that every Debian has, and prints what came back.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = ROOT / "bazel-bin" / "client" / "pipestage"


def say(text):
    print(f"==> {text}", flush=True)


def run(*argv, **options):
    return subprocess.run([str(a) for a in argv], check=True, cwd=ROOT, **options)


def export_model(folder, stages):
    repository = folder / "models"
    if (repository / "byte-lm" / "1" / "pipeline.json").exists():
        say(f"model: {repository}/byte-lm/1 (exported before)")
        return repository
    say("training a byte-level transformer for 20 seconds, and exporting it in stages")
    run(sys.executable, "examples/byte_lm/export.py", "--repository", repository, "--stages", stages,
        "--train-seconds", 20)
    return repository


def prepare_data(folder, rows):
    say("cutting a text the model has not seen into rows of bytes")
    run(sys.executable, "examples/byte_lm/prepare_data.py", "--rows", rows, "--out", folder)


class Service:
    def __init__(self, repository, workers, port):
        self.address = f"127.0.0.1:{port}"
        say(f"starting a coordinator and {workers} workers on {self.address}")
        self.process = subprocess.Popen(
            [str(CLI), "up", "--workers", str(workers), "--address", self.address, "--model-repository",
             str(repository), "--load", "byte-lm"], cwd=ROOT)

    def wait(self, timeout=120):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                sys.exit(f"demo: the service ended with {self.process.returncode}")
            status = subprocess.run([str(CLI), "--address", self.address, "status", "--output", "json"],
                                    capture_output=True, text=True)
            if status.returncode == 0 and json.loads(status.stdout).get("serving"):
                return
            time.sleep(0.3)
        sys.exit(f"demo: the service was not ready after {timeout} s")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=30)


def evaluate(service, folder, microbatches):
    argv = [CLI, "--address", service.address, "eval", "--model", "byte-lm", "--input",
            f"tokens={folder}/tokens.npy", "--target", f"targets={folder}/targets.npy",
            "--microbatches", microbatches, "--no-outputs"]
    say("Eval: " + " ".join(str(a) for a in argv[3:]))
    start = time.monotonic()
    answer = json.loads(run(*argv, "--output", "json", stdout=subprocess.PIPE, text=True).stdout)
    wall = time.monotonic() - start
    run(*argv, "--timeline")
    return answer, wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "demo")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--port", type=int, default=17070)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments.folder.mkdir(parents=True, exist_ok=True)

    repository = export_model(arguments.folder, arguments.stages)
    prepare_data(arguments.folder, arguments.rows)
    service = Service(repository, arguments.workers, arguments.port)
    try:
        service.wait()
        answer, wall = evaluate(service, arguments.folder, arguments.microbatches)
    finally:
        service.stop()

    tokens = answer["weight"]
    say("done")
    print(f"    loss              {answer['loss']:.4f} nats = {answer['loss'] / math.log(2):.4f} bits per byte")
    print(f"    tokens evaluated  {tokens}")
    print(f"    tokens/s          {tokens / answer['timings']['total_s']:,.0f} "
          f"({tokens / wall:,.0f} with starting the command line)")
    print("\nAgain, by hand: see \"A first session\" in README.md.")


if __name__ == "__main__":
    main()
