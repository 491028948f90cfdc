--- `ett sample` with kernels that never end, and with operators that request missing resources.
local command = require "command"
local ended = command.ended
local lfs = require "lfs"

if not require("needs").cpu("ett sample", _ENV) then return end

local folder = command.each_folder(_ENV)
local function run(arguments, before) return command.ett(folder, arguments, before) end
local function write(name, text) command.write(folder, name, text) end

--- Calls check(words before ett, seconds of the limit) until it returns true, each time with a longer limit. On a busy
--- machine any shape may exceed a short limit.
local function with_limit(check)
  for _, seconds in ipairs { 0.3, 3, 30 } do
    if check(("ETT_KERNEL_SECONDS=%g timeout 300"):format(seconds), seconds) then return end
    command.remove(folder .. "/samples")
  end
end

--- The processors that so many threads would be pinned to; nil if this process may use fewer.
local function pinned(threads)
  local cpu = require "ett.cpu"
  local list = cpu.pin(-1, threads)
  cpu.unpin()
  return list
end

--- An operator of one dimension, and a campaign of its values.
local function operator(name, body, values)
  write(("operators/%s.lua"):format(name), ([[
local op = { name = "%s", summary = "of a spec", schema = { n = "count" } }
function op.shape(c) return { n = c.seq } end
function op.flops(s) return 1.0 * s.n end
function op.bytes(s) return 4.0 * s.n end
%s
return op
]]):format(name, body))
  write("c.lua", ("return { name = 'c', backend = 'cpu', visits = 1, cold_bytes = 1 << 20, "
    .. "min_repeats = 1, max_repeats = 1, "
    .. "samples = { { operator = '%s', shapes = { n = { %s } } } } }"):format(name, values))
end

local function rows(text)
  local path = text:match("(%S+%.csv): ")
  local file, done, failed = assert(io.open(folder .. "/" .. path)), {}, {}
  for line in file:lines() do
    if line:match("^%d") then done[#done + 1] = line:match("^%d+") end
    local key, reason = line:match("^#! failed: (%d+): (.*)")
    if key then failed[key] = reason end
  end
  file:close()
  return done, failed
end

describe("ett sample", function()
  before_each(function() lfs.mkdir(folder .. "/operators") end)

  local sleeper = "function op.cpu(s) return { { kind = 'sleep', microseconds = s.n } } end"

  it("records a kernel that exceeds the time limit, and continues", function()
    operator("sleeper", sleeper, "1, 300000000, 2")
    local done, failed, reason
    with_limit(function(short, seconds)
      done, failed = rows(ended(0, run("sample c.lua --quiet", short)))
      reason = ("limit: sleeper: one run of its forward pass: did not end within %g seconds (ETT_KERNEL_SECONDS sets "
        .. "the limit)"):format(seconds)
      if #done < 2 then return end
      assert.matches("0 measured, 0 failed", (run("sample c.lua --quiet", short)))
      return true
    end)
    assert.same({ "1", "2" }, done)
    assert.equal(reason, failed["300000000"])
  end)

  it("names a kernel that does not end if its threads cannot be stopped; rows remain", function()
    if not pinned(2) then pending "this process may use one processor only" end
    operator("sleeper", sleeper, "1, 300000000, 2")
    local text, reason
    with_limit(function(short, seconds)
      text = ended(1, run("sample c.lua --quiet --threads 2", short))
      reason = ("ett: sleep with microseconds = 300000000 did not end within %g seconds (ETT_KERNEL_SECONDS sets "
        .. "the limit) on 2 threads, which cannot be stopped; the rows so far are saved; exclude the shape with "
        .. "'where'"):format(seconds)
      return text:find(reason, 1, true)
    end)
    assert.matches(reason, text, 1, true)
  end)

  it("records an endless loop in the operator's Lua code, and continues", function()
    operator("looper", "function op.cpu(s)\n  while s.n == 7 do pcall(string.rep, 'x', 1) end\n"
      .. "  return { { kind = 'scale', rows = s.n, cols = 8 } }\nend", "3, 7, 5")
    local done, failed, reason
    with_limit(function(short, seconds)
      done, failed = rows(ended(0, run("sample c.lua --quiet", short)))
      reason = ("looper.lua:6: this Lua code ran longer than %g seconds"):format(seconds)
      return #done == 2
    end)
    assert.same({ "3", "5" }, done)
    assert.matches(reason, failed["7"], 1, true)
  end)

  it("chooses shapes although a constraint of the operator never ends", function()
    operator("looper", "op.constraints = { { 'n must end', function(s) while s.n == 7 do end return true end } }\n"
      .. "function op.cpu(s) return { { kind = 'scale', rows = s.n, cols = 8 } } end", "3, 7, 5")
    local done
    with_limit(function(short)
      done = rows(ended(0, run("sample c.lua --quiet --active", short)))
      table.sort(done)
      return #done == 2
    end)
    assert.same({ "3", "5" }, done)
  end)

  it("ends the check of an operator whose kernel never ends", function()
    operator("looper", "function op.kernel(k, s)\n  while true do\n  end\nend", "3")
    local text, reason
    with_limit(function(short, seconds)
      text = ended(1, run("sample c.lua --quiet", short))
      reason = ("looper.lua:6: this Lua code ran longer than %g seconds"):format(seconds)
      return text:find(reason, 1, true)
    end)
    assert.matches(reason, text, 1, true)
  end)

  it("pins its threads, says where, and refuses more than there are processors", function()
    operator("scaler", "function op.cpu(s) return { { kind = 'scale', rows = s.n, cols = 8 } } end", "3")
    local own = pinned(1)[1] -- processor 0 may belong to others
    for threads = 1, pinned(2) and 2 or 1 do
      local text = ended(0, run(("sample c.lua --quiet --threads %d --device %d --out t%d"):format(threads, own,
        threads)))
      local file = assert(io.open(folder .. "/" .. text:match("(%S+%.csv): ")))
      assert.matches((threads == 1 and "# threads: 1 pinned to processor %d\n"
        or "# threads: 2 pinned to processors %d, %%d+\n"):format(own), file:read("a"))
      file:close()
    end
    local text = ended(1, run "sample c.lua --quiet --threads 1000")
    assert.matches("ett: 1000 threads need 1000 processors, this process may use %d+\n", text)
    local alone = ("taskset -c %d "):format(own)
    if os.execute(alone .. "true 2>/dev/null") then
      assert.matches("2 threads need 2 processors, this process may use 1",
        (run("sample c.lua --quiet --threads 2 --out u", alone .. "timeout 300")))
    end
  end)

  it("names the operator's file if it uses a primitive that the back end lacks", function()
    operator("odd", "function op.cpu(s)\n  return s.n == 1 and { { kind = 'scalee', rows = 1, cols = 1 } }\n"
      .. "    or { { kind = 'scale', rows = 1, columns = 1 } }\nend", "1, 2")
    local _, failed = rows((run "sample c.lua --quiet"))
    assert.equal("model: ./operators/odd.lua: its forward pass on the CPU: the CPU back end has no kernel 'scalee'; "
      .. "it has linear, gemm, bmm, attention, layer_norm, rms_norm, softmax, cross_entropy, embedding, router, gelu, "
      .. "swiglu, add, scale, dropout, bias_dropout_add, mask_fill, rope, adam, sleep",
      failed["1"])
    assert.equal("model: ./operators/odd.lua: its forward pass on the CPU: scale: missing dimension 'cols'",
      failed["2"])
  end)
end)

describe("the limit on Lua", function()
  local limit = require "ett.sampling.limit"

  it("leaves out a function of ett's own, and is there again after it", function()
    local before, inside, after, results, refused
    assert(limit.call(function()
      before = debug.gethook()
      results = { limit.outside(function(...)
        inside = debug.gethook()
        return ...
      end, 1, nil, 3) }
      refused = select(2, pcall(limit.outside, error, "no", 0))
      after = debug.gethook()
    end))
    assert.is_function(before)
    assert.is_nil(inside)
    assert.equal(before, after)
    assert.same({ 1, nil, 3 }, results)
    assert.matches("no", tostring(refused))
    assert.is_nil((debug.gethook()))
  end)
end)
