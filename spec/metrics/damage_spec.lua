-- Metrics over damaged traces: an answer or a reason, never a fault of the program.
local json = require "ett.json"
local maker = require "trace_maker"
local metrics = require "ett.trace.metrics"
local trace_view = require "ett.trace.view"
local generator = require("random").integers

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"

local function text_of(random)
  local r = maker.new{ rank = random(2), world = 2 }
  r:step(1, 0, 500):step(2, 500, 500)
  r:host("user_annotation", "execute_context_1(8)_generation_0(0)", 0, 300)
  r:host("user_annotation", "forward_step", 0, 200)
  for i = 1, 12 do
    r:kernel("gemm", 70 * i, 50, { launch = { ts = 70 * i - 40, dur = 5 }, args = { ["blocks per SM"] = 0.5 } })
    r:host("user_annotation", "nccl:all_to_all", 70 * i - 30, 20, { tid = 2, args = { ["Input Dims"] = "[[4,8]]",
      ["Input type"] = '["float"]' } })
    r:kernel(i % 2 == 0 and nccl or "ncclDevKernel_SendRecv(x)", 70 * i + 20, 40, { stream = 20,
      launch = { ts = 70 * i - 25, dur = 5, tid = 2 },
      args = i % 3 > 0 and { ["Collective name"] = "allreduce", ["In msg nelems"] = 100 * i, dtype = "Float",
        ["Group size"] = 2, ["Process Group Ranks"] = "[0, 1]", ["In split size"] = "[1, 2]" } or nil })
  end
  return json.encode(r:document())
end

local function tpu_text()
  local events = {}
  for chip = 0, 1 do
    local function meta(name, value, tid)
      events[#events + 1] = { ph = "M", name = name, pid = 3 + chip, tid = tid, args = { name = value } }
    end
    meta("process_name", "/device:TPU:" .. chip)
    meta("thread_name", "XLA Ops", 3)
    for i = 1, 15 do
      local reduce = i % 3 == 0
      events[#events + 1] = { ph = "X", pid = 3 + chip, tid = 3, name = "psum." .. i, ts = 1000 + 50 * i, dur = 40.5,
        args = { hlo_category = i % 5 > 0 and (reduce and "all-reduce" or "loop fusion") or nil, model_flops = "1000",
          device_duration_ps = "40500000", shape_with_layout = ("bf16[%d,8]{1,0}"):format(i),
          long_name = ("%%x.%d = bf16[8,8]{1,0} %s(bf16[8,8] %%a), replica_groups=[1,2]<=[2]"):format(i,
            reduce and "all-reduce" or "fusion") } }
    end
    for i = 1, 8 do
      local part, opcode = i % 2 == 1 and "start" or "done", i < 5 and "all-gather-" or "async-"
      events[#events + 1] = { ph = "X", pid = 3 + chip, tid = 3, name = "all-gather-" .. part .. ".1",
        ts = 2000 + 50 * i, dur = 1, args = { hlo_category = opcode .. part, shape_with_layout = "f32[8]{0}",
          long_name = ("%%all-gather-%s.1 = f32[8]{0} %s%s(f32[4]{0} %%%s)"):format(part, opcode, part,
            part == "done" and "all-gather-start.1" or "a") } }
    end
  end
  return json.encode{ displayTimeUnit = "ns", metadata = { ["highres-ticks"] = true },
    traceEvents = json.array(events) }
end

local junk = { "null", "-1", "0", "1e308", "99999999999999999999", "\"x\"", "[]", "{}", "true", "0.5",
  "-9223372036854775808", "9223372036854775807", "\"\"" }

--- Replaces a few values or bytes, or cuts the end off.
local function damage(text, random)
  for _ = 1, 1 + random(4) do
    local how = random(4)
    if how == 0 then
      text = text:sub(1, #text - random(#text // 2))
    elseif how == 1 then
      local at = 1 + random(#text)
      text = text:sub(1, at - 1) .. string.char(random(256)) .. text:sub(at + 1)
    else -- the value of some member
      local from = text:find('":', 1 + random(#text), true)
      local stop = from and text:find("[,}]", from + 2)
      if stop then text = text:sub(1, from + 1) .. junk[1 + random(#junk)] .. text:sub(stop) end
    end
  end
  return text
end

describe("metrics of damaged traces", function()
  local list = metrics.load_all(metrics.names())
  local args = metrics.args(list)

  it("give a value or a reason", function()
    local answered, refused = 0, 0
    for seed = 1, 30 do
      local random = generator(seed)
      local folder = maker.folder()
      for rank = 0, 1 do
        local file = io.open(("%s/trace_%d.json"):format(folder, rank), "wb")
        file:write(damage(seed % 3 == 0 and tpu_text() or text_of(random), random))
        file:close()
      end
      local ok, why = pcall(function()
        local view = trace_view.open(folder, { args = args, step = seed % 5 == 0 and 1 or nil,
          window = seed % 7 == 0 and { 0.1, 0.6 } or nil, n_chips = 2, model_params = 1e6, peak_flops = 1e12 })
        if not view then return end
        local _ <close> = view
        for _, metric in ipairs(list) do
          local fine, result, reason = pcall(metrics.compute, metric, view)
          if fine and result then
            answered = answered + 1
            assert.is_string(json.encode(result, { nan = "null" }))
          elseif fine then
            assert.is_string(reason)
            refused = refused + 1
          else -- only a step that the trace has not may be raised
            assert.equal("argument", result.kind, ("seed %d, %s: %s"):format(seed, metric.name, tostring(result)))
          end
        end
      end)
      maker.remove(folder)
      assert.is_true(ok, ("seed %d: %s"):format(seed, tostring(why)))
    end
    assert.is_true(answered > 300, tostring(answered))
    assert.is_true(refused > 150, tostring(refused))
  end)
end)
