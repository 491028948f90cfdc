"""A plain PyTorch GPT that knows nothing of ett: trained for a few steps and recorded by torch.profiler.

    torch_gpt.py OUT WORLD ...

Trains with each of these numbers of processes in turn, several by DistributedDataParallel over gloo. Writes
OUT/WORLD/rankN.json. Rank 0 prints WORLD and the seconds of each recorded step by the clock. The processes are forked:
importing PyTorch takes longer than the training.
"""
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

layers, hidden, heads, seq, batch, vocab = 2, 64, 2, 32, 2, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, heads, -1).chunk(3, -1)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.proj((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(seq))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(out, rank, world):
    torch.manual_seed(1)
    model = GPT()
    if world > 1:
        torch.distributed.init_process_group("gloo", f"file://{out}/store", rank=rank, world_size=world)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        ids = torch.randint(vocab, (batch, seq + 1))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocab), ids[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    seconds = []
    with torch.profiler.profile(record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for i in range(3):
            began = time.perf_counter()
            with torch.profiler.record_function(f"ProfilerStep#{i}"):
                step()
            seconds.append(time.perf_counter() - began)
    profile.export_chrome_trace(f"{out}/rank{rank}.json")
    if rank == 0:
        print("".join(f"{world} {s:.6f}\n" for s in seconds), end="", flush=True)


for world in (int(word) for word in sys.argv[2:]):
    out = os.path.abspath(f"{sys.argv[1]}/{world}")
    os.makedirs(out)
    for rank in range(world):
        if os.fork() == 0:
            train(out, rank, world)
            os._exit(0)  # without the end of an interpreter that shares its memory
    for _ in range(world):
        if os.wait()[1] != 0:
            sys.exit("a process failed")
