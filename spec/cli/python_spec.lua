--- ett from Python: the same numbers as the command line, and its errors.
local command = require "command"
local host = require "ett.host"
local json = require "ett.json"

local library = host.prefix .. "/lib/ett/libett.so"
local missing = not io.open(library) and "libett.so is not built with sanitizers"
  or os.execute "python3 -c 'import ctypes' >/dev/null 2>&1" ~= true and "no python3" or nil

describe("import ett", function()
  local folder
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  local function python(text)
    command.write(folder, "s.py", text)
    return command.shell(("cd '%s' && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='%s/runtime/host/python' ETT_PREFIX='%s' "
      .. "timeout 300 python3 s.py"):format(folder, host.root, host.prefix))
  end

  it("predicts and sweeps like the command line", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett, json
fields = dict(seq=4096, tp=4, dp=2, micro_batches=8, zero=1)
print(json.dumps(ett.predict("llama3-8b", "dgx_h100", tokens=1e9, **fields)))
print(json.dumps(ett.sweep("llama", "dgx_h100", over={"tp": [1, 2], "layers": [4, 8]}, hidden=1024, heads=8,
                           vocab=1000, seq=128, micro_batches=4)))
]]
    assert.equal(0, status, output)
    local step, sweep = output:match("^(.-)\n(.-)\n$")
    local cli = command.ett(folder,
      "predict --model llama3-8b --cluster dgx_h100 --tokens 1e9 --json seq=4096 tp=4 dp=2 micro_batches=8 zero=1")
    assert.same(json.decode(cli), json.decode(step))
    cli = command.ett(folder, "sweep --model llama --cluster dgx_h100 --json tp=1,2 hidden=1024 layers=4,8 heads=8 "
      .. "vocab=1000 seq=128 micro_batches=4")
    assert.same(json.decode(cli), json.decode(sweep))
  end)

  it("lists the names of the command line", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett
print("\n".join(ett.list("examples")))
]]
    assert.same({ (command.ett(folder, "list examples --quiet")), 0 }, { output, status })
  end)

  it("passes every argument of a search that JSON can state", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett
best = ett.search("llama3-8b", devices=8, seq=4096, global_batch=8, tokens=1e9, kwh=1e6, each=True,
                  vary={"cluster": ["dgx_h100", "dgx_b200"]})
print(sorted({row["cluster"] for row in best["rows"]}))
try:
    ett.search("llama3-8b", devices=8, seq=4096, global_batch=8, journal="x")
except ett.Error as error:
    print("refused", "journal" in str(error))
try:
    ett.search("llama3-8b", devices=8, seq=4096, global_batch=8, tokens=1e12, days=1)
except ett.Error as error:
    print(error.kind, str(error)[:50])
]]
    assert.same({ "['dgx_b200', 'dgx_h100']\nrefused True\n"
      .. "limit search: no plan meets the limit of days, 1; the le\n", 0 }, { output, status })
  end)

  it("takes numbers and arrays of other libraries, and names a value that it cannot pass", function()
    if missing then pending(missing) return end
    local output, status = python [=[
import ett
class Int64:
    def __init__(self, value): self.value = value
    def tolist(self): return self.value
one = dict(seq=Int64(128), micro_batches=1)
print([row["tp"] for row in ett.sweep("llama3-8b", over={"tp": Int64([2, 1])}, **one)["rows"]])
for tp in float("nan"), object, "\udcff":
    try:
        ett.predict("llama3-8b", tp=tp, **one)
    except ett.Error as error:
        print(error.kind, str(error).split(" cannot")[0])
]=]
    assert.same({ "[2, 1]\nusage predict: 'tp' = nan\nusage predict: 'tp' = <class 'object'>\n"
      .. "usage predict: 'tp' = '\\udcff'\n", 0 }, { output, status })
  end)

  it("takes the cluster that the command line takes if none is named", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett
fields = dict(seq=4096, micro_batches=8)
print(ett.predict("llama3-8b", **fields)["cluster"], ett.sweep("llama3-8b", over={"tp": [1, 2]}, **fields)["cluster"],
      ett.search("llama3-8b", devices=8, seq=4096, global_batch=8)["best"]["estimate"]["cluster"])
]]
    assert.equal(0, status, output)
    local cli = command.ett(folder, "predict --model llama3-8b seq=4096 micro_batches=8 --json")
    local name = json.decode(cli).cluster
    assert.equal(("%s %s %s\n"):format(name, name, name), output)
  end)

  it("names the file of a fault, as the command line does", function()
    if missing then pending(missing) return end
    command.write(folder, "bad.lua", 'return { architecture = "llama", hyper = {}, summary = "s", source = "s" }')
    local output, status = python [[
import ett
try:
    ett.predict("bad.lua", "dgx_h100", seq=128, micro_batches=1)
except ett.Error as error:
    print(error)
]]
    assert.same({ "bad.lua: missing field 'parameters' (a positive number)\n", 0 }, { output, status })
  end)

  it("is refused with ETT_SANDBOX=1: the process of another language cannot enter the sandbox", function()
    if missing then pending(missing) return end
    command.write(folder, "m.lua", "os.execute 'touch ran' return {}")
    local output, status = python [[
import os
os.environ["ETT_SANDBOX"] = "1"
import ett
try:
    ett.predict("m.lua", "dgx_h100", seq=128, micro_batches=1)
except ett.Error as error:
    print(error)
]]
    assert.equal(0, status, output)
    assert.equal("calls from other languages do not run in the sandbox; unset ETT_SANDBOX if you trust the files\n",
      output)
    assert.is_nil(command.read(folder, "ran"))
  end)

  it("runs the lines of its own help", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett, re
lines = re.findall(r"^    (.*)$", ett.__doc__, re.M)
assert len(lines) > 4
exec("\n".join(lines).replace("devices=512", "devices=64").replace("global_batch=1024", "global_batch=128"))
]]
    assert.equal(0, status, output)
    assert.matches("^[%d.]+ [%d.]+\n{.*'step_seconds': [%d.]+.*}\n$", output)
  end)

  it("keeps the decimal point under a locale with a comma, also in scripts", function()
    if missing then pending(missing) return end
    command.write(folder, "comma", 'LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n'
      .. 'LC_CTYPE\ncopy "POSIX"\nEND LC_CTYPE\n')
    command.shell(("localedef -c -i %s/comma -f ANSI_X3.4-1968 %s/xx"):format(folder, folder))
    local output, status = python [[
import ett, locale, os
def step():
    return ett.predict("gpt", layers=2, hidden=256, heads=4, vocab=1000, seq=128, micro_batches=2, jitter=0.25)
before = step()
os.environ["LOCPATH"] = os.getcwd()
try:
    locale.setlocale(locale.LC_NUMERIC, "xx")
except locale.Error:
    raise SystemExit(77)
print(step() == before, locale.localeconv()["decimal_point"])
]]
    if status == 77 then pending "localedef makes no locale here" return end
    assert.equal("True ,\n", output)
    command.write(folder, "s.lua", 'print(os.setlocale "xx", os.setlocale(), ("%.1f"):format(1.5), tonumber "1.5")')
    assert.equal("nil\tC\t1.5\t1.5\n", (command.ett(folder, "run s.lua", "LOCPATH=.")))
  end)

  it("raises ett.Error with the sentence of the command line, and continues", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett
for call in (lambda: ett.predict("llama3-8b", "dgx_h100", seq=4096, micro_batches=1, tpp=2),
             lambda: ett.predict("llama3-9b"),
             lambda: ett.predict("llama3-8b", "dgx_h100", seq=4096, micro_batches=1, tp="x"),
             lambda: ett.predict("llama3-8b", 5, seq=4096),
             lambda: ett.predict(None),
             lambda: ett.sweep("llama3-8b", over=[1]),
             lambda: ett.sweep("llama", over={"hidden": [1024]}, hidden=2048, seq=128, micro_batches=1),
             lambda: ett.list("zebras"),
             lambda: ett.call("os.execute"),
             lambda: ett.predict("llama3-8b", seq=float("nan")),
             lambda: ett.predict("llama3-8b\0x", seq=1)):
    try:
        call()
        print("no error")
    except ett.Error as error:
        print(error.kind, error, sep=": ")
print("clusters" if "dgx_h100" in ett.list("clusters") else "none")
]]
    assert.equal(0, status, output)
    assert.is_nil(output:match "no error", output)
    assert.is_nil(output:match "internal: ", output)
    assert.is_nil(output:match "traceback", output)
    assert.is_truthy(output:find("usage: predict: unknown field 'tpp'; did you mean 'pp'?\n", 1, true), output)
    assert.is_truthy(output:find("usage: sweep: field 'hidden' is both fixed and swept", 1, true), output)
    assert.is_truthy(output:find("field 'tp' must be a positive integer, got 'x'", 1, true), output)
    assert.is_truthy(output:find("ett has no function 'os.execute' for other languages", 1, true), output)
    assert.matches("clusters\n$", output)
  end)

  it("raises the Error of a process of a pool, with its kind and sentence", function()
    if missing then pending(missing) return end
    local output, status = python [[
import copy, ett, multiprocessing, pickle
def plan(tp):
    return ett.predict("llama3-8b", seq=4096, micro_batches=1, tp=tp)["step_seconds"]
if __name__ == "__main__":
    error = ett.Error("plan", "no")
    for same in pickle.loads(pickle.dumps(error)), copy.copy(error):
        print(type(same) is ett.Error, same.kind, same)
    with multiprocessing.Pool(1) as pool:
        try:
            pool.map(plan, [1, 7])
        except ett.Error as error:
            print(error.kind, error)
]]
    assert.equal(0, status, output)
    assert.matches("^True plan no\nTrue plan no\nplan .*tp = 7 must divide", output)
  end)

  it("ends a call at Ctrl-C, after the program's handler, and a call that catches it at the second", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett, os, signal, threading, time
def write(name, text):
    with open(name, "w") as file:
        file.write(text)
write("loop.lua", "while true do end")
write("stubborn.lua", "while true do pcall(function() while true do end end) end")
fields = dict(layers=2, hidden=256, heads=4, vocab=1000, seq=128, micro_batches=1)
before = ett.predict("gpt", **fields)
def interrupted(model, count):
    done = threading.Event()
    def press():
        for _ in range(count):
            if not done.wait(0.5):
                os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        return ett.predict(model, **fields)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except ett.Error as error:
        return error.kind
    finally:
        done.set()
        thread.join()
print(interrupted("./loop.lua", 1))
print(ett.predict("gpt", **fields) == before, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
print(interrupted("./loop.lua", 1), len(seen))
print(interrupted("./stubborn.lua", 2), len(seen) > 1)
]]
    assert.same({ "KeyboardInterrupt\nTrue True\ninterrupt 1\ninterrupt True\n", 0 }, { output, status })
  end)

  it("finds files of your own in `path`, and reads them again in each call", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett, os
os.makedirs("own/more")
os.makedirs("own/clusters")
operator = """local op = { name = "%s", summary = "x", schema = { tokens = "count" } }
function op.shape(c) return { tokens = c.micro_batch * c.seq } end
function op.flops(s) return 1.0 * s.tokens end
function op.bytes(s) return %g * s.tokens end
return op
"""
cluster = """return { name = "lab", summary = "x", source = "x", gpus_per_node = 8, profile = { base = "perlmutter" },
  device = { name = "d", source = "x", peak_flops = { fp16 = 3e14, bf16 = 3e14 }, memory_bytes = 80e9,
    memory_bandwidth = %g, multiprocessors = 108 },
  links = { intra = { bandwidth = 200e9, source = "x" },
    inter = { bandwidth_per_gpu = 20e9, bandwidth_per_node = 160e9, source = "x" } } }
"""
def write(name, text):
    with open(name, "w") as file:
        file.write(text)
def step(path, name="slow"):
    return ett.predict("llama", "lab", hidden=256, layers=2, heads=4, vocab=1000, seq=1024, micro_batches=1,
                       encoder_function_list=["rms_norm", "linear_qkv", "flash_attention", "linear_proj", name],
                       path=path)["step_seconds"]
write("own/slow.lua", operator % ("slow", 1e6))
write("own/clusters/lab.lua", cluster % 1e12)
first = step("own")
write("own/slow.lua", operator % ("slow", 2e6))
second = step(["own"])
write("own/clusters/lab.lua", cluster % 2e12)
third = step("own")
write("own/more/slower.lua", operator % ("slower", 8e6))
fourth = step(["own", "own/more"], "slower")
print(first < second, third < second, fourth > third)
print("lab" in ett.list("clusters", path="own"), "lab" in ett.list("clusters"))
for path in "nowhere", 5, [5]:
    try:
        step(path)
        print("no error")
    except ett.Error as error:
        print(error)
]]
    assert.equal(0, status, output)
    assert.equal("True True True\nTrue False\n--path: 'nowhere' is not a folder\n"
      .. "predict: argument 'path' must be a list, got 5\npredict: argument 'path' must be a string, got 5\n", output)
  end)

  it("may be called by several threads, one after another", function()
    if missing then pending(missing) return end
    local output, status = python [[
import ett, threading
seen = []
def work():
    for _ in range(5):
        seen.append(ett.predict("llama3-8b", "dgx_h100", seq=4096, micro_batches=8)["step_seconds"])
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(seen), len(set(seen)))
]]
    assert.equal(0, status, output)
    assert.equal("20 1\n", output)
  end)

  it("names the folders that are searched for libett.so", function()
    if missing then pending(missing) return end
    local output = command.shell(("cd '%s' && cp '%s/runtime/host/python/ett.py' . && PATH=/usr/bin:/bin python3 -B -c "
      .. "'import ett' 2>&1 | tail -1"):format(folder, host.root))
    assert.matches("^ImportError: libett.so is missing; set ETT_PREFIX", output)
  end)
end)
