"""A plain PyTorch GPT for `ett validate --backend torch`: trained for a few steps, timed, and recorded.

    train.py JOB.json RANK WORLD

JOB.json: {"threads", "out", "cases": [{"layers", "hidden", "heads", "seq", "batch", "vocab", "steps", "trace"}]}.
Every case is trained for `steps` steps by the clock. With "trace" (a folder) three more steps are recorded by
torch.profiler into trace/rankR.json. Rank 0 writes the seconds of every case to "out". The model knows nothing of ett.
"""
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


def write_trace(profile, path, rank, world):
    """The trace that PyTorch with Kineto writes; without Kineto its events, which have shapes only here."""
    if torch.profiler.kineto_available():
        profile.export_chrome_trace(path)
        return
    events, steps = [], 0
    for e in profile.events():
        args = {"Input Dims": e.input_shapes} if e.input_shapes else {}
        if e.sequence_nr >= 0:
            args["Sequence number"] = e.sequence_nr
        name = e.name
        if name.startswith("ProfilerStep"):  # these events have lost their number
            steps += 1
            name = f"ProfilerStep#{steps}"
        noted = name.startswith(("ProfilerStep", "Optimizer."))
        events.append({"ph": "X", "cat": "user_annotation" if noted else "cpu_op", "name": name, "pid": 1,
                       "tid": e.thread, "ts": 1e6 + e.time_range.start, "dur": e.time_range.end - e.time_range.start,
                       "args": args})
        if e.input_shapes:
            args["Input type"] = ["float"] * len(e.input_shapes)
    with open(path, "w") as out:
        json.dump({"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world},
                   "traceEvents": events}, out)


def train(c, rank, world):
    torch.manual_seed(1)
    model = GPT(c)
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randint(c["vocab"], (c["batch"], c["seq"] + 1)) for _ in range(4)]

    def step(i):
        ids = batches[i % 4]
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, c["vocab"]), ids[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    def timed(count, within):
        seconds = []
        for i in range(count):
            if world > 1:
                torch.distributed.barrier()
            began = time.perf_counter()
            with within(i):
                step(i)
            seconds.append(time.perf_counter() - began)
        return seconds

    class Nothing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    first = float(step(0).detach())
    timed(2, lambda i: Nothing())
    result = {"seconds": timed(c["steps"], lambda i: Nothing())}
    result["first_loss"], result["last_loss"] = first, float(step(0).detach())
    if c.get("trace"):
        with torch.profiler.profile(record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            result["recorded"] = timed(3, lambda i: torch.profiler.record_function(f"ProfilerStep#{i + 1}"))
        os.makedirs(c["trace"], exist_ok=True)
        write_trace(profile, f"{c['trace']}/rank{rank}.json", rank, world)
    return result


def main():
    with open(sys.argv[1]) as file:
        job = json.load(file)
    rank, world = int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(job["threads"])
    if world > 1:
        torch.distributed.init_process_group("gloo", "file://" + os.path.abspath(job["out"]) + ".store", rank=rank,
                                             world_size=world)
    results = [train(case, rank, world) for case in job["cases"]]
    if rank == 0:
        with open(job["out"] + ".part", "w") as out:
            json.dump({"torch": torch.__version__, "results": results}, out)
        os.replace(job["out"] + ".part", job["out"])


if __name__ == "__main__":
    main()
