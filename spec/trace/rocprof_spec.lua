-- JSON of rocprofv3: dispatches, copies, calls, markers, devices, args, damage.
local command = require "command"
local json = require "ett.json"
local merged = require "ett.base.merged"
local trace = require "ett.trace"

local base = 317095766765000

local function dispatch(i, kernel, agent, more)
  local row = merged({ size = 120, kind = 11, operation = 1, thread_id = 77, correlation_id = { internal = 10 + i,
    external = 0 }, start_timestamp = base + 1000 * i, end_timestamp = base + 1000 * i + 400, dispatch_info = {
      size = 80, agent_id = { handle = agent or 900 }, queue_id = { handle = 3 }, kernel_id = kernel,
      dispatch_id = i } }, more)
  return row
end

local function call(i, operation)
  return { size = 48, kind = 1, operation = operation, thread_id = 77, correlation_id = { internal = 10 + i,
    external = 0 }, start_timestamp = base + 1000 * i - 300, end_timestamp = base + 1000 * i - 100 }
end

local function process()
  return {
    metadata = { pid = 4242, init_time = 1, fini_time = 2 },
    agents = json.array { { id = { handle = 800 }, type = 1 }, { id = { handle = 900 }, type = 2 },
      { id = { handle = 901 }, type = 2 } },
    strings = { buffer_records = json.array { { kind = "NONE", operations = json.array {} },
        { kind = "HIP_RUNTIME_API", operations = json.array { "NONE", "hipLaunchKernel" } },
        { kind = "MEMORY_COPY", operations = json.array { "NONE", "H2D" } } },
      marker_api = json.array { { key = 13, value = "step \"one\"" } } },
    kernel_symbols = json.array { { kernel_id = 7, kernel_name = "_Z4gemm.kd", formatted_kernel_name = "gemm<float>" },
      { kernel_id = 8, kernel_name = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        formatted_kernel_name = "" } },
    buffer_records = {
      kernel_dispatch = json.array { dispatch(1, 7), dispatch(2, 8, 901), dispatch(5, 7, 900,
        { stream_id = { handle = 12 } }) },
      hip_api = json.array { call(1, 1), call(2, 1) },
      memory_copy = json.array { { size = 64, kind = 2, operation = 1, thread_id = 77, correlation_id = { internal = 30,
        external = 0 }, start_timestamp = base, end_timestamp = base + 250, dst_agent_id = { handle = 901 },
        src_agent_id = { handle = 800 }, bytes = 4096 } },
      marker_api = json.array { { size = 48, kind = 5, operation = 0, thread_id = 77, correlation_id = { internal = 13,
        external = 0 }, start_timestamp = base, end_timestamp = base + 9000 } },
      pc_sample_host_trap = json.array { { timestamp = 5 } },
    },
  }
end

describe("JSON of rocprofv3", function()
  local folder = command.each_folder(_ENV)

  local function open(value, options)
    command.write(folder, "rank0.json", type(value) == "string" and value or json.encode(value))
    return trace.open(folder .. "/rank0.json", options or {})
  end

  for _, as in ipairs { "array", "object" } do
    it("has dispatches, copies, calls and markers of an " .. as .. " of processes", function()
      local t <close> = assert(open({ ["rocprofiler-sdk-tool"] = as == "array" and json.array { process() }
        or process() }, { args = { "bytes" } }))
      assert.equal("rocprof", t.files[1].kind)
      assert.same({}, t.warnings)
      local kernels, calls = t:events { class = "kernel" }:sort(), t:events { class = "runtime" }
      assert.same({ "gemm<float>", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "gemm<float>" },
        (kernels:columns { "name" }))
      assert.same({ 0, 1, 0 }, (kernels:columns { "device" }))
      assert.same({ 3, 3, 12 }, (kernels:columns { "stream" }))
      assert.equal(3 * 400, kernels:total())
      assert.equal("hipLaunchKernel", calls:get(1, "name"))
      assert.same({ 11, 12, false }, (kernels:match(calls, "correlation"):columns { "correlation" }))
      local copy = t:events { class = "memcpy" }
      assert.equal("H2D", copy:get(1, "name"))
      assert.equal(1, copy:get(1, "device"))
      assert.equal(4096, copy:get(1, "bytes"))
      assert.equal("step \"one\"", t:events { class = "annotation" }:get(1, "name"))
      assert.equal(7, #t:events())
      assert.equal(base, t.origin_ns + t.start)
    end)
  end

  it("keeps the correlation ids of its processes apart, which each count from 1", function()
    local second = process()
    second.metadata.pid = 4243
    for _, row in ipairs(second.buffer_records.hip_api) do row.thread_id = 78 end
    local t <close> = assert(open { ["rocprofiler-sdk-tool"] = json.array { process(), second } })
    local kernels, calls = t:events { class = "kernel" }, t:events { class = "runtime" }
    assert.same({ 4242, 4242, false, 4243, 4243, false }, (kernels:match(calls, "correlation"):columns { "pid" }))
    assert.same({ 11, 12, 15 }, (kernels:slice(1, 3):columns { "correlation" }))
  end)

  it("gives the metrics the fields they need", function()
    command.write(folder, "rank0.json", json.encode { ["rocprofiler-sdk-tool"] = json.array { process() } })
    local text, status = command.ett(folder, "trace . device_time --json --quiet")
    assert.equal(0, status, text)
    local busy = 0
    for _, lane in pairs(json.decode(text).ranks) do busy = busy + lane.busy_us end
    assert.near(0.4 * 3 + 0.25, busy, 1e-9)
  end)

  it("marks impossible times", function()
    local bad = process()
    bad.buffer_records.kernel_dispatch = json.array { dispatch(1, 7, 900, { end_timestamp = 5 }),
      dispatch(2, 7, 900, { start_timestamp = 0 }), dispatch(3, 7, 900, { start_timestamp = "soon" }), dispatch(4, 99) }
    local t <close> = assert(open { ["rocprofiler-sdk-tool"] = json.array { bad } })
    local codes = {}
    for _, w in ipairs(t.warnings) do codes[w.code] = w.count or 1 end
    assert.same({ 1, 1 }, { codes.negative_dur, codes.no_ts })
    local kernels = t:events { class = "kernel" }
    assert.equal(400, kernels:total())
    assert.equal("kernel_dispatch", kernels:get(#kernels, "name")) -- a kernel without a symbol
  end)

  it("cut anywhere gives the part before the cut, with a warning, and never a wrong sum", function()
    local whole = json.encode { ["rocprofiler-sdk-tool"] = json.array { process() } }
    for cut = 30, #whole - 1, 13 do
      local t = open(whole:sub(1, cut))
      if t then
        assert.is_true(t:events({ class = "kernel" }):total() <= 1200)
        assert.is_true(#t.warnings > 0, cut)
        t:close()
      end
    end
  end)

  it("with random bytes neither hangs nor crashes", function()
    local whole = json.encode { ["rocprofiler-sdk-tool"] = json.array { process() } }
    math.randomseed(7)
    for _ = 1, 300 do
      local at = math.random(30, #whole)
      local t, fault = open(whole:sub(1, at - 1) .. string.char(math.random(0, 255)) .. whole:sub(at + 1))
      if t then
        assert.is_true(#t:events { class = "kernel" } <= 4)
        t:close()
      else
        assert.equal("format", fault.kind)
      end
    end
  end)
end)

describe("database of rocprofv3", function()
  local folder = command.each_folder(_ENV)

  local function database(name, sql)
    local pipe = assert(io.popen(("sqlite3 %q"):format(folder .. "/" .. name), "w"))
    pipe:write(sql)
    return pipe:close()
  end

  -- Tables instead of the views of the same names; columns that ett does not read are left out.
  local sql = [[
    CREATE TABLE kernels(start,end,agent_type_index,queue_id,stream_id,stack_id,pid,tid,name,grid_x);
    INSERT INTO kernels VALUES(1010000,1110000,0,1,0,11,4242,4250,'gemm',64),
      (1020000,1220000,1,2,NULL,12,4242,4250,'ncclDevKernel_Generic_1',8),(1500000,1400000,1,2,5,12,4242,4250,'bad',1);
    CREATE TABLE regions(start,end,category,name,stack_id,pid,tid,extdata);
    INSERT INTO regions VALUES(1000000,1004000,'HIP_RUNTIME_API_EXT','hipLaunchKernel',11,4242,4250,'{}'),
      (1005000,1009000,'HIP_RUNTIME_API','hipLaunchKernel',12,4242,4250,'no JSON'),
      (990000,1400000,'MARKER_CORE_RANGE_API','roctxThreadRangeA',13,4242,4250,'{"message":"step 1"}');
    CREATE TABLE memory_copies(start,end,dst_agent_type,dst_agent_type_index,src_agent_type,src_agent_type_index,
      queue_id,stream_id,stack_id,pid,tid,name,size);
    INSERT INTO memory_copies VALUES(1300000,1350000,'GPU',1,'CPU',0,1,0,14,4242,4250,'HOST_TO_DEVICE',4096),
      (1300000,1350000,'CPU',0,'GPU',0,1,0,15,4242,4250,'DEVICE_TO_HOST',8192);]]

  it("has dispatches, copies, calls and markers", function()
    if not database("rank3_results.db", sql) then return pending("the sqlite3 shell is not installed") end
    local t <close> = assert(trace.open(folder, { args = { "bytes", "grid_x" } }))
    assert.same({ "rocprof", 3 }, { t.files[1].kind, t.files[1].rank })
    local kernels = t:events { class = "kernel" }
    assert.same({ { "gemm", "ncclDevKernel_Generic_1" }, { 100000, 200000 }, { 0, 1 }, { 0, 2 }, { 64, 8 } },
      { kernels:columns { "name" }, kernels:columns { "dur" }, kernels:columns { "device" },
        kernels:columns { "stream" }, kernels:columns { "grid_x" } })
    local launches = kernels:match(t:events { class = "runtime" }, "correlation")
    assert.same({ "hipLaunchKernel", "hipLaunchKernel" }, (launches:columns { "name" }))
    assert.same({ 10000, 15000 }, (launches:columns { "ts" })) -- from the first row, at 990000
    assert.same({ "step 1" }, (t:events({ class = "annotation" }):columns { "name" }))
    local copies = t:events { class = "memcpy" }
    assert.same({ { 4096, 8192 }, { 1, 0 } }, { copies:columns { "bytes" }, copies:columns { "device" } })
    assert.equal("GPU 1 stream 2", kernels:get(2, "thread"))
    assert.matches("negative_dur", require("ett.json").encode(t.warnings))
    local none, why = trace.open(folder, { profile_mode = "nsys" })
    assert.is_nil(none)
    assert.matches("not an Nsight Systems export, as the profile mode requires", tostring(why))
  end)

  it("keeps rows without a category after 65534 categories", function()
    local many = sql .. [[WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 70000)
      INSERT INTO regions SELECT 2000000, 2000001, 'c' || x, 'n', 1, 1, 1, '{}' FROM c;]]
    if not database("many.db", many) then return pending("the sqlite3 shell is not installed") end
    local t <close> = assert(trace.open(folder .. "/many.db"))
    assert.same({ 70000, 2 }, { #t:events { name = "n" }, #t:events { class = "memcpy" } })
    local both = folder .. "/both"
    os.execute(("mkdir '%s' && mv '%s/many.db' '%s/a.db'"):format(both, folder, both))
    assert(database("both/b.sqlite", "CREATE TABLE NVTX_EVENTS(start, end); INSERT INTO NVTX_EVENTS VALUES(1, 2);"))
    local two <close> = assert(trace.open(both, { threads = 1 }))
    local texts = require("ett.json").encode(two.warnings)
    assert.matches("have 65534 categories, and none is left for table NVTX_EVENTS", texts)
  end)

  it("is refused if its tables lack the indexes that its rows need", function()
    if not database("slow.sqlite", [[CREATE TABLE StringIds(id, value);
      CREATE TABLE NVTX_EVENTS(start, end, eventType, globalTid, textId);
      WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
      INSERT INTO StringIds SELECT x, 'a' FROM c;
      INSERT INTO NVTX_EVENTS SELECT id, id + 1, 59, 1, 20001 - id FROM StringIds;]]) then
      return pending("the sqlite3 shell is not installed")
    end
    local none, why = trace.open(folder .. "/slow.sqlite")
    assert.is_nil(none)
    assert.matches("reading its tables takes too long: they lack the indexes", tostring(why))
  end)

  it("is refused if its views never end, or have too few columns", function()
    local endless = [[CREATE VIEW regions AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT
      x AS start, x AS end, 'HIP' AS category, 'n' AS name, 1 AS stack_id, 1 AS pid, 1 AS tid, '{}' AS extdata FROM c;]]
    if not database("endless.db", endless) then return pending("the sqlite3 shell is not installed") end
    local none, why = trace.open(folder .. "/endless.db")
    assert.is_nil(none)
    assert.matches("its views take too long for its size; convert it with `rocpd convert", tostring(why), 1, true)
    assert(database("other.db", "CREATE TABLE kernels(start, end, name);"))
    none, why = trace.open(folder .. "/other.db")
    assert.is_nil(none)
    assert.matches("without the views kernels, memory_copies or regions of rocprofv3", tostring(why))
  end)
end)
