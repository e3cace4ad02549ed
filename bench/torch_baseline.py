"""One rank of the baseline: torch.distributed.pipelining over Gloo, driven through a pipe.

Started by side_by_side.py, two ranks at a time. Reads one JSON command a line from
standard input, answers with one JSON line; sleeps in between, so that it does not
disturb what is measured beside it.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)


def load_stages(path):
    """The layers of each stage, saved by side_by_side.py: the same weights as ours."""
    return torch.load(path, weights_only=False)


def make_schedule(name, stages, num_microbatches, loss):
    if name == "GPipe":
        return ScheduleGPipe(stages[0], num_microbatches, loss_fn=loss)
    if name == "1F1B":
        return Schedule1F1B(stages[0], num_microbatches, loss_fn=loss)
    return ScheduleInterleaved1F1B(stages, num_microbatches, loss_fn=loss)


class Rank:
    def __init__(self, rank, store, stages_file):
        self.rank = rank
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=2
        )
        self.modules = load_stages(stages_file)
        self.schedules = {}

    def schedule(self, command):
        key = (command["schedule"], command["microbatches"], command["rows"])
        if key not in self.schedules:
            interleaved = command["schedule"] == "Interleaved1F1B"
            # Interleaved cuts the same layers into twice as many stages.
            parts = []
            for module in self.modules:
                layers = list(module)
                if interleaved:
                    half = max(1, len(layers) // 2)
                    parts += [layers[:half], layers[half:]]
                else:
                    parts.append(layers)
            mine = [i for i in range(len(parts)) if i % 2 == self.rank]
            stages = [
                PipelineStage(
                    torch.nn.Sequential(*parts[i]).eval(), i, len(parts), torch.device("cpu")
                )
                for i in mine
            ]
            self.schedules[key] = make_schedule(
                command["schedule"], stages, command["microbatches"], None
            )
        return self.schedules[key]

    def eval(self, command):
        schedule = self.schedule(command)
        batch = torch.ones(command["rows"] * command["microbatches"], command["width"])
        times = []
        with torch.no_grad():
            for _ in range(command["calls"]):
                dist.barrier()
                start = time.perf_counter()
                schedule.eval(*((batch,) if self.rank == 0 else ()))
                times.append(time.perf_counter() - start)
        return {"times": times}

    def solo(self, command):
        """Seconds of one stage on one microbatch while the other rank sleeps."""
        module = self.modules[0].eval()
        rows = torch.ones(command["rows"], command["width"])
        times = []
        with torch.no_grad():
            for _ in range(command["calls"]):
                start = time.perf_counter()
                module(rows)
                times.append(time.perf_counter() - start)
        return {"times": times}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--stages", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rank = Rank(arguments.rank, arguments.store, arguments.stages)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            break
        answer = rank.eval(command) if command["do"] == "eval" else rank.solo(command)
        print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
