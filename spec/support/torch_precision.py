"""Bytes of PyTorch's operators for spec/step/autocast_slow_spec.lua: tokens, hidden, ffn as arguments.

Prints one JSON object: bytes that a block of a Llama without attention moves (forward, backward) and stores, with
weights in bf16 and under autocast; and bytes per parameter of AdamW with foreach.
"""
import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

tokens, hidden, ffn = (int(word) for word in sys.argv[1:])


def tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def place(tensor):
    return tensor.storage().data_ptr()


class Count(TorchDispatchMode):
    """Counts each operand once, and each result unless it is a view."""
    total = 0

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        read = {place(each): each for each in tensors((args, kwargs))}
        written = [each for each in tensors(out) if place(each) not in read]
        name = str(function)
        if name.startswith("aten._foreach"):
            written = args[0] if name.split(".")[1].endswith("_") else written
        elif not written:
            read = {}
        for each in list(read.values()) + list(written):
            self.total += each.numel() * each.element_size()
        return out


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        linear = torch.nn.Linear
        self.first, self.second = Norm(), Norm()
        self.q, self.k, self.v, self.o = (linear(hidden, hidden, bias=False) for _ in range(4))
        self.gate, self.up = linear(hidden, ffn, bias=False), linear(hidden, ffn, bias=False)
        self.down = linear(ffn, hidden, bias=False)

    def forward(self, x):
        y = self.first(x)
        x = x + self.o(self.q(y) + self.k(y) + self.v(y))
        y = self.second(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def counted(autocast):
    block = Block() if autocast else Block().bfloat16()
    x = torch.randn(tokens, hidden, dtype=block.q.weight.dtype, requires_grad=True)
    weights, stored = {place(weight) for weight in block.parameters()}, {}

    def pack(tensor):
        if place(tensor) not in weights:
            stored[place(tensor)] = tensor
        return tensor

    with Count() as forward, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = block(x)
    gradient = torch.randn_like(y)
    with Count() as backward:
        y.backward(gradient)
    bytes_stored = sum(each.storage().nbytes() for each in stored.values())
    return {"forward": forward.total, "backward": backward.total, "stored": bytes_stored}


def foreach():
    weights = [torch.randn(256, 256, requires_grad=True) for _ in range(3)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    adam = torch.optim.AdamW(weights, foreach=True)
    adam.step()
    with Count() as count:
        adam.step()
    return count.total / sum(weight.numel() for weight in weights)


version = [int(word) for word in torch.__version__.split(".")[:2]]
print(json.dumps({"plain": counted(False), "autocast": counted(True), "foreach": foreach(), "version": version}))
