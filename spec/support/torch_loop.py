"""Seconds of plain PyTorch layers by a loop of its own, for spec/samplers/torch_slow_spec.lua: the smallest of many."""
import json
import sys
import time

import torch

tokens, width = int(sys.argv[1]), int(sys.argv[2])
layers = {"gelu": torch.nn.GELU(approximate="tanh"), "layer_norm": torch.nn.LayerNorm(width),
          "linear_qkv": torch.nn.Linear(width, width, bias=False)}
least = {}
for name, layer in layers.items():
    x = torch.randn(tokens, width, requires_grad=True)
    times = []
    for _ in range(12):
        x.grad = None
        layer.zero_grad(set_to_none=True)
        began = time.perf_counter()
        y = layer(x)
        forward = time.perf_counter() - began
        gradient = torch.randn_like(y)
        began = time.perf_counter()
        y.backward(gradient)
        times.append((forward, time.perf_counter() - began))
    least[name] = {"forward": min(t[0] for t in times), "backward": min(t[1] for t in times)}
print(json.dumps({**least, "fused_attention": hasattr(torch.nn.functional, "scaled_dot_product_attention")}))
