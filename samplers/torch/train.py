"""A plain PyTorch GPT for `ett validate --backend torch`: trained, timed, and recorded. It knows nothing of ett.

    train.py JOB.json WORLD

WORLD processes train, forked since importing PyTorch takes seconds.

JOB.json: {"threads", "out", "steps", "quiet", "cases": [{"layers", "hidden", "heads", "seq", "batch", "vocab",
"trace"}]}. The cases alternate, so that all of them run under the same states of the machine. A turn times one step of
each case, until the case has `steps` steps. With several ranks, a case needs `steps` undisturbed steps, and runs at most
three times as many. A step is undisturbed if other programs delayed it by at most the share `quiet`.

A case with "trace" (a folder) also runs steps without gradient all-reduces. In each of the first `steps` turns
torch.profiler records one such step on every rank, so that each operator runs beside the same one of the other ranks.
Rank 0 writes its own recording to trace/worker0.N.pt.trace.json, and the seconds and the delayed share of every step to
"out".
"""
import contextlib
import glob
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden"]
        self.heads = c["heads"]
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.proj = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x, mask):
        batch, seq, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, self.heads, -1).chunk(3, -1)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).masked_fill(mask, float("-inf"))
        x = x + self.proj((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, seq, h))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens, self.places = nn.Embedding(c["vocab"], c["hidden"]), nn.Embedding(c["seq"], c["hidden"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm, self.head = nn.LayerNorm(c["hidden"]), nn.Linear(c["hidden"], c["vocab"], bias=False)
        self.mask = torch.ones(c["seq"], c["seq"], dtype=torch.bool).triu(1)
        self.positions = torch.arange(c["seq"])

    def forward(self, ids):
        x = self.tokens(ids) + self.places(self.positions)
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def write_trace(profile, path, began, name):
    """Exports the trace of Kineto; without Kineto the profiler's events, which have shapes only in this form."""
    if torch.profiler.kineto_available():
        profile.export_chrome_trace(path)
        return
    events = []
    for e in profile.events():
        args = {"Input Dims": e.input_shapes} if e.input_shapes else {}
        if e.sequence_nr >= 0:
            args["Sequence number"] = e.sequence_nr
        if e.input_shapes:
            args["Input type"] = ["float"] * len(e.input_shapes)
        step = e.name.startswith("ProfilerStep")  # these events lack their step number
        noted = step or e.name.startswith("Optimizer.")
        events.append({"ph": "X", "cat": "user_annotation" if noted else "cpu_op", "name": name if step else e.name,
                       "pid": 1, "tid": e.thread, "ts": 1e6 * began + e.time_range.start,
                       "dur": e.time_range.end - e.time_range.start, "args": args})
    with open(path, "w") as out:
        out.write(json.dumps({"schemaVersion": 1, "traceEvents": events}))  # ten times faster than json.dump


def delayed():
    """Seconds in which threads of this process were runnable but not running (Linux)."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError):  # the thread has ended before
            with open(path) as file:
                total += int(file.read().split()[1])
    return 1e-9 * total


class Training:
    """One model with its optimizer and its step times: {kind: [[seconds, delayed share], ...]}."""

    def __init__(self, case, job, rank, world):
        torch.manual_seed(1)
        self.case, self.job, self.rank, self.world, self.trained = case, job, rank, world, 0
        self.traced = "trace" in case
        self.model = GPT(case)
        if world > 1:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.batches = [torch.randint(case["vocab"], (case["batch"], case["seq"] + 1)) for _ in range(4)]
        self.seen = {"steps": [], "alone": [], "recorded": []}
        self.losses = []

    def step(self):
        ids = self.batches[self.trained % 4]
        self.trained += 1
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, self.case["vocab"]), ids[:, 1:].reshape(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def timed(self, kind, within):
        if self.world > 1:
            torch.distributed.barrier()
        before, spent, began = delayed(), time.process_time(), time.perf_counter()
        with within:
            loss = self.step()
        seconds = time.perf_counter() - began
        least = min(seconds, (time.process_time() - spent) / self.job["threads"])
        lost = min(seconds - least, delayed() - before)  # delays of several threads at once are counted several times
        entry = [seconds - lost, lost / seconds]
        if kind == "steps" and self.world > 1:  # a step ends on its last rank and waits for delayed ranks
            entry[0] = seconds
        if self.world > 1:  # all ranks must take the same decision
            agreed = torch.tensor(entry, dtype=torch.float64)
            torch.distributed.all_reduce(agreed, op=torch.distributed.ReduceOp.MAX)
            entry = [float(agreed[0]) if kind == "steps" else entry[0], float(agreed[1])]
        self.seen[kind].append(entry)
        return loss

    def alone(self):
        """Context without gradient all-reduces."""
        return self.model.no_sync() if self.world > 1 else contextlib.nullcontext()

    def record(self):
        number, began = len(self.seen["recorded"]) + 1, time.perf_counter()
        name = f"ProfilerStep#{number}"
        with torch.profiler.profile(record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            with self.alone():
                self.timed("recorded", torch.profiler.record_function(name))
        if self.rank == 0:
            os.makedirs(self.case["trace"], exist_ok=True)
            write_trace(profile, f"{self.case['trace']}/worker0.{number}.pt.trace.json", began, name)

    def finished(self, kind):
        quiet = sum(foreign <= self.job["quiet"] for _, foreign in self.seen[kind])
        # More steps help if some are undisturbed. With one process the delay is known and subtracted.
        most = (3 if quiet and self.world > 1 else 1) * self.job["steps"]
        return quiet >= self.job["steps"] or len(self.seen[kind]) >= most

    def visit(self):
        """Runs one turn; false if the case has enough steps."""
        kinds = ["steps"] if not self.traced or self.world > 1 else []
        kinds += ["alone"] if self.traced else []
        if all(self.finished(kind) for kind in kinds):
            return False
        for _ in range(3 if self.trained == 0 else 1):  # the caches hold data of another case
            self.losses.append(float(self.step().detach()))
        for kind in kinds:
            with self.alone() if kind == "alone" else contextlib.nullcontext():
                self.losses.append(float(self.timed(kind, contextlib.nullcontext()).detach()))
        if self.traced and len(self.seen["recorded"]) < self.job["steps"]:
            self.record()  # last: the profiler's lists evict the model from the caches
        return True


def mixed(cases):
    """The cases in the order of a turn: the recorded and the other ones evenly mixed, so that both meet the same states
    of the machine."""
    places = {}
    for traced in (True, False):
        same = [case for case in cases if case.traced == traced]
        places.update((case, (i + 0.5) / len(same)) for i, case in enumerate(same))
    return sorted(cases, key=places.get)


def main():
    with open(sys.argv[1]) as file:
        job = json.load(file)
    world = int(sys.argv[2])
    rank = next((rank for rank in range(1, world) if os.fork() == 0), 0)
    torch.set_num_threads(job["threads"])
    if world > 1:
        torch.distributed.init_process_group("gloo", "file://" + os.path.abspath(job["out"]) + ".store", rank=rank,
                                             world_size=world)
    cases = [Training(case, job, rank, world) for case in job["cases"]]
    turn = mixed(cases)
    while any([case.visit() for case in turn]):
        pass
    if rank == 0:
        results = [{**case.seen, "first_loss": case.losses[0], "last_loss": case.losses[-1]} for case in cases]
        with open(job["out"] + ".part", "w") as out:
            json.dump({"torch": torch.__version__, "results": results}, out)
        os.replace(job["out"] + ".part", job["out"])
        for _ in range(1, world):
            os.wait()


if __name__ == "__main__":
    main()
