-- Every value of reference.json, computed from the real traces beside it.
local check = require "reference_check"
local interval = require "ett.interval"
local json = require "ett.json"
local stats = require "ett.trace.stats"

local list, values, folder = check.list()

describe("reference.json", function()
  if not list then
    pending("the reference traces are not at hand (set ETT_REFERENCE)")
    return
  end

  local compared = 0
  for _, each in ipairs(list) do
    it(each.name, function()
      local found = each.run()
      compared = compared + found.compared
      assert.is_true(found.compared > 0)
      assert.same({}, found.wrong)
    end)
  end

  it("has a compared value for each of its entries", function()
    local leaves = check.leaves(values.aligned) + check.leaves(values.pipeline) + check.leaves(values.tpu)
    for _, entry in ipairs(values.traces) do
      for key, value in pairs(entry) do
        if key ~= "trace" and key ~= "folder" then leaves = leaves + check.leaves(value) end
      end
    end
    assert.equal(leaves + 1, compared) -- and one refusal
  end)

  local function entry_of(name)
    for _, entry in ipairs(values.traces) do if entry.folder == name then return entry end end
  end

  local function rounded(ns) return ns // 1000 + 0.0 + (ns % 1000) / 1000 end

  it("gives its own digits for absolute times with a fraction, when they are rounded as it rounded them", function()
    -- At 1.7e15 us binary64 has quarters of a microsecond. The trace is written again with
    -- each start and end rounded so, and then every value must come out, with no slack.
    local name = "hta_ns_resolution_trace"
    local view = check.run(folder .. "/" .. name, { "device_time" })
    local _ <close> = view
    local t, events = view.trace, {}
    local base = t.origin_ns - (t.files[1].base_ns or 0)
    local start = base // 1000 - 1000 -- shifted, so that a quarter survives being printed
    local function add(class, category)
      local rows = t:events{ class = class }
      local c = stats.columns(rows, { "ts", "dur", "name", "pid", "tid" })
      for i = 1, #rows do
        local from = rounded(base + c.ts[i])
        local to = from + c.dur[i] / 1000
        events[#events + 1] = { ph = "X", cat = category, name = c.name[i], pid = c.pid[i], tid = c.tid[i],
          ts = from - start, dur = to - from, args = { x = 0 } }
      end
    end
    add("kernel", "kernel")
    add("memcpy", "gpu_memcpy")
    add("memset", "gpu_memset")
    add("annotation", "user_annotation")
    local entry = entry_of(name)
    entry.ranks["0"].top_kernel_share = nil -- the reference took this one from dur, which is exact
    local folders = require "ett.base.folder"
    local found = folders.within(function(place)
      folders.write(place .. "/rounded.json",
        json.encode{ distributedInfo = { rank = 0 }, traceEvents = json.array(events) })
      return check.ranks(entry, place, true)
    end)
    assert.same({}, found.wrong)
    assert.equal(found.compared, found.exact)
  end)

  it("gives its own digits for relative times with a fraction, rounded the same way", function()
    local tried = 0
    for _, entry in ipairs(values.traces) do
      local want = entry.ranks["0"]
      if want.busy_us and (entry.folder == "hta_nccl_parser_config" or entry.folder:find("^tracelens")) then
        local view = check.run(folder .. "/" .. entry.folder, { "device_time" })
        local _ <close> = view
        local lane, t = view:lanes()[1], view.trace
        local base, scale = t.origin_ns - (t.files[1].base_ns or 0), 2 ^ 20
        local function set(what)
          local columns, spans = stats.columns(lane:rows(what), { "ts", "dur" }), {}
          for i = 1, #columns.ts do
            local from = rounded(base + columns.ts[i])
            local to = from + columns.dur[i] / 1000
            spans[i] = { math.floor((from % 2 ^ 30) * scale), math.floor((to % 2 ^ 30) * scale) }
          end
          return interval.new(spans)
        end
        local C, K, M, B = set("comm"), set("compute"), set("memory"), set("all")
        assert.near(want.busy_us, B:measure() / scale, 1e-5, entry.folder)
        assert.near(want.comm_union_us, C:measure() / scale, 1e-5, entry.folder)
        assert.near(want.comp_union_us, K:measure() / scale, 1e-5, entry.folder)
        assert.near(want.mem_union_us, M:measure() / scale, 1e-5, entry.folder)
        assert.near(want.overlap_comm_comp_us, (C & K):measure() / scale, 1e-5, entry.folder)
        tried = tried + 1
      end
    end
    assert.is_true(tried >= 4)
  end)
end)
