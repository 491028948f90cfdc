-- Chakra execution traces (.et): nodes as rows, their communication, starts by dependencies, damage.
local command = require "command"
local maker = require "perfetto_maker" -- fields of protobuf messages
local merged = require "ett.base.merged"
local trace = require "ett.trace"

local number, bytes, double = maker.number, maker.bytes, maker.double

local function delimited(message)
  local size, length = "", #message
  repeat
    size = size .. string.char(length > 127 and length & 127 | 128 or length)
    length = length >> 7
  until length == 0
  return size .. message
end

local function attribute(name, value)
  if type(value) == "boolean" then return bytes(10, bytes(1, name) .. number(27, value and 1 or 0)) end
  if math.type(value) == "integer" then return bytes(10, bytes(1, name) .. number(9, value)) end
  if type(value) == "number" then return bytes(10, bytes(1, name) .. double(3, value)) end
  return bytes(10, bytes(1, name) .. bytes(29, value))
end

--- { id, name, type, after = ids, packed, start, duration, shapes, name = value of attributes … }
local function node(n)
  local parts = { number(1, n.id), bytes(2, n.name or "n" .. n.id), number(3, n.type or 4) }
  local ids = {}
  for i, id in ipairs(n.after or {}) do ids[i] = number(4, id):sub(2) end
  if n.packed then
    parts[#parts + 1] = bytes(5, table.concat(ids))
  else
    for i, id in ipairs(ids) do parts[#parts + 1] = number(i % 2 == 1 and 4 or 5, 0):sub(1, 1) .. id end
  end
  if n.start then parts[#parts + 1] = number(6, n.start) end
  if n.duration then parts[#parts + 1] = number(7, n.duration) end
  if n.shapes then parts[#parts + 1] = bytes(8, bytes(2, n.shapes)) end
  for name, value in pairs(n.attributes or {}) do parts[#parts + 1] = attribute(name, value) end
  return delimited(table.concat(parts))
end

local metadata = delimited(bytes(1, "0.0.4") .. bytes(2, bytes(1, "schema") .. bytes(29, "1.0.2")))

local function document(nodes)
  local list = { metadata }
  for i, each in ipairs(nodes) do list[i + 1] = node(each) end
  return table.concat(list)
end

local comm = { attributes = { comm_type = 0, comm_size = 4096, pg_name = "7", is_cpu_op = false, stream = 20 } }

describe("Chakra execution traces", function()
  local folder = command.each_folder(_ENV)

  local function open(text, options)
    command.write(folder, "llama.3.et", text)
    return trace.open(folder .. "/llama.3.et", options or {})
  end

  local host = { attributes = { is_cpu_op = true, tid = 9 } }
  local recorded = { merged(host, { id = 1, name = "aten::mm", start = 1000, duration = 10, shapes = "[[4, 8]]" }),
    { id = 2, name = "gemm", start = 1005, duration = 30, attributes = { is_cpu_op = false, stream = 7 } },
    merged(comm, { id = 3, name = "ncclDevKernel_AllReduce_Sum_f16_RING_LL", type = 7, start = 1040, duration = 20 }),
    { id = 4, name = "layer 1", type = 5, start = 1070, duration = 5, attributes = { comm_size = 16, comm_src = 3,
      comm_dst = 4 } },
    { id = 5, type = 2, name = "load", start = 1080, duration = 2 }, { id = 6, type = 1, name = "process groups" } }

  it("has operators, kernels, copies, messages and collectives as rows", function()
    local t <close> = assert(open(document(recorded), { args = { "Input Dims", "Collective name", "In msg nelems",
      "dtype", "Process Group Name", "Src Rank", "Dst Rank" } }))
    assert.equal("chakra", t.files[1].kind)
    assert.equal(3, t.files[1].rank)
    assert.same({}, t.warnings)
    local op, kernels = t:events { class = "cpu_op" }, t:events { class = "kernel" }
    assert.equal("[[4, 8]]", op:get(1, "Input Dims"))
    assert.equal(9, op:get(1, "tid"))
    assert.same({ "gemm", "ncclDevKernel_AllReduce_Sum_f16_RING_LL", "chakra::send layer 1" },
      (kernels:columns { "name" }))
    assert.same({ 5000, 40000, 70000 }, (kernels:columns { "ts" }))
    assert.same({ 30000, 20000, 5000 }, (kernels:columns { "dur" }))
    assert.same({ 7, 20, 1 }, (kernels:columns { "stream" }))
    assert.same({ false, "all_reduce", "send" }, kernels:values "Collective name")
    assert.same({ false, 4096, 16 }, kernels:values "In msg nelems")
    assert.same({ 3, 4 }, { kernels:get(3, "Src Rank"), kernels:get(3, "Dst Rank") })
    assert.equal("load", t:events({ class = "memcpy" }):get(1, "name"))
    assert.equal(5, #t:events())
  end)

  it("has numbers of every field of an attribute", function()
    local fields = { a = number(13, -1), b = number(11, 1 << 31), c = "\xBD\x01" .. ("<i4"):pack(-5),
      d = "\xA9\x01" .. ("<I8"):pack(1 << 63), e = "\x9D\x01" .. ("<I4"):pack(1 << 31), f = number(15, 9),
      g = number(7, -5) }
    local list = number(1, 1) .. bytes(2, "n") .. number(3, 4) .. number(7, 1)
    for name, field in pairs(fields) do list = list .. bytes(10, bytes(1, name) .. field) end
    local t <close> = assert(open(metadata .. delimited(list), { args = { "a", "b", "c", "d", "e", "f", "g" } }))
    assert.same({ a = 2.0 ^ 64, b = 1 << 31, c = -5, d = 2.0 ^ 63, e = 1 << 31, f = -5, g = -5 },
      t:events():event(1).args)
  end)

  it("gives the metrics the fields they need", function()
    command.write(folder, "llama.0.et", document(recorded))
    local text, status = command.ett(folder, "trace . collective_table --json --quiet")
    assert.equal(0, status, text)
    local bytes_of = {}
    for _, row in ipairs(require("ett.json").decode(text).collectives) do bytes_of[row.kind] = row.bytes end
    assert.same({ all_reduce = 4096, send = 16 }, bytes_of)
  end)

  it("takes the sizes of groups from the list beside the trace", function()
    local gather = merged(comm, { id = 7, type = 7, start = 1100, duration = 10, attributes = merged(comm.attributes,
      { comm_type = 2 }) })
    command.write(folder, "llama.0.et", document { recorded[3], gather })
    for text, size in pairs { ['{"7": [0, 4, 8, 12]}'] = 4, ['{"8": [0, 4]}'] = false, ['{"7": 4}'] = false,
      ["no JSON"] = false } do
      command.write(folder, "comm_groups.json", text)
      local printed, status = command.ett(folder, "trace . collective_table --json")
      assert.equal(0, status, printed)
      assert.is_nil(printed:find("comm_groups", 1, true))
      local found = {}
      for _, row in ipairs(require("ett.json").decode(printed).collectives) do found[row.kind] = row end
      assert.equal(size or nil, tonumber(found.all_reduce.group_size), text)
      assert.equal(size and size * 4096, tonumber(found.all_gather.bytes) or false, text)
      assert.near(size and 4096 / 20e3 * 1.5 or 0, tonumber(found.all_reduce.busbw_GBps) or 0, 1e-9)
    end
  end)

  it("places nodes without start times behind their dependencies, one at a time on a stream", function()
    for _, packed in ipairs { false, true } do
      local list = { merged(host, { id = 10, duration = 5 }), merged(host, { id = 11, duration = 5, after = { 10 } }),
        { id = 3, duration = 100, after = { 10 } }, { id = 4, duration = 50, after = { 11, 10 } },
        merged(comm, { id = 5, type = 7, duration = 20, after = { 3, 99 } }),
        { id = 6, duration = 1, after = { 5, 4 } } }
      for _, each in ipairs(list) do each.packed = packed end
      local t <close> = assert(open(document(list)))
      assert.equal("no_starts", t.warnings[1].code)
      assert.equal(1, #t.warnings)
      -- 10 0-5, 11 5-10, 3 5-105, 4 behind it on the stream, 5 behind 3, 6 behind 4 and 5.
      assert.same({ 0, 5000, 5000, 105000, 105000, 155000 }, (t:events():columns { "ts" }))
    end
  end)

  it("survives cycles, repeated ids, wrapped durations and damage", function()
    local t <close> = assert(open(document { { id = 1, duration = 5, after = { 2 } }, { id = 2, duration = 5,
      after = { 1 } }, { id = 2, duration = 7, after = { 2, 1 } }, { id = 3, duration = math.maxinteger },
      { id = 4, duration = 1, after = { 3 } } }))
    local codes = {}
    for _, w in ipairs(t.warnings) do codes[w.code] = w.count end
    assert.same({ no_starts = 1, bad_message = 1, long_dur = 1 }, codes)
    assert.equal(4, #t:events())
    local whole = document(recorded)
    for cut = #metadata + 3, #whole - 1, 7 do
      local part = open(whole:sub(1, cut))
      if part then part:close() end
    end
    local short <close> = assert(open(whole:sub(1, -20)))
    assert.equal("truncated", short.warnings[1].code)
    math.randomseed(5)
    for _ = 1, 300 do
      local at = math.random(#whole)
      local mangled = open(whole:sub(1, at - 1) .. string.char(math.random(0, 255)) .. whole:sub(at + 1))
      if mangled then mangled:close() end
    end
    local none, why = open("not a trace at all, but named like one")
    assert.is_nil(none)
    assert.matches("its content has no format that ett reads", tostring(why))
  end)

  it("gives advice for files without times", function()
    command.write(folder, "et.json", '{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1}]}')
    local none, why = trace.open(folder .. "/et.json")
    assert.is_nil(none)
    assert.matches("an execution trace of PyTorch, which has no times: chakra_trace_link", tostring(why))
    command.write(folder, "run.zip", "PK\3\4" .. ("\0"):rep(26) .. "run.nsys-rep")
    none, why = trace.open(folder .. "/run.zip")
    assert.is_nil(none)
    assert.matches("an archive of nsys%-jax: unpack it", tostring(why))
    command.write(folder, "whole.zip", "PK\3\4" .. ("\0"):rep(70000) .. "nvtx_gpu_proj_trace/trace.parquet PK\5\6")
    none, why = trace.open(folder .. "/whole.zip")
    assert.is_nil(none)
    assert.matches("an archive of nsys%-jax without a report", tostring(why))
    assert(require("lfs").mkdir(folder .. "/several"))
    for _, name in ipairs { "a.zip", "b.zip" } do -- archives in a folder are named too
      command.write(folder, "several/" .. name, "PK\3\4" .. ("\0"):rep(70000) .. "run.nsys-rep PK\5\6")
    end
    none, why = trace.open(folder .. "/several")
    assert.is_nil(none)
    assert.matches("none of its 2 files is one; '.*/several/a.zip': an archive of nsys%-jax: unpack it", tostring(why))
  end)
end)
