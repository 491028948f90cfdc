"""A stand-in for PyTorch in the specs of samplers/torch: it computes nothing.

Tensors accept every operation. The profiler writes a Kineto trace in which each range
"ett forward" takes 100 us and launches a kernel of 40 us, and "ett backward" 200 and 90.
FAKE_TORCH_FAIL=oom makes every tensor raise; =die ends the process at the second request.
"""
import json
import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

__version__ = "0.fake"
version = SimpleNamespace(cuda="0")
float16, bfloat16, float32, bool = "float16", "bfloat16", "float32", "bool"
requests = 0


def _tensor(*_args, **_kwargs):
    if os.environ.get("FAKE_TORCH_FAIL") == "oom":
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 EiB")
    made = MagicMock()
    made.to.return_value = made
    made.__getitem__.return_value.chunk.return_value = (MagicMock(), MagicMock())
    made.topk.return_value = (MagicMock(), MagicMock())
    return made


randn = randint = ones = ones_like = randn_like = rand = cat = empty_like = bmm = rsqrt = _tensor
cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None,
                       set_device=lambda name: _tensor.__dict__.update(device=name),
                       get_device_name=lambda name: "Fake GPU 9000" if name == "cuda:0" else "Fake GPU " + name)
optim = SimpleNamespace(AdamW=lambda *a, **k: SimpleNamespace(step=lambda: None))

_ranges = []


class _Range:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _ranges.append(self.name)


class _Profile:
    def __init__(self, activities):
        pass

    def __enter__(self):
        global requests
        requests += 1
        if requests == 2 and os.environ.get("FAKE_TORCH_FAIL") == "die":
            print("Segmentation fault (fake)", file=sys.stderr, flush=True)
            os._exit(139)
        _ranges.clear()
        return self

    def __exit__(self, *_):
        pass

    def export_chrome_trace(self, path):
        events, at, correlation = [], 1000, 0
        for name in _ranges:
            whole, kernel = {"ett forward": (100, 40), "ett backward": (200, 90)}.get(name, (50, 20))
            correlation += 1
            row = {"ph": "X", "pid": 1, "tid": 1}
            events.append({**row, "cat": "user_annotation", "name": name, "ts": at, "dur": whole})
            events.append({**row, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 5, "dur": 3,
                           "args": {"correlation": correlation}})
            events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 20, "dur": kernel,
                           "args": {"correlation": correlation, "stream": 7, "device": 0}})
            at += 1000
        with open(path, "w") as out:
            json.dump({"schemaVersion": 1, "traceEvents": events}, out)


profiler = SimpleNamespace(record_function=_Range, profile=_Profile,
                           ProfilerActivity=SimpleNamespace(CPU="cpu", CUDA="cuda"))
