"""Runs operators under the user's own PyTorch for `ett sample`.

Reads one JSON request per line from standard input, runs each pass of the operator and
answers with one JSON line in a file. On a GPU it runs under torch.profiler, which writes a
Kineto trace to the path in the request. There, each pass of each timed iteration is in a range
named "ett forward", "ett backward" or "ett update". On the host the answer holds the wall
seconds of each pass, because a profiler would add its overhead to every operation.

An operator's own code (the field `torch` of its Lua file) is the body of a function with the arguments
    s        its shape, an object with the shape's fields
    tensor   tensor(*sizes, grad=True, dtype=None): random, on the device, in the precision
    index    index(*sizes, high): integers in [0, high)
    torch, F torch and torch.nn.functional
It returns a function without arguments that runs the forward pass and returns its output
(for an optimizer: runs the update and returns None).
"""
import contextlib
import json
import os
import sys
import textwrap
import time
import traceback

import torch
import torch.nn.functional as F

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


class Shape:
    def __init__(self, fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):  # a field that the shape does not have
        return None


def compile_operator(source, name):
    body = textwrap.indent(textwrap.dedent(source), "    ")
    code = "def build(s, tensor, index, torch, F):\n" + body + "\n"
    scope = {}
    # Line 0 is the def above, so line numbers in messages are those of the operator's text.
    exec(compile(code, name + " (torch)", "exec"), scope)
    return scope["build"]


def prepare(request, device):
    dtype = DTYPES[request["dtype"]]
    leaves = []

    def tensor(*sizes, grad=True, dtype=dtype):
        made = torch.randn(*sizes, device=device).to(dtype)
        if grad:
            made.requires_grad_(True)
            leaves.append(made)
        return made

    def index(*sizes, high):
        return torch.randint(0, high, sizes, device=device)

    build = compile_operator(request["source"], request["operator"])
    return build(Shape(request["shape"]), tensor, index, torch, F), leaves


def iterate(run, leaves, passes, within):
    if passes == ["update"]:
        with within("update"):
            run()
        return
    with within("forward"):
        output = run()
    if "backward" not in passes:
        return
    gradient = torch.ones_like(output)
    for leaf in leaves:
        leaf.grad = None
    with within("backward"):
        output.backward(gradient)


def by_clock(iterations, once):
    """Seconds of each pass in every iteration, on the host."""
    seconds = {}

    @contextlib.contextmanager
    def clock(name):
        began = time.perf_counter_ns()
        yield
        seconds.setdefault(name, []).append((time.perf_counter_ns() - began) * 1e-9)

    for _ in range(iterations):
        once(clock)
    return seconds


def by_profiler(iterations, once, path):
    """Writes a trace of every iteration on a GPU."""
    if not torch.profiler.kineto_available():
        raise RuntimeError("this PyTorch was built without Kineto: its profiler records no GPU kernels")
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(iterations):
            once(lambda name: torch.profiler.record_function("ett " + name))
            torch.cuda.synchronize()
    profile.export_chrome_trace(path)


def measure(request, device):
    run, leaves = prepare(request, device)

    def once(within):
        iterate(run, leaves, request["passes"], within)

    for _ in range(request["warmup"]):
        once(contextlib.nullcontext)
    if device == "cpu":
        return {"seconds": by_clock(request["active"], once)}
    by_profiler(request["active"], once, request["trace"])
    return {}


def failure_kind(error):
    text = str(error).lower()
    if "out of memory" in text or "allocate memory" in text or isinstance(error, MemoryError):
        return "memory"
    if "cuda error" in text:  # the CUDA context is lost with it
        return "lost"
    return "model"


def located(error):
    """The error message, preceded by the line number if the error is in the operator's text."""
    if isinstance(error, SyntaxError):
        file, line, text = error.filename or "", error.lineno, error.msg
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "(torch)" in f.filename]
        file, line, text = (frames[-1].filename, frames[-1].lineno, str(error)) if frames else ("", 0, str(error))
    return f"{file}:{max(1, (line or 1) - 1)}: {text}" if "(torch)" in file else text


def answer(path, content):
    with open(path + ".part", "w") as out:
        json.dump(content, out)
    os.replace(path + ".part", path)


def greeting(device):
    hello = {"torch": torch.__version__, "device": "cpu", "threads": torch.get_num_threads(),
             "fused_attention": hasattr(F, "scaled_dot_product_attention")}
    if device != "cpu":
        torch.cuda.set_device(device)
        hello["device"] = torch.cuda.get_device_name(device)
        hello["cuda"] = str(torch.version.cuda)
    return hello


def main():
    device = sys.argv[1] if torch.cuda.is_available() else "cpu"
    answer(sys.argv[2], greeting(device))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(request["answer"], {"ok": True, **measure(request, device)})
        except Exception as error:  # any exception fails only this operator
            answer(request["answer"], {
                "ok": False, "kind": failure_kind(error), "message": located(error)})
        if device != "cpu":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
