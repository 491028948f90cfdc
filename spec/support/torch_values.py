"""Runs operators of ett under PyTorch in fp32 for spec/samplers/torch_values_slow_spec.lua: one request a line (JSON), one answer.

A request holds an operator's name, Python source, shape and passes. The answer holds its tensors, as flat lists under
the names of its source, the output and the gradient of each leaf. The output's own gradient is random.
"""
import json
import sys
import types

import torch

sys.path.insert(0, sys.argv[1])
import worker  # noqa: E402  samplers/torch/worker.py


def variables(function, found):
    """The variables that a function encloses, by name, and those of functions among them."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if name not in found:
            found[name] = cell.cell_contents
            if isinstance(found[name], types.FunctionType):
                variables(found[name], found)
    return found


def flat(tensor):
    return tensor.detach().to(torch.float64).flatten().tolist()


def joined(tensors):
    return [x for tensor in tensors for x in flat(tensor)]


for line in sys.stdin:
    request = json.loads(line)
    torch.manual_seed(7)
    request["dtype"] = "fp32"
    run, leaves = worker.prepare(request, "cpu")
    if request["passes"] == ["update"]:
        before, gradient = joined(leaves), joined(leaf.grad for leaf in leaves)
        run()
        print(json.dumps({"before": before, "gradient": gradient, "after": joined(leaves)}), flush=True)
        continue
    found = {name: v for name, v in variables(run, {}).items() if isinstance(v, torch.Tensor)}
    output = run()
    gradient = torch.randn_like(output)
    output.backward(gradient)
    print(json.dumps({
        "v": {name: flat(tensor) for name, tensor in found.items()}, "y": flat(output), "dy": flat(gradient),
        "d": {name: flat(tensor.grad) for name, tensor in found.items() if tensor.grad is not None}}), flush=True)
