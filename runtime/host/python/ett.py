"""ett in Python: how long, how much memory and how much money training a large model takes.

    import ett
    step = ett.predict("llama3-70b", "dgx_h100", seq=8192, tp=8, pp=4, dp=8, global_batch=256, zero=1)
    print(step["step_seconds"], step["mfu_percent"])

    best = ett.search("llama3-70b", "dgx_h100", devices=512, seq=8192, global_batch=1024)
    print(best["rows"][0])

Keywords are fields of the plan and hyper-parameters; `ett predict --help MODEL` lists them. Results are those of
`ett COMMAND --json`. A wrong value raises ett.Error. Calls take turns, because ett has one state per process. Ctrl-C
ends a call of the main thread. A model or a cluster may be FILE.lua. `path="folder"`, or a list of folders, finds
operators and other files of your own by name, as `--path` does; they are read again in each call.
"""
import ctypes
import json
import os
import shutil
import threading


class Error(Exception):
    """An error of ett, with its message. `kind` is "usage", "model", "missing", "limit", …"""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind

    def __reduce__(self):  # pickle would call __init__ with the message alone
        return type(self), (self.kind, str(self)), self.__dict__


def _library():
    """Loads libett.so: that of ETT_PREFIX, of the tree that holds this file, or of the `ett` on PATH."""
    here = os.path.dirname(os.path.realpath(__file__))
    prefixes = [os.environ.get("ETT_PREFIX"), os.path.join(here, "..", "..", ".."), "/usr", "/usr/local"]
    command = shutil.which("ett")
    if command:
        prefixes.insert(2, os.path.join(os.path.dirname(os.path.realpath(command)), ".."))
    for prefix in prefixes:
        path = prefix and os.path.join(prefix, "lib", "ett", "libett.so")
        if path and os.path.exists(path):
            return path
    raise ImportError("libett.so is missing; set ETT_PREFIX to the folder that holds lib/ett, such as a build folder")


_c = ctypes.CDLL(_library(), mode=ctypes.RTLD_GLOBAL)
_c.ett_open.restype = ctypes.c_void_p
_c.ett_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
_c.ett_call.restype = ctypes.c_void_p
_c.ett_call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
_c.ett_free.argtypes = [ctypes.c_void_p]
_lock = threading.Lock()


def _open():
    why = ctypes.c_char_p()
    state = _c.ett_open(None, ctypes.byref(why))
    if not state:
        raise ImportError(why.value.decode())
    return state


_state = _open()


def _own(value):
    """A number or an array of another library, such as NumPy, as Python's own."""
    if not hasattr(value, "tolist"):
        raise TypeError("a value must be a number, a string, a list or a dict")
    return value.tolist()


def _encoded(function, name, value):
    """A name and its value as JSON."""
    try:
        return b"%s: %s" % (json.dumps(name).encode(),
                            json.dumps(value, default=_own, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as why:
        raise Error("usage", "%s: '%s' = %r cannot be used: %s" % (function, name, value, why)) from None


def call(function, **arguments):
    """Calls a function of lua/ett/cli/call.lua. Arguments that are None are left out."""
    given = [_encoded(function, name, value) for name, value in arguments.items() if value is not None]
    text = b"{%s}" % b", ".join(given)
    with _lock:
        answer = _c.ett_call(_state, function.encode(), text)
        if not answer:
            raise MemoryError("ett has no memory for its answer")
        try:
            result = json.loads(ctypes.string_at(answer))
        finally:
            _c.ett_free(answer)
    if "error" in result:
        raise Error(result["error"]["kind"], result["error"]["message"])
    return result["value"]


def predict(model, cluster=None, **fields):
    """Predicts one training step, as `ett predict --json`. `tokens=15e12` adds the days and dollars of a run."""
    return call("predict", model=model, cluster=cluster, **fields)


def sweep(model, cluster=None, *, over, **fields):
    """Predicts every combination of the lists in `over`, such as {"tp": [1, 2, 4], "hidden": [4096, 8192]}, as
    `ett sweep --json`."""
    return call("sweep", model=model, cluster=cluster, over=over, **fields)


def search(model, cluster=None, devices=None, **fields):
    """Finds the best plan, as `ett search --json`. `vary`, `where`, `objective`, `tokens`, `days` and `budget` are the
    options of that command."""
    return call("search", model=model, cluster=cluster, devices=devices, **fields)


def list(kind, path=None):
    """The names of a kind: "models", "clusters", "schedules", "stacks", …"""
    return call("list", kind=kind, path=path)
